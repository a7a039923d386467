"""Followers know which delayed messages wait, and a leader-elect all of them before it leads."""

from collections.abc import Callable

import msgspec
import pytest

from goqueue.broker import TurnBudget
from goqueue.broker.delayed.delay_log import delays_snapshot
from goqueue.broker.disk_reads import FoldFetch
from goqueue.broker.partitions import Partition
from goqueue.broker.replication.derived_state import DerivedState
from goqueue.broker.state import NodeState
from goqueue.broker.transactions.producer_snapshots import producers_snapshot
from goqueue.cluster import PartitionId
from goqueue.delivery import Delays
from goqueue.log import Log, LogState, Replica, ReplicaRole, cancellation
from goqueue.model import (
    DELAYED_FROM_HEADER,
    DELIVER_HEADER,
    SECOND,
    Fetch,
    Instant,
    Load,
    LogId,
    LogSettings,
    Message,
    Now,
    Offset,
    Synced,
    Timestamp,
)
from goqueue.records import build, stamp
from goqueue.tracing import Tracer

LOG = LogId("orders", 0)
WHERE = PartitionId(1, 0)
NOW = Now(Instant(1), Timestamp(1_700_000_000 * SECOND))
UNITS = 500


def due_in(seconds: int) -> int:
    return NOW.wall + seconds * SECOND


def delayed(seconds: int) -> Message:
    headers = ((DELIVER_HEADER, b"%d" % due_in(seconds)),)
    return Message(value=b"later", headers=headers, is_delayed=True)


def delivery(first: int) -> Message:
    return Message(value=b"later", headers=((DELAYED_FROM_HEADER, b"%d" % first),))


def stored(first: int, *messages: Message) -> bytes:
    batch = build(list(messages))
    stamp(batch, first, NOW.wall)
    return bytes(batch)


class Follower:
    """A copy of a partition, what it knows, and a disk whose reads the test carries out."""

    def __init__(self, begin: LogState | None = None) -> None:
        self.state = NodeState("b", Tracer(0.0), TurnBudget(UNITS))
        self.derived = DerivedState(self.state)
        log = Log(LOG, LogSettings(), begin or LogState(), Replica(ReplicaRole.FOLLOWER))
        self.partition = Partition(LOG, log)
        self.state.partitions.add(self.partition)
        self._stored: list[tuple[int, bytes]] = []
        self.read_total = 0

    @property
    def log(self) -> Log:
        return self.partition.log

    def follow(self, *messages: Message) -> None:
        """Append what the leader sent, and sync it."""
        first = self.log.end
        data = stored(int(first), *messages)
        following = Offset(first + len(messages))
        appended = self.log.append_as_follower(data, following, 3, NOW)
        self._stored.append((int(first), data))
        self.derived.appended(self.partition, appended.first, appended.next, data)
        self.log.handle(Synced(log=LOG, upto=appended.next), NOW)

    def commit(self, upto: int) -> None:
        self.log.commit(Offset(upto))
        self.derived.committed(self.partition, NOW)

    def lead(self) -> bool:
        return self.derived.complete(self.partition, NOW)

    def loads(self) -> list[str]:
        effects = self.state.outbox.drain()
        return [each.name for each in effects if isinstance(each, Load)]

    def load(self, snapshots: dict[str, bytes]) -> None:
        """Answer what was asked for, and restore it in as many turns as that takes."""
        for name in self.loads():
            self.derived.loaded(name, snapshots.get(name), NOW)
        for _ in range(100):
            self.state.budget.begin()
            self.state.stepwise.resume(NOW)

    def read(self) -> None:
        """Carry out reads until none is asked for."""
        while fetches := [each for each in self.state.outbox.drain() if isinstance(each, Fetch)]:
            for fetch in fetches:
                purpose = self.state.fetches.pop(fetch.token)
                assert isinstance(purpose, FoldFetch)
                data = b"".join(
                    data
                    for first, data in self._stored
                    if fetch.wanted.offset <= first < fetch.wanted.below
                )
                self.read_total += len(data)
                self.derived.fetched(purpose, memoryview(data), NOW)
                self.derived.committed(self.partition, NOW)

    @property
    def waiting(self) -> list[int] | None:
        known = self.state.delays.get(LOG)
        return None if known is None else [offset for _, offset in known.pending(100)]


@pytest.fixture
def follower() -> Follower:
    made = Follower()
    made.derived.begin(made.partition, WHERE)
    return made


def test_a_follower_knows_what_waits_where_its_log_is_committed(follower: Follower) -> None:
    follower.follow(delayed(5), delayed(3))
    assert LOG not in follower.state.delays
    follower.commit(2)
    assert follower.waiting == [1, 0]

    follower.follow(delivery(1))
    follower.follow(cancellation(0))
    assert follower.waiting == [1, 0]
    follower.commit(3)
    assert follower.waiting == [0]
    follower.commit(4)
    assert follower.waiting == []


def test_a_log_without_delayed_messages_costs_nothing(follower: Follower) -> None:
    follower.follow(Message(value=b"plain"))
    follower.commit(1)
    assert follower.waiting is None
    assert follower.lead()


def test_who_is_to_lead_knows_what_waits_to_the_end_of_its_log(follower: Follower) -> None:
    follower.follow(delayed(5), delayed(3))
    follower.commit(2)
    follower.follow(delivery(1), delayed(1))

    assert follower.lead()

    assert follower.waiting == [3, 0]
    # That is more than is committed: no snapshot may say so yet.
    assert follower.partition.delays_known is None
    follower.log.commit(Offset(4))
    assert follower.partition.delays_known == 4


def test_a_deposed_leader_keeps_what_is_committed_and_reads_nothing_of_delays_again(
    follower: Follower,
) -> None:
    follower.follow(delayed(5), delayed(3))
    follower.commit(2)
    assert follower.lead()
    follower.follow(delivery(1))

    follower.derived.follow(follower.partition, WHERE)

    assert follower.loads() == [producers_snapshot(*WHERE)]
    assert follower.waiting == [1, 0]
    assert follower.partition.delays_known == 2


def test_what_a_leader_elect_found_and_the_next_leader_cuts_never_was(follower: Follower) -> None:
    follower.follow(delayed(5))
    follower.commit(1)
    follower.follow(delayed(3))
    assert follower.lead()
    follower.derived.follow(follower.partition, WHERE)
    follower.load({})
    follower.log._end = Offset(1)  # noqa: SLF001 - as a truncation leaves it

    assert not follower.derived.truncated(follower.partition)
    follower.derived.begin(follower.partition, WHERE)
    follower.load({})
    follower.derived.committed(follower.partition, NOW)
    follower.read()

    assert follower.waiting == [0]


def snapshot(upto: int, *waits: int) -> bytes:
    delays = Delays(NOW.wall)
    for offset in waits:
        delays.add(offset, due_in(offset), 2)
    return msgspec.json.encode(delays.stated(WHERE.topic, upto))


def reopened(follower: Follower) -> Follower:
    follower.derived.begin(follower.partition, WHERE)
    return follower


def stated_producers(follower: Follower, upto: int, *, has_delays: bool) -> bytes:
    stated = follower.log.producers.stated(WHERE.topic, upto)
    return msgspec.json.encode(msgspec.structs.replace(stated, has_delays=has_delays))


def test_a_start_goes_on_where_both_snapshots_end(follower: Follower) -> None:
    for seconds in (5, 6, 7):
        follower.follow(delayed(seconds))
    follower.commit(3)
    authors = stated_producers(follower, 3, has_delays=True)

    reopened(follower).load(
        {producers_snapshot(*WHERE): authors, delays_snapshot(*WHERE): snapshot(2, 0, 1)}
    )
    assert follower.waiting == [0, 1]
    assert [each is follower.partition for each in follower.derived.take_unfolded()] == [True]
    follower.derived.committed(follower.partition, NOW)
    follower.read()

    assert follower.waiting == [0, 1, 2]
    assert follower.read_total == len(stored(2, delayed(7)))


@pytest.mark.parametrize("has_delays", [False, True])
def test_without_a_snapshot_of_delays_a_log_is_read_unless_it_is_known_to_have_none(
    follower: Follower, has_delays: bool
) -> None:
    follower.follow(Message(value=b"plain"))
    follower.commit(1)
    authors = stated_producers(follower, 1, has_delays=has_delays)

    reopened(follower).load({producers_snapshot(*WHERE): authors})
    follower.derived.committed(follower.partition, NOW)
    follower.read()

    assert (follower.read_total > 0) is has_delays


def test_a_snapshot_of_what_is_not_known_to_be_committed_is_not_believed(
    follower: Follower,
) -> None:
    follower.follow(delayed(5))
    follower.commit(1)

    reopened(follower).load({delays_snapshot(*WHERE): snapshot(2, 0, 1)})
    follower.derived.committed(follower.partition, NOW)
    follower.read()

    assert follower.waiting == [0]


def test_snapshots_that_were_asked_for_twice_are_restored_once(follower: Follower) -> None:
    follower.follow(delayed(5))
    follower.commit(1)
    reopened(follower)
    asked = follower.loads()
    reopened(follower)

    assert sorted(asked) == sorted([delays_snapshot(*WHERE), producers_snapshot(*WHERE)])
    assert follower.loads() == []
    for name in asked:
        follower.derived.loaded(name, None, NOW)
    assert not any(map(follower.derived.expects, asked))


def test_a_deletion_while_a_snapshot_is_restored_leaves_nothing(follower: Follower) -> None:
    follower.follow(delayed(5))
    follower.commit(1)
    reopened(follower)
    follower.state.partitions.remove_all([LOG])
    follower.load({delays_snapshot(*WHERE): snapshot(1, 0)})

    assert follower.waiting is None
    assert follower.derived.take_unfolded() == []


def test_a_turn_folds_no_more_than_its_budget_allows(follower: Follower) -> None:
    for _ in range(40):
        follower.follow(*[delayed(5)] * 50)
    follower.log.commit(follower.log.end)

    def turns(step: Callable[[], object]) -> int:
        count = 1
        follower.state.budget.begin()
        step()
        while follower.derived.take_unfolded():
            assert follower.state.budget.spent < 2 * UNITS
            follower.state.budget.begin()
            step()
            count += 1
        return count

    assert turns(lambda: follower.derived.committed(follower.partition, NOW)) > 1
    assert len(follower.state.delays[LOG]) == 2000

    for _ in range(40):
        follower.follow(*[delayed(5)] * 50)
    assert turns(follower.lead) > 1
    assert len(follower.state.delays[LOG]) == 4000
    assert follower.partition.fold is None
