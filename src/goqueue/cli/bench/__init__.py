"""`goqueue bench`: how fast a server takes messages, gives them out, and does both."""

from goqueue.cli.bench.commands import bench

__all__ = ["bench"]
