"""Reads the journal of a coordinator from its start to its end, before anything is served.

A journal that has grown long is stated again from a new segment on, so a replay reads at most some
tens of megabytes. Each piece is a turn of its own: the broker serves everybody else meanwhile.

Invariant: all that is read is committed, since the leader serves only then; and nothing is appended
meanwhile, because only the coordinator appends.
"""

from goqueue.broker.disk_reads import JournalFetch
from goqueue.broker.groups.dead_letters import DEAD_LETTERS_GROUP
from goqueue.broker.journal import Journal
from goqueue.broker.journal_changes import Change
from goqueue.broker.recovery.journaled_state import JournaledState
from goqueue.broker.state import NodeState
from goqueue.model import Code, Offset, Refused

__all__ = ["CoordinatorReplay"]

# One turn takes in so much of it.
_READ_BYTES = 64 * 1024


class CoordinatorReplay:
    """Brings the memory of an epoch to what the journal says."""

    def __init__(
        self, state: NodeState, journal: Journal[Change], journaled_state: JournaledState
    ) -> None:
        self._state = state
        self._journal = journal
        self._journaled_state = journaled_state
        # Why the journal cannot be read.
        self.failure: str | None = None
        self.is_over = False

    def begin(self) -> None:
        self._read_on(self._journal.log.start)

    def _read_on(self, offset: Offset) -> None:
        log = self._journal.log
        try:
            wanted = log.read(offset, _READ_BYTES)
        except Refused as refused:
            self._fail(refused)
            return
        if wanted is None:
            self._finish()
        else:
            self._state.fetch(wanted, JournalFetch(log.id, wanted.below))

    def read(self, purpose: JournalFetch, data: memoryview | None) -> None:
        """A piece was read."""
        if data is None:
            self._fail(Refused(Code.RECORDS_DAMAGED))
            return
        following = purpose.upto
        for turn in self._journal.decode(data):
            for change in turn.changes:
                self._journaled_state.apply(change, turn.at)
            following = Offset(turn.offset + 1)
        self._read_on(following)

    def _fail(self, refused: Refused) -> None:
        self.failure = f"the log of the group coordinator cannot be read: {refused.code.value}"

    def _finish(self) -> None:
        """Drop what was said of groups that are gone: see `Positions.apply`."""
        places = self._state.group_partitions
        for number in places.groups:
            if number != DEAD_LETTERS_GROUP and self._state.groups.numbered(number) is None:
                places.remove_group(number)
        self.is_over = True
