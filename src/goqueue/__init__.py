"""GoQueue: one append-only log, read as a stream and as a queue."""

from goqueue._twin import prefer_sources

__all__ = ["__version__"]

__version__ = "0.1.0"

prefer_sources()
