"""The process ends before any piece of work, and in any file operation: nothing is lost or doubled.

A life of one shop is run to its end once, to count the pieces; then it is cut off before each of
them, the node starts again, and the rest of the life is checked against what was confirmed.
"""

import contextlib
from collections import Counter

import pytest

from goqueue.model import SECOND, Code, LogId, Offset, Refused
from goqueue.model.requests import (
    CommitOffsets,
    DeleteTopic,
    Done,
    Leave,
    Offsets,
    Redrive,
    Redriven,
    TopicConfig,
)
from tests.unit.broker.driven_node import Crashed, DrivenNode, Work, cut_off
from tests.unit.broker.users import (
    ORDERS,
    ack,
    committed,
    create,
    join,
    letters,
    nack,
    poll,
    publish,
    read,
    reject,
    values,
)
from tests.unit.storage.memory_files import Killed


class Life:
    """What was confirmed so far in the life of a shop."""

    def __init__(self) -> None:
        self.node = DrivenNode()
        self.published: list[str] = []
        self.acked: list[str] = []
        self.buried: list[str] = []
        self.floor = 0

    def publish(self, *wanted: str) -> None:
        publish(self.node, *wanted)
        self.published += wanted

    def ack(self, wanted: str) -> None:
        deliveries = {delivery.value: delivery for delivery in self._leased}
        ack(self.node, deliveries[wanted.encode()])
        self.acked.append(wanted)
        self.floor = max(self.floor, committed(self.node) or 0)

    def bury(self, wanted: str, *, by_nack: bool = False) -> None:
        deliveries = {delivery.value: delivery for delivery in self._leased}
        if by_nack:
            nack(self.node, deliveries[wanted.encode()])
        else:
            reject(self.node, deliveries[wanted.encode()])
        self.buried.append(wanted)

    def lease(self) -> None:
        self._leased = poll(self.node)

    def run(self) -> None:
        """Topics made, messages acked out of order, two of them dead in different ways."""
        create(self.node, config=TopicConfig(max_deliveries=1, visibility_ns=10 * SECOND))
        join(self.node, session_ns=600 * SECOND)
        self.publish("a", "b", "c", "d", "e")
        self.lease()
        self.ack("b")
        self.bury("c")
        self.bury("d", by_nack=True)
        self.ack("a")
        self.node.advance(10 * SECOND)
        self.publish("f")
        self.lease()
        self.ack("f")


def count_work() -> int:
    life = Life()
    pieces: list[Work] = []

    def note(work: Work) -> bool:
        pieces.append(work)
        return False

    life.node.crash_before = note
    life.run()
    return len(pieces)


PIECES = count_work()


def assert_whole(life: Life) -> None:
    """What was confirmed is so; what was not is one thing or the other, and never two."""
    node = life.node
    try:
        joined = join(node, client="after")
    except Refused as refused:
        assert refused.code is Code.TOPIC_NOT_FOUND
        assert not life.published
        return
    for member in joined.members[:-1]:
        node.ask(Leave(group="shop", member_id=member), Done)
    alive = values(poll(node, client="after"))
    node.advance(5 * SECOND)
    kept = [(record.value or b"").decode() for record in read(node)]
    assert Counter(kept) <= Counter("abcdef")
    assert set(life.published) <= set(kept)
    assert (committed(node) or 0) >= life.floor
    dead = Counter(letters(node))
    assert max(dead.values(), default=1) == 1, "no letter is doubled"
    assert set(life.buried) <= set(dead)
    assert not set(alive) & set(life.acked), "what was acked is not delivered again"
    assert not set(alive) & set(dead), "what is dead is not delivered again"
    missing = set(kept) - set(alive) - set(dead) - set(life.acked)
    assert missing <= {"a", "b", "f"}, "what is gone had been acked, if nobody was told"


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_a_life_cut_off_before_any_piece_of_work_goes_on_as_promised(
    without_snapshots: bool,
) -> None:
    for number in range(PIECES):
        life = Life()
        life.node.crash_before = cut_off(number)
        with pytest.raises(Crashed):
            life.run()
        life.node.restart(without_snapshots=without_snapshots)
        assert_whole(life)


def test_a_life_cut_off_in_any_file_operation_goes_on_as_promised() -> None:
    whole = Life()
    before = len(whole.node.files.faults.calls)
    whole.run()
    operations = len(whole.node.files.faults.calls) - before
    for number in range(operations):
        life = Life()
        life.node.files.faults.operations_left = number
        # Closings are calls in which nobody is killed, so the last numbers are never met.
        with contextlib.suppress(Killed):
            life.run()
        life.node.restart()
        assert_whole(life)


def redriven_shop() -> DrivenNode:
    """Three letters, to be put back."""
    node = DrivenNode()
    create(node)
    join(node, session_ns=600 * SECOND)
    publish(node, "a", "b", "c")
    for delivery in poll(node):
        reject(node, delivery)
    return node


def test_a_redrive_cut_off_before_any_piece_of_work_puts_each_dead_letter_back_once() -> None:
    number = 0
    has_ended = False
    while not has_ended:
        node = redriven_shop()
        node.crash_before = cut_off(number)
        try:
            node.ask(Redrive(topic="orders"), Redriven)
            has_ended = True
            node.crash_before = None
        except Crashed:
            node.restart()
        node.advance(3 * SECOND)
        while node.ask(Redrive(topic="orders"), Redriven).moved:
            pass
        back = [(record.value or b"").decode() for record in read(node, offset=3)]
        assert sorted(back) == ["a", "b", "c"], f"cut off before piece {number}"
        number += 1
    assert number > 3


def test_a_second_crash_while_the_first_is_being_mended_doubles_no_dead_letter() -> None:
    for first in range(PIECES):
        for second in range(0, 8, 2):
            life = Life()
            life.node.crash_before = cut_off(first)
            with pytest.raises(Crashed):
                life.run()
            try:
                life.node.restart(crash_before=cut_off(second))
                life.node.crash_before = None
            except Crashed:
                life.node.restart()
            assert_whole(life)


def test_positions_never_go_back_over_a_crash() -> None:
    for number in range(12):
        node = DrivenNode()
        create(node)
        publish(node, *"abcdef")
        node.crash_before = cut_off(number)
        confirmed = 0
        try:
            for offset in range(1, 7):
                command = CommitOffsets(group="shop", offsets={ORDERS: Offset(offset)})
                confirmed = int(node.ask(command, Offsets).offsets[ORDERS])
        except Crashed:
            node.restart()
        if confirmed:
            assert (committed(node) or 0) >= confirmed


def test_a_topic_deleted_and_made_again_around_a_crash_keeps_nothing_of_the_old_one() -> None:
    number = 0
    has_ended = False
    while not has_ended:
        node = DrivenNode()
        create(node, partitions=2)
        join(node, session_ns=600 * SECOND)
        publish(node, "old", "older")
        poll(node)
        node.crash_before = cut_off(number)
        try:
            node.ask(DeleteTopic(name="orders"), Done)
            create(node, partitions=2)
            has_ended = True
            node.crash_before = None
        except Crashed:
            node.restart()
        try:
            create(node, partitions=2)
        except Refused as refused:
            assert refused.code is Code.TOPIC_EXISTS
        kept = [record for n in range(2) for record in read(node, LogId("orders", n))]
        if kept:
            # The deletion never happened.
            assert len(kept) == 2
        publish(node, "new", "newer")
        got = {delivery.value: delivery.attempt for delivery in poll(node)}
        assert got[b"new"] == got[b"newer"] == 1
        number += 1
    assert number > 5
