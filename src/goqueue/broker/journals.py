"""Which journal holds what, and replies that wait for several of them.

The only place that chooses a journal. A standalone node has two: topics and security are in
`__topics`, all else in `__groups`. A cluster keeps a group with its coordinator, positions beside
their partition, and producers with the transaction coordinator; callers say what a change is about
and never which log that is.

Invariant: what is held behind several journals leaves once, when every one of them has committed
what was noted in it before.
"""

from collections.abc import Sequence

from goqueue.broker.journal import Journal
from goqueue.broker.journal_changes import Change, TopicChange
from goqueue.broker.outbox import JournalReached, Later, Outbox
from goqueue.broker.turns import take_all
from goqueue.model import Answer, LogId, Refused, RequestId
from goqueue.model.requests import Reply

__all__ = ["AnyJournal", "JournalWait", "Journals"]

AnyJournal = Journal[TopicChange] | Journal[Change]


class JournalWait:
    """Something that leaves when several journals have reached a point."""

    __slots__ = ("later", "missing")

    def __init__(self, later: Later, missing: int) -> None:
        self.later = later
        self.missing = missing


class Journals:
    """The journals of a node, by what is written there."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        # Topics, keys, ACLs, tenants, and the starts of the node; set while starting.
        self.of_topics: Journal[TopicChange]
        # All groups that this node coordinates, schedules and restores; set while starting.
        self.of_groups: Journal[Change]
        # Whether both are there: nothing is decided before.
        self.are_open = False
        # Every journal that is open, in the order in which a turn is written.
        self.all: tuple[AnyJournal, ...] = ()
        self._by_log: dict[LogId, AnyJournal] = {}
        self._places: dict[LogId, int] = {}
        # Those that something was noted in since they were last written.
        self._unwritten: list[LogId] = []
        # Whether an answer has to show that this broker still leads the journal.
        self.are_replicated = False
        self._waits: dict[int, JournalWait] = {}
        self._next_wait = 1

    # While starting

    def open_topics(self, journal: Journal[TopicChange]) -> None:
        self.of_topics = journal
        self._add(journal)

    def open_groups(self, journal: Journal[Change]) -> None:
        self.of_groups = journal
        self._add(journal)
        self.are_open = True

    def _add(self, journal: AnyJournal) -> None:
        self._by_log[journal.id] = journal
        self._places[journal.id] = len(self._places)
        self.all = tuple(self._by_log.values())
        journal.report_to(self._unwritten)

    # Which holds what

    def of_group(self, _name: str) -> Journal[Change]:
        """The members of a group, and that it exists."""
        return self.of_groups

    def of_partition(self, _log: LogId) -> Journal[Change]:
        """Where groups stand in a partition, what they were delivered, and moves out of it."""
        return self.of_groups

    def of_producer(self, _producer: int) -> Journal[Change]:
        """A producer, its transactions and their decisions."""
        return self.of_groups

    @property
    def of_producers(self) -> Journal[Change]:
        """All producers: one coordinator serves them, so that several commit as one record."""
        return self.of_groups

    def get(self, log: LogId) -> AnyJournal | None:
        """The journal in this log, if there is one."""
        return self._by_log.get(log)

    @property
    def have_notes(self) -> bool:
        """Whether something was noted in this turn."""
        return bool(self._unwritten)

    def take_unwritten(self) -> list[AnyJournal]:
        """The journals to be written now, in the order in which they were opened."""
        unwritten = take_all(self._unwritten)
        if len(unwritten) > 1:
            unwritten.sort(key=self._places.__getitem__)
        return [self._by_log[log] for log in unwritten]

    @property
    def are_quiet(self) -> bool:
        """Whether all that was noted is committed."""
        return all(journal.is_quiet for journal in self.all)

    # Waiting

    def answer(
        self, request: RequestId, reply: Reply, behind: Sequence[Journal[Change]] = ()
    ) -> None:
        """Answer when what was noted in these journals is committed; at once if there is none."""
        if behind:
            self.hold(Answer(request=request, reply=reply), behind)
        else:
            self._outbox.answer(request, reply)

    def answer_current(self, request: RequestId, reply: Reply | Refused) -> None:
        """Answer what is known; in a cluster only if this broker is the coordinator still."""
        answer = Answer(request=request, reply=reply)
        if self.are_replicated:
            self.hold(answer, [self.of_producers])
        else:
            self._outbox.append(answer)

    def hold(self, later: Later, behind: Sequence[Journal[Change]]) -> None:
        """Let something leave when what was noted in these journals is committed."""
        if self.are_replicated:
            for journal in behind:
                journal.prove()
        first = behind[0]
        if behind.count(first) == len(behind):
            first.note([], [later])
            return
        journals = dict.fromkeys(behind)
        number = self._next_wait
        self._next_wait += 1
        self._waits[number] = JournalWait(later, len(journals))
        for journal in journals:
            journal.note([], [JournalReached(number)])

    def reached(self, number: int) -> list[Later]:
        """One more journal is that far: what leaves now."""
        wait = self._waits[number]
        wait.missing -= 1
        if wait.missing:
            return []
        del self._waits[number]
        return [wait.later]
