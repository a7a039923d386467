"""What a log knows of itself: where it begins and ends, its segments, watermarks and epochs.

The state of `Log` and the questions that others ask; nothing here changes it.
"""

from goqueue.log.condition import Condition
from goqueue.log.epochs import Epochs
from goqueue.log.producer_state import ProducerState, TransactionEnd
from goqueue.log.recovery import LogState
from goqueue.log.replica import STANDALONE, Replica
from goqueue.log.retention import CompactionPlanner
from goqueue.log.segments import DamagedRange, Segments
from goqueue.log.watermarks import Watermarks
from goqueue.model import Flush, Instant, LogId, LogSettings, Offset, SegmentFacts

__all__ = ["LogFacts"]


class LogFacts:
    """The state of the log of one partition on one node."""

    # There may be ten thousand of them, most of them idle.
    __slots__ = (
        "_compaction",
        "_condition",
        "_end",
        "_ended",
        "_epochs",
        "_flush_at",
        "_folded",
        "_log",
        "_producers",
        "_replica",
        "_segments",
        "_settings",
        "_start",
        "_watermarks",
    )

    def __init__(
        self,
        log: LogId,
        settings: LogSettings,
        state: LogState,
        replica: Replica = STANDALONE,
    ) -> None:
        """A standalone log opens with everything committed, a replicated one as it was saved."""
        self._log = log
        self._settings = settings
        self._start = state.start
        self._segments = Segments(state.segments, state.damaged)
        self._epochs = Epochs(state.epochs)
        self._end = state.end
        self._replica = replica
        self._watermarks = Watermarks(
            state.end, None if replica.is_standalone else max(state.committed, state.start)
        )
        self._flush_at: Instant | None = None
        self._compaction = CompactionPlanner(min(state.cleaned_upto, state.end))
        self._condition = Condition()
        # How far a follower knows its producers; None: to the end.
        self._folded: Offset | None = None
        self._producers = ProducerState()
        self._ended: list[TransactionEnd] = []

    @property
    def id(self) -> LogId:
        return self._log

    @property
    def start(self) -> Offset:
        """The first offset in the log."""
        return self._start

    @property
    def end(self) -> Offset:
        """The offset that the next record gets."""
        return self._end

    @property
    def removable_upto(self) -> Offset:
        """Below this records are committed, and of no transaction that is known to be open."""
        unstable, committed = self._producers.unstable_from, self.high_watermark
        return committed if unstable is None else min(unstable, committed)

    @property
    def watermarks(self) -> Watermarks:
        """How far the log is written, durable, committed and stable."""
        return self._watermarks

    @property
    def replica(self) -> Replica:
        """The role of this log, and its leader epoch."""
        return self._replica

    @property
    def high_watermark(self) -> Offset:
        """Every record below is committed and readable."""
        return self._watermarks.committed

    @property
    def size(self) -> int:
        return self._segments.size

    @property
    def sealed_bytes(self) -> int:
        return self._segments.size - self._segments.active.size

    @property
    def dirty_bytes(self) -> int:
        """Bytes of sealed segments that no compaction has processed."""
        return self._compaction.dirty_bytes(self._segments)

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def segments(self) -> tuple[SegmentFacts, ...]:
        return (*self._segments.sealed, self._segments.active)

    @property
    def committed_extent(self) -> "tuple[Offset, int] | None":
        """The segment in which the committed records end, and the size of its part of them.

        None if that is not known: the log has failed.
        """
        return self._segments.extent_below(self.high_watermark)

    @property
    def damaged(self) -> tuple[DamagedRange, ...]:
        return self._segments.damaged

    def readable_from(self, offset: Offset) -> Offset:
        """The first offset from this one on that is not damaged; at most the end."""
        return self._segments.readable_from(min(max(offset, self._start), self._end))

    def is_damaged_at(self, offset: Offset) -> bool:
        """Whether this offset is refused as damaged."""
        return self._segments.damage_at(offset) is not None

    @property
    def failure(self) -> str | None:
        """Why this log accepts no more writes; None if it does."""
        return self._condition.failure

    @property
    def is_changing(self) -> bool:
        """Whether a truncation or a reset is on its way: the end is not known."""
        return self._condition.truncating_to is not None

    @property
    def epochs(self) -> Epochs:
        return self._epochs

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last record; 0 if there is no record, or it had no leader."""
        return self._epochs.latest or 0 if self._end > self._start else 0

    @property
    def producers(self) -> ProducerState:
        """The state of producers and transactions."""
        return self._producers

    @property
    def confirmed(self) -> Offset:
        """What the own disk holds, as far as the flush policy asks for it: see `Replica`."""
        marks = self._watermarks
        return marks.durable if self._settings.flush is Flush.COMMIT else marks.written

    @property
    def commits_written(self) -> bool:
        """Whether a record counts when it is written, before it is durable."""
        return self._settings.flush is not Flush.COMMIT
