"""Which of the oldest segments have had their time.

Deletes whole sealed segments only, oldest first, and never what lies at or above the floor:
an open transaction or a pending delay may still need it.
"""

from collections.abc import Sequence

from goqueue.model import LogSettings, Offset, SegmentFacts, Timestamp

__all__ = ["is_outlived", "retained_from"]


def retained_from(
    sealed: Sequence[SegmentFacts],
    total_size: int,
    floor: Offset,
    settings: LogSettings,
    wall: Timestamp,
) -> Offset | None:
    """The offset from which records are kept, or None when nothing is to be deleted."""
    start: Offset | None = None
    for segment in sealed:
        if segment.end > floor:
            break
        is_surplus = (
            settings.retention_bytes is not None
            and total_size - segment.size >= settings.retention_bytes
        )
        if not (is_surplus or is_outlived(segment, settings, wall)):
            break
        total_size -= segment.size
        start = segment.end
    return start


def is_outlived(segment: SegmentFacts, settings: LogSettings, wall: Timestamp) -> bool:
    """Whether the newest record of the segment is older than the retention time."""
    return (
        settings.retention_ns is not None and wall - segment.max_timestamp > settings.retention_ns
    )
