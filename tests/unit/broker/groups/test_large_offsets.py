"""Positions with more counts and reasons than one record holds stop no node, and no start.

Nor do very many keys of group commits, which are stated in the same journal.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec
import pytest

from goqueue.broker import JournalLimits
from goqueue.broker.journal import JOURNAL_SETTINGS
from goqueue.broker.journal_changes import Change, Delivered, GivenBack, Settled
from goqueue.broker.turns import TURN_UNITS
from goqueue.log import Log
from goqueue.model import (
    HOUR,
    SECOND,
    Code,
    Instant,
    LogId,
    Message,
    Now,
    Refused,
    Timestamp,
    Woke,
    Write,
)
from goqueue.model.requests import Nack, Publish, Published, Returned, TopicConfig
from goqueue.records import build
from goqueue.storage import Storage
from goqueue.transactions import KeyKept
from tests.unit.broker.driven_node import EPOCH_NS, Crashed, DrivenNode
from tests.unit.broker.users import create, join, poll, reject
from tests.unit.storage.memory_files import MemoryFiles

GROUPS = LogId("__groups", 0)

EAGER = JournalLimits(snapshot_bytes=1, restate_bytes=1)

SETTINGS = msgspec.structs.replace(JOURNAL_SETTINGS, batch_bytes_max=1 << 40)


def node_with(messages: int, limits: JournalLimits = EAGER) -> DrivenNode:
    """A node with so many messages, and a group that may be handed each for ever."""
    node = DrivenNode(limits=limits)
    create(node, config=TopicConfig(max_deliveries=0))
    join(node, session_ns=600 * SECOND)
    left = messages
    while left:
        batch = build([Message(value=b"")] * min(left, 50_000))
        left -= min(left, 50_000)
        node.ask(Publish(topic="orders", batch=batch), Published)
    return node


def journaled(node: DrivenNode, *turns: Sequence[Change]) -> DrivenNode:
    """The node after a crash behind which its journal continues with these turns."""
    twin = node.twin()
    storage = Storage(twin.files)
    log = Log(GROUPS, SETTINGS, storage.open(GROUPS, SETTINGS).state)
    now = Now(Instant(node.now_ns), Timestamp(EPOCH_NS + node.now_ns))
    for turn in turns:
        batch = build([Message(value=msgspec.json.encode(turn))])
        for event in storage.carry_out(list(log.append(batch, now).effects)):
            log.handle(event, now)
    return DrivenNode(twin.files, node.limits, node.now_ns)


def test_eight_hundred_thousand_counts_of_an_old_journal_stop_no_upkeep_and_no_start() -> None:
    node = node_with(800_000)
    counted = 10**12
    delivered = Delivered(group=1, topic=1, partition=0, attempt=counted, offsets=[(0, 800_000)])
    node = journaled(node, [delivered])
    node.advance(3 * SECOND)
    node.stop()

    for without_snapshots in (False, True):
        node.restart(without_snapshots=without_snapshots)
        node.advance(2 * SECOND)
        (first,) = poll(node, count=1)
        assert first.attempt > counted
    assert not node.halts


def test_long_reasons_of_an_old_journal_stop_no_upkeep_and_are_cut() -> None:
    node = node_with(20_000)
    said = [
        [
            GivenBack(group=1, topic=1, partition=0, offset=offset, reason="\x01" * 1024)
            for offset in range(first, first + 1000)
        ]
        for first in range(0, 20_000, 1000)
    ]
    delivered = Delivered(group=1, topic=1, partition=0, attempt=1, offsets=[(0, 20_000)])
    node = journaled(node, [delivered], *said)
    node.advance(3 * SECOND)
    node.restart()
    node.advance(2 * SECOND)
    reject(node, poll(node, count=1)[0])

    assert not node.halts


def test_nacks_with_long_reasons_stop_no_upkeep() -> None:
    node = node_with(3000)
    for _ in range(3):
        for delivery in poll(node, count=1000):
            nack = Nack(receipt=delivery.receipt, delay_ns=HOUR, reason="\x01" * 4096)
            node.ask(nack, Returned)
        node.advance(2 * SECOND)
    node.restart()
    node.advance(2 * SECOND)

    assert [each.attempt for each in poll(node, count=3)] == [2, 2, 2]


def test_only_so_many_messages_of_a_group_and_partition_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A fiftieth of what it is.
    limit = 2000
    monkeypatch.setattr("goqueue.broker.groups.acks.BACKOFF_MAX", limit)
    node = node_with(limit + 1, JournalLimits())
    for _ in range(limit // 1000):
        for delivery in poll(node, count=1000):
            node.ask(Nack(receipt=delivery.receipt, delay_ns=300 * SECOND), Returned)
    (last,) = poll(node, count=1)

    with pytest.raises(Refused) as refused:
        node.ask(Nack(receipt=last.receipt, delay_ns=300 * SECOND), Returned)
    assert refused.value.code is Code.QUOTA_EXCEEDED
    assert refused.value.facts == {"quota": "resting", "limit": limit}
    assert node.ask(Nack(receipt=last.receipt, delay_ns=0), Returned).attempt == 1
    node.advance(300 * SECOND)
    (last, *_) = poll(node, count=1000)
    assert node.ask(Nack(receipt=last.receipt, delay_ns=SECOND), Returned).attempt == 2


def scattered(node: DrivenNode, messages: int) -> DrivenNode:
    """The node after every second of its messages was settled and the others were counted."""
    settled = Settled(group=1, topic=1, partition=0, floor=0, steps=[1] + [2] * (messages // 2 - 1))
    delivered = Delivered(group=1, topic=1, partition=0, attempt=7, offsets=[(0, messages)])
    return journaled(node, [delivered], [settled])


@pytest.mark.parametrize("records", range(1, 12, 2))
def test_a_crash_between_two_pieces_of_a_position_takes_nothing_back(records: int) -> None:
    node = scattered(node_with(10_000), 10_000)
    written = 0

    def is_enough(work: object) -> bool:
        nonlocal written
        written += isinstance(work, Write) and work.log == GROUPS
        return written > records

    node.crash_before = is_enough
    with suppress(Crashed):
        node.advance(SECOND)
        node.advance(SECOND)
    node.restart(without_snapshots=True)

    taken = poll(node, count=1000)
    assert {each.record.offset % 2 for each in taken} == {0}
    assert {each.attempt for each in taken} == {8}


def units_of_turns(node: DrivenNode, turns: int) -> list[int]:
    """The work of each of the next turns."""
    units = []
    for _ in range(turns):
        node.now_ns = max(node.now_ns, int(node.node.next_deadline() or 0))
        node.runs_later_turns = False
        node.take(Woke())
        units.append(node.node.turn_units)
    return units


def test_a_large_position_is_stated_in_many_turns() -> None:
    units = units_of_turns(scattered(node_with(50_000), 50_000), 3000)

    assert max(units) < 2 * TURN_UNITS
    assert sum(each > TURN_UNITS // 2 for each in units) > 5


def test_very_many_keys_of_group_commits_are_stated_in_many_turns() -> None:
    node = node_with(1)
    kept = [KeyKept(key=f"key-{number}", at=EPOCH_NS) for number in range(50_000)]
    turns = [kept[first : first + 10_000] for first in range(0, len(kept), 10_000)]
    units = units_of_turns(journaled(node, *turns), 3000)

    assert max(units) < 2 * TURN_UNITS
    assert sum(each > TURN_UNITS // 2 for each in units) > 5


@pytest.mark.parametrize("lost", ["nothing", "a piece", "half a piece", "an older piece"])
def test_a_large_snapshot_is_in_pieces_of_which_a_start_takes_all_or_none(lost: str) -> None:
    node = scattered(node_with(150_000, JournalLimits()), 150_000)
    node.stop()
    pieces = sorted(path for path in node.files.copy() if "__groups-" in path)
    assert len(pieces) > 1
    content = node.files.copy()
    assert max(len(content[path]) for path in pieces) < 300 * 1024
    match lost:
        case "a piece":
            del content[pieces[1]]
        case "half a piece":
            content[pieces[1]] = content[pieces[1]][:1000]
        case "an older piece":
            content[pieces[1]] = b'{"id":1,"changes":[]}'
    again = DrivenNode(MemoryFiles(content), now_ns=node.now_ns)

    taken = poll(again, count=1000)
    assert {each.record.offset % 2 for each in taken} == {0}
    assert {each.attempt for each in taken} == {8}


def test_the_next_snapshot_does_not_touch_the_pieces_of_the_last() -> None:
    node = scattered(node_with(150_000, JournalLimits()), 150_000)
    node.stop()
    first = {path for path in node.files.copy() if "__groups-" in path}
    node.restart()
    node.stop()
    second = {path for path in node.files.copy() if "__groups-" in path} - first
    node.restart()

    assert len(second) == len(first)
    assert {each.attempt for each in poll(node, count=10)} == {8}
