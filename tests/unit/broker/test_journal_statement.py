"""Journals that are kept short: a node that reads them becomes the one that wrote them.

A node with small limits states everything again and keeps snapshots all the time; whatever was
done, its twins over the same files say the same, with snapshots and without.
"""

import errno

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker import JournalLimits
from goqueue.model import SECOND, Code, LogId, Offset, Refused, Woke
from goqueue.model.requests import (
    Ack,
    Acked,
    Command,
    CommitOffsets,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeGroup,
    DescribeLag,
    DescribeOffsets,
    DescribeTopic,
    Done,
    GroupDescription,
    GroupList,
    Lag,
    Leave,
    ListGroups,
    ListTopics,
    Offsets,
    Redrive,
    Redriven,
    ResetOffsets,
    Strategy,
    TopicConfig,
    TopicDescription,
    TopicList,
    lease_of,
)
from tests.examples import examples
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import (
    ORDERS,
    Delivery,
    ack,
    ack_code,
    create,
    join,
    letters,
    nack,
    poll,
    publish,
    read_values,
    reject,
    values,
)
from tests.unit.storage.memory_files import MemoryFiles

SMALL = JournalLimits(snapshot_bytes=200, restate_bytes=1500)

# One change of a statement in each turn.
SLOW = JournalLimits(snapshot_bytes=200, restate_bytes=1500, turn_units=1)

NEVER = JournalLimits(snapshot_bytes=1 << 40, restate_bytes=1 << 40)

TOPICS = ("orders", "more")

GROUPS = ("shop", "audit")

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "create",
                "delete",
                "publish",
                "publish",
                "join",
                "join",
                "leave",
                "poll",
                "poll",
                "ack",
                "ack",
                "nack",
                "reject",
                "commit",
                "reset",
                "forget",
                "redrive",
                "wait",
            ]
        ),
        st.integers(0, 1),
        st.integers(0, 3),
    ),
    min_size=5,
    max_size=40,
)


def facts(node: DrivenNode) -> list[object]:
    """Everything durable that a node says; leases and sessions are not."""
    found: list[object] = []
    for name in node.ask(ListTopics(), TopicList).topics:
        count = len(node.ask(DescribeTopic(name=name), TopicDescription).offsets)
        found.append((name, [read_values(node, LogId(name, n)) for n in range(count)]))
    for group in node.ask(ListGroups(), GroupList).groups:
        members = [(each.member_id, each.assigned, each.joined_at) for each in group.members]
        found.append(msgspec.structs.replace(group, members=()))
        found.append(members)
        found.append(node.ask(DescribeOffsets(group=group.group), Offsets))
        lags = node.ask(DescribeLag(group=group.group), Lag).partitions
        found.append([(each.log, each.committed, each.end, each.lag) for each in lags])
    return found


class Shop:
    """Takes random steps; what is refused is refused."""

    def __init__(self, limits: JournalLimits) -> None:
        self.node = DrivenNode(limits=limits)
        self.leased: list[Delivery] = []
        create(self.node, partitions=2, config=TopicConfig(visibility_ns=SECOND))
        join(self.node, session_ns=600 * SECOND)

    def take(self, step: str, which: int, number: int) -> None:
        try:
            self._take(step, which, number)
        except Refused as refused:
            assert refused.code not in (Code.STORAGE_FULL, Code.STORAGE_FAILED)

    def _take(self, step: str, which: int, number: int) -> None:
        match step:
            case "ack" | "nack" | "reject":
                if self.leased:
                    self._settle(step, number)
            case "poll":
                self.leased += poll(self.node, GROUPS[which], f"c{number}", count=2)
            case "publish":
                publish(self.node, *"xyz"[: number + 1], topic=TOPICS[which])
            case "join":
                topics = TOPICS[: which + 1]
                join(self.node, GROUPS[which], f"c{number}", topics, session_ns=600 * SECOND)
            case "wait":
                self.node.advance(SECOND)
            case _:
                self._change(step, TOPICS[which], GROUPS[which], number)

    def _settle(self, step: str, number: int) -> None:
        delivery = self.leased.pop(number % len(self.leased))
        match step:
            case "ack":
                ack(self.node, delivery)
            case "nack":
                nack(self.node, delivery, delay_ns=0, reason=f"for {number}")
            case _:
                reject(self.node, delivery)

    def _change(self, step: str, topic: str, group: str, number: int) -> None:
        config = TopicConfig(visibility_ns=SECOND, max_deliveries=number)
        place = {LogId(topic, number % 2): Offset(number)}
        commands: dict[str, Command] = {
            "create": CreateTopic(name=topic, partitions=2, config=config),
            "delete": DeleteTopic(name=topic),
            "leave": Leave(group=group, member_id=f"c{number}-c{number}00"),
            "commit": CommitOffsets(group=group, offsets=place),
            "reset": ResetOffsets(group=group, topic=topic, strategy=Strategy.EARLIEST),
            "forget": DeleteGroup(group=group),
            "redrive": Redrive(topic=topic),
        }
        self.node.begin(commands[step])


def delivered(node: DrivenNode) -> list[tuple[LogId, int, int]]:
    """What everybody gets next, and for the how-manieth time."""
    got = []
    for group in node.ask(ListGroups(), GroupList).groups:
        described = node.ask(DescribeGroup(group=group.group), GroupDescription)
        for member in described.members:
            more = poll(node, group.group, member.client_id)
            got += [(each.log, each.record.offset, each.attempt) for each in more]
    node.advance(3 * SECOND)
    return sorted(got)


@settings(max_examples=examples(25))
@given(STEPS)
def test_a_twin_says_the_same_with_snapshots_and_without(steps: list[tuple[str, int, int]]) -> None:
    shop = Shop(SMALL)
    for step in steps:
        shop.take(*step)
    shop.node.advance(2 * SECOND)
    twin, other = shop.node.twin(), shop.node.twin(without_snapshots=True)

    expected = facts(shop.node)
    assert facts(twin) == expected
    assert facts(other) == expected
    assert delivered(twin) == delivered(other)
    assert facts(twin) == facts(other)


@settings(max_examples=examples(40))
@given(STEPS, STEPS)
def test_statements_are_true_whatever_happens_while_they_are_told(
    before: list[tuple[str, int, int]], during: list[tuple[str, int, int]]
) -> None:
    shop = Shop(SLOW)
    for step in before:
        shop.take(*step)
    # From here on a statement advances by one change after each step, beside all that happens.
    shop.node.runs_later_turns = False
    shop.node.now_ns += SECOND
    for step in during:
        if step[0] != "wait":
            shop.take(*step)
        shop.node.take(Woke())
    twin, other = shop.node.twin(), shop.node.twin(without_snapshots=True)
    assert facts(twin) == facts(other)
    assert delivered(twin) == delivered(other)
    shop.node.runs_later_turns = True
    shop.node.advance(2 * SECOND)

    expected = facts(shop.node)
    twin, other = shop.node.twin(), shop.node.twin(without_snapshots=True)
    assert facts(twin) == expected
    assert facts(other) == expected
    assert delivered(twin) == delivered(other)


@settings(max_examples=examples(20))
@given(STEPS)
def test_keeping_journals_short_changes_nothing_that_anybody_sees(
    steps: list[tuple[str, int, int]],
) -> None:
    short, long = Shop(SMALL), Shop(NEVER)
    for step in steps:
        short.take(*step)
        long.take(*step)
    short.node.advance(2 * SECOND)
    long.node.advance(2 * SECOND)

    assert facts(short.node) == facts(long.node)
    assert facts(short.node.twin()) == facts(long.node.twin())
    assert delivered(short.node.twin()) == delivered(long.node.twin())


def journal_bytes(node: DrivenNode, name: str = "__groups") -> int:
    return sum(len(data) for path, data in node.files.copy().items() if f"{name}/0/" in path)


def test_a_journal_that_is_mostly_history_becomes_short_again() -> None:
    node = DrivenNode(limits=JournalLimits(snapshot_bytes=1 << 40, restate_bytes=20_000))
    create(node)
    join(node, session_ns=600 * SECOND)
    longest = 0
    for _ in range(300):
        publish(node, "a", "b")
        ack(node, *poll(node))
        node.advance(SECOND)
        longest = max(longest, journal_bytes(node))

    assert longest < 60_000
    assert node.twin().ask(DescribeOffsets(group="shop"), Offsets).offsets == {ORDERS: 600}


def test_a_journal_of_groups_that_are_all_gone_becomes_short_again() -> None:
    node = DrivenNode(limits=JournalLimits(snapshot_bytes=1 << 40, restate_bytes=5_000))
    create(node)
    for number in range(40):
        join(node, group=f"g{number}")
        node.ask(DeleteGroup(group=f"g{number}"), Done)
    node.advance(3 * SECOND)

    assert journal_bytes(node) < 5_000
    assert facts(node.twin()) == facts(node)


def test_a_journal_of_topics_becomes_short_again_and_gives_no_number_twice() -> None:
    node = DrivenNode(limits=JournalLimits(snapshot_bytes=1 << 40, restate_bytes=5_000))
    join_to = "kept"
    create(node, join_to)
    join(node, topics=(join_to,), session_ns=600 * SECOND)
    publish(node, "a", topic=join_to)
    ack(node, *poll(node))
    for _ in range(30):
        create(node, "passing")
        node.ask(DeleteTopic(name="passing"), Done)
    node.advance(3 * SECOND)

    assert journal_bytes(node, "__topics") < 5_000
    node.restart()
    create(node, "passing")
    node.restart()
    publish(node, "b", topic=join_to)
    assert values(poll(node)) == ["b"]


def test_a_snapshot_that_is_damaged_is_passed_over() -> None:
    node = DrivenNode(limits=SMALL)
    create(node)
    join(node, session_ns=600 * SECOND)
    publish(node, "a", "b")
    ack(node, *poll(node, count=1))
    node.stop()
    assert any("snapshot" in path for path in node.files.copy())
    content = {
        path: data[: len(data) // 2] if "snapshot" in path else data
        for path, data in node.files.copy().items()
    }
    twin = DrivenNode(MemoryFiles(content), now_ns=node.now_ns)
    assert values(poll(twin)) == ["b"]


def test_a_snapshot_never_says_more_than_the_journal() -> None:
    node = DrivenNode(limits=JournalLimits(snapshot_bytes=1, restate_bytes=1 << 40))
    create(node)
    join(node, session_ns=600 * SECOND)
    publish(node, "a")
    (first,) = poll(node)
    node.files.faults.broken[("write", "__groups/0/00000000000000000000.log")] = errno.ENOSPC
    request = node.begin(Ack(leases=(lease_of(first.receipt),)))
    node.advance(5 * SECOND)
    assert not node.is_answered(request)
    node.restart()

    confirmed = ack_code(node, first)
    node.restart(without_snapshots=True)
    redelivered = values(poll(node))
    assert (confirmed is None) == (redelivered == [])


def test_a_full_disk_delays_acks_and_loses_none() -> None:
    node = DrivenNode()
    create(node)
    join(node, session_ns=600 * SECOND)
    publish(node, "a", "b", "c")
    first, second, third = poll(node)
    node.files.faults.room = 0
    waiting = node.begin(Ack(leases=(lease_of(first.receipt),)))
    with pytest.raises(Refused) as refused:
        ack(node, second)
    assert refused.value.code is Code.STORAGE_FULL
    assert not node.is_answered(waiting)
    node.files.faults.room = None
    node.advance(2 * SECOND)

    assert node.reply(waiting, Acked).settlements[0].code is None
    ack(node, second, third)
    node.restart()
    assert poll(node) == []


def test_a_journal_that_fails_halts_the_node() -> None:
    node = DrivenNode()
    create(node)
    join(node)
    publish(node, "a")
    (first,) = poll(node)
    node.files.faults.broken[("sync", "__groups/0/00000000000000000000.log")] = errno.EIO
    request = node.begin(Ack(leases=(lease_of(first.receipt),)))

    assert not node.is_answered(request)
    assert len(node.halts) == 1
    node.restart()
    assert {*values(poll(node))} <= {"a"}


def test_dead_letters_and_redrives_survive_restating() -> None:
    node = DrivenNode(limits=JournalLimits(snapshot_bytes=500, restate_bytes=3_000))
    create(node)
    join(node, session_ns=600 * SECOND)
    for round_number in range(20):
        publish(node, str(round_number))
        for delivery in poll(node):
            reject(node, delivery)
        node.ask(Redrive(topic="orders"), Redriven)
        ack(node, *poll(node))
        node.advance(SECOND)
    node.restart()

    assert node.ask(Redrive(topic="orders"), Redriven).moved == 0
    assert letters(node) == [str(number) for number in range(20)]
    assert poll(node) == []
