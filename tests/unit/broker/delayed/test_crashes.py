"""Delayed messages over crashes: each is delivered once, or never if it was cancelled.

With a snapshot of the delays or without, a node knows the same.
"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model import SECOND, Code, Flush, LogId
from goqueue.model.requests import (
    AlterTopic,
    DelayState,
    TopicChanges,
    TopicConfig,
    TopicDescription,
)
from tests.examples import examples
from tests.unit.broker.delayed.users import (
    LONG,
    TICK,
    cancel,
    delay,
    delaying,
    find,
    pending,
    shown,
    shown_values,
    state_of,
    statistics,
    store,
    total_messages,
)
from tests.unit.broker.driven_node import Crashed, DrivenNode, cut_off
from tests.unit.broker.users import create, join, lag, poll, publish, values
from tests.unit.storage.memory_files import Killed, MemoryFiles

TOPICS = LogId("__topics", 0)

HOUR = 3600 * SECOND


class Life:
    """What was confirmed of delayed messages so far."""

    def __init__(self) -> None:
        self.node = DrivenNode()
        create(self.node)
        self.confirmed: list[str] = []
        self.cancelled: list[str] = []

    def delay(self, *wanted: tuple[str, int]) -> None:
        delay(self.node, *wanted)
        self.confirmed += [value for value, _ in wanted]

    def cancel(self, offset: int, value: str) -> None:
        if cancel(self.node, offset) is None:
            self.cancelled.append(value)

    def run(self) -> None:
        self.delay(("a", 2 * SECOND), ("b", 0), ("c", 4 * SECOND))
        self.delay(("d", SECOND), ("e", 50 * SECOND))
        self.cancel(2, "c")
        self.node.advance(3 * SECOND)
        self.delay(("f", SECOND))
        self.node.advance(2 * SECOND)
        self.node.stop()

    def assert_whole(self) -> None:
        node = self.node
        node.advance(100 * SECOND)
        found = Counter(shown_values(node))
        assert max(found.values(), default=1) == 1, f"twice: {found}"
        wanted = set(self.confirmed) - set(self.cancelled)
        assert wanted - {"c"} <= set(found), "what was confirmed is delivered"
        assert not set(self.cancelled) & set(found)
        assert "c" in found or "c" not in wanted or state_of(node, 2) is DelayState.CANCELLED
        assert statistics(node).pending == 0
        join(node, session_ns=LONG)
        assert sorted(values(poll(node))) == sorted(found)


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_a_life_cut_off_before_any_piece_of_work_delivers_each_message_once(
    without_snapshots: bool,
) -> None:
    number = 0
    has_ended = False
    while not has_ended:
        life = Life()
        life.node.crash_before = cut_off(number)
        try:
            life.run()
            has_ended = True
        except Crashed:
            pass
        life.node.restart(without_snapshots=without_snapshots)
        life.assert_whole()
        number += 1
    assert number > 15


def test_a_life_cut_off_in_any_file_operation_delivers_each_message_once() -> None:
    number = 0
    has_ended = False
    while not has_ended:
        life = Life()
        life.node.files.faults.operations_left = number
        try:
            life.run()
            has_ended = True
        except Killed:
            pass
        life.node.restart()
        life.assert_whole()
        number += 1
    assert number > 15


def test_a_crash_while_catching_up_after_a_crash_delivers_each_message_once() -> None:
    for second in range(12):
        node = store()
        delay(node, ("a", SECOND), ("b", 2 * SECOND), ("c", 3 * SECOND))
        node.now_ns += 10 * SECOND
        try:
            node.restart(crash_before=cut_off(second))
            node.advance(SECOND)
        except Crashed:
            node.restart()
        node.crash_before = None
        node.advance(5 * SECOND)
        assert shown_values(node) == ["a", "b", "c"], f"cut off before piece {second}"


def test_the_first_delayed_message_of_a_topic_waits_for_the_journal() -> None:
    node = store()
    node.slow_down(TOPICS)
    first = node.begin(delaying(node, ("a", SECOND)))
    second = node.begin(delaying(node, ("b", SECOND)))
    publish(node, "plain")
    assert not node.is_answered(first)
    assert not node.is_answered(second)
    twin = node.twin()
    twin.advance(5 * SECOND)
    assert shown_values(twin) == ["plain"]
    node.speed_up()
    assert node.is_answered(first)
    assert node.is_answered(second)
    node.restart(without_snapshots=True)
    node.advance(5 * SECOND)

    assert shown_values(node) == ["plain", "a", "b"]


def test_a_topic_changed_after_its_first_delayed_message_still_knows_that_it_has_some() -> None:
    node = store()
    delay(node, ("a", 5 * SECOND))
    node.ask(
        AlterTopic(name="orders", changes=TopicChanges({"retention_hours": 5})), TopicDescription
    )
    node.restart(without_snapshots=True)
    node.advance(10 * SECOND)

    assert shown_values(node) == ["a"]


def test_overdue_messages_fire_at_once_after_a_restart() -> None:
    node = store(partitions=2)
    delay(node, ("a", SECOND), ("b", HOUR), ("c", 2 * HOUR), targets=[0, 1, 0])
    node.now_ns += HOUR + SECOND
    node.restart()
    node.advance(TICK)

    assert shown_values(node) == ["a"]
    assert shown_values(node, LogId("orders", 1)) == ["b"]
    assert pending(node) == [1]


def test_a_delivery_on_its_way_when_the_process_ends_happens_once() -> None:
    node = store()
    delay(node, ("a", SECOND))
    node.slow_down(LogId("orders", 0))
    node.advance(2 * SECOND)
    node.restart()
    node.advance(SECOND)

    assert shown_values(node) == ["a"]


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"{}",
        b"null",
        b"[1]",
        b'{"topic":1,"upto":1,"offsets":"AAA=","dues":"","outcomes":"","controls":""}',
        b'{"topic":1,"upto":1,"offsets":"AAAAAAAAAAA=","dues":"","outcomes":"","controls":""}',
        b'{"topic":1,"upto":-5,"offsets":"","dues":"","outcomes":"","controls":""}',
        b'{"topic":1,"upto":99999,"offsets":"","dues":"","outcomes":"","controls":""}',
        b"\xff\xfe\x00",
    ],
)
def test_a_snapshot_that_makes_no_sense_is_as_good_as_none(damaged: bytes) -> None:
    node = store()
    delay(node, ("a", 5 * SECOND))
    node.stop()
    content = node.files.copy()
    names = [path for path in content if "delays" in path]
    assert len(names) == 1
    content[names[0]] = damaged
    again = DrivenNode(MemoryFiles(content), now_ns=node.now_ns)
    again.advance(10 * SECOND)

    assert shown_values(again) == ["a"]


def test_a_snapshot_is_used_and_says_the_same() -> None:
    node = store()
    delay(node, ("a", 5 * SECOND), ("b", SECOND), ("c", 7 * SECOND), ("d", 0))
    cancel(node, 2)
    node.advance(2 * SECOND)
    node.stop()
    assert any("delays" in path for path in node.files.copy())

    assert described(node.twin()) == described(node.twin(without_snapshots=True))


def test_a_snapshot_of_a_lost_tail_is_not_believed_when_the_log_has_grown_again() -> None:
    node = DrivenNode()
    config = TopicConfig(flush_policy=Flush.INTERVAL, flush_interval_ms=60_000)
    create(node, config=config)
    delay(node, ("later", 5 * SECOND))
    before = node.files.copy()
    node.advance(6 * SECOND)
    assert shown_values(node) == ["later"]
    delay(node, ("more", 500 * SECOND))
    node.stop()
    # A power loss: what was not flushed is gone, the snapshot is not.
    after = node.files.copy()
    content = before | {path: data for path, data in after.items() if "delays" in path}
    again = DrivenNode(MemoryFiles(content), now_ns=0)
    assert state_of(again, 0) is DelayState.PENDING
    publish(again, "x", "y", "z")
    again.restart()

    assert state_of(again, 0) is DelayState.PENDING
    again.advance(20 * SECOND)
    assert shown_values(again) == ["x", "y", "z", "later"]


def described(node: DrivenNode) -> object:
    """All that can be asked about the delays of the topic of these tests."""
    found = [find(node, offset) for offset in range(200) if state_of(node, offset) is not None]
    figures = statistics(node)
    return (
        found,
        pending(node),
        figures.pending,
        figures.delivered,
        figures.cancelled,
        figures.next_due,
        total_messages(node),
        [(record.offset, record.value) for record in shown(node)],
        lag(node).lag,
    )


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["delay", "delay", "mixed", "plain", "advance", "cancel", "crash", "stop"]),
        st.integers(0, 8),
    ),
    max_size=25,
)


class Model:
    """A node, and beside it the simplest thing that is right: what is due when, by offset."""

    def __init__(self, *, without_snapshots: bool) -> None:
        self.node = store()
        self._without_snapshots = without_snapshots
        self._dues: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._cancelled: list[int] = []
        self._plain: list[str] = []

    def expected(self) -> list[str]:
        """What everybody sees by now, sorted."""
        fired = [
            self._names[offset]
            for offset, due in self._dues.items()
            if due <= self.node.now_ns and offset not in self._cancelled
        ]
        return sorted(fired + self._plain)

    def take(self, step: str, name: str, size: int) -> None:
        match step:
            case "delay":
                self._delay([(f"{name}.{n}", (size + n) * SECOND // 2) for n in range(3)])
            case "mixed":
                self._delay([(f"{name}.p", 0), (f"{name}.q", size * SECOND), (f"{name}.r", 0)])
            case "plain":
                self._delay([(name, 0)])
            case "advance":
                self.node.advance(size * SECOND // 2 + TICK)
            case "cancel" if self._dues:
                self._cancel(list(self._dues)[size % len(self._dues)])
            case "crash":
                self._restart()
            case "stop":
                self.node.stop()
                self._restart()

    def _delay(self, wanted: list[tuple[str, int]]) -> None:
        first = delay(self.node, *wanted).placed[0].first
        for place, (name, delay_ns) in enumerate(wanted):
            if delay_ns:
                self._dues[first + place] = self.node.now_ns + delay_ns
                self._names[first + place] = name
            else:
                self._plain.append(name)

    def _cancel(self, offset: int) -> None:
        is_cancelled = offset in self._cancelled
        is_late = self._dues[offset] <= self.node.now_ns and not is_cancelled
        assert cancel(self.node, offset) is (Code.ALREADY_DELIVERED if is_late else None)
        if not is_late and not is_cancelled:
            self._cancelled.append(offset)

    def _restart(self) -> None:
        self.node.restart(without_snapshots=self._without_snapshots)
        join(self.node, session_ns=LONG)
        self.node.advance(TICK)


@settings(max_examples=examples(25), deadline=None)
@given(STEPS, st.booleans())
def test_whatever_happens_each_message_is_delivered_once_and_snapshots_change_nothing(
    steps: list[tuple[str, int]], without_snapshots: bool
) -> None:
    model = Model(without_snapshots=without_snapshots)
    node = model.node
    for number, (step, size) in enumerate(steps):
        model.take(step, str(number), size)
        node.advance(TICK)
        assert sorted(shown_values(node)) == model.expected()
        assert total_messages(node) == lag(node).lag == len(model.expected())
    assert described(node.twin()) == described(node.twin(without_snapshots=True))
    node.advance(60 * SECOND)
    assert sorted(values(poll(node, count=1000))) == model.expected()
