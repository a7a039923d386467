"""What of a log may go: whole segments by age and size, records that newer ones replaced."""

from goqueue.log.removal.cleaning import Cleaning
from goqueue.log.removal.compaction import KeptRange, Leftover, NewestOffsets, plan_compaction
from goqueue.log.removal.retention import is_outlived, retained_from

__all__ = [
    "Cleaning",
    "KeptRange",
    "Leftover",
    "NewestOffsets",
    "is_outlived",
    "plan_compaction",
    "retained_from",
]
