"""Metrics as values: histograms, families of samples, and their text for Prometheus."""

from goqueue.metrics.exposition import expose
from goqueue.metrics.family import Family, Kind, Sample
from goqueue.metrics.histogram import BATCH_SIZES, SECONDS, Bounds, Histogram

__all__ = [
    "BATCH_SIZES",
    "SECONDS",
    "Bounds",
    "Family",
    "Histogram",
    "Kind",
    "Sample",
    "expose",
]
