"""Thousands of messages that move at once: in steps, together, and nobody waits for all of them."""

import errno
from collections import Counter

import pytest

from goqueue.broker.turns import TURN_UNITS
from goqueue.model import (
    SECOND,
    Code,
    DeadLettersStalled,
    Failed,
    LogId,
    Message,
    Refused,
    Write,
)
from goqueue.model.requests import (
    DeleteGroup,
    DeleteTopic,
    Done,
    Leave,
    Mode,
    Nack,
    Publish,
    Published,
    Redrive,
    Redriven,
    Reject,
    Returned,
    TopicConfig,
)
from goqueue.records import build
from tests.unit.broker.driven_node import Crashed, DrivenNode, Work
from tests.unit.broker.users import (
    LETTERS,
    ORDERS,
    Delivery,
    create,
    join,
    poll,
    publish,
    read,
    read_values,
    shop,
)

GROUPS = LogId("__groups", 0)

# What a turn may do beyond its budget: the batches that one sync commits, once each step.
UNITS_MAX = 2 * TURN_UNITS


def with_letters(count: int, partitions: int = 1) -> DrivenNode:
    """A node whose dead letters were written by hand: that is faster than to reject messages."""
    node = DrivenNode()
    create(node, partitions=partitions)
    create(node, "orders.dlq", partitions)
    join(node, session_ns=600 * SECOND)
    facts = {"topic": "orders", "offset": "7", "group": "shop", "deliveries": "3"}
    for first in range(0, count, 1000):
        batch = [
            Message(
                value=b"%d" % number,
                headers=tuple(
                    (f"goqueue.dlq.{name}", text.encode())
                    for name, text in {**facts, "partition": str(number % partitions)}.items()
                ),
            )
            for number in range(first, min(count, first + 1000))
        ]
        targets = [number % partitions for number in range(len(batch))]
        command = Publish(topic="orders.dlq", batch=build(batch), targets=targets)
        node.ask(command, Published)
    node.turn_units_max = node.turn_units_sum = 0
    return node


def with_last_deliveries(count: int) -> DrivenNode:
    """A node with so many messages in the hands of a member, each for the last time."""
    node = DrivenNode()
    create(node, config=TopicConfig(max_deliveries=1, visibility_ns=10 * SECOND))
    for number in range(0, count, 1000):
        client = f"c{number}"
        join(node, client=client, mode=Mode.SHARED, session_ns=600 * SECOND)
        publish(node, *map(str, range(number, number + 1000)))
        assert len(poll(node, client=client, count=1000)) == 1000
    node.turn_units_max = node.turn_units_sum = 0
    return node


def redrive(node: DrivenNode, count: int = 10_000) -> int:
    return node.ask(Redrive(topic="orders", messages_max=count), Redriven).moved


def test_a_redrive_of_thousands_does_bounded_turns_and_the_same_work_per_dead_letter() -> None:
    few, many = with_letters(1000), with_letters(4000)
    assert redrive(few) == 1000
    assert redrive(many) == 4000

    assert max(few.turn_units_max, many.turn_units_max) <= UNITS_MAX
    assert many.turn_units_sum < 1.1 * 4 * few.turn_units_sum
    assert len(read_values(many)) == 4000


def test_dead_letters_that_go_the_same_way_share_appends_and_records_of_the_journal() -> None:
    node = with_letters(1000)
    written: Counter[LogId] = Counter()

    def note(work: Work) -> bool:
        if isinstance(work, Write):
            written[work.log] += 1
        return False

    node.crash_before = note
    assert redrive(node) == 1000
    # Copies and their markers, decisions and their ends.
    assert written[ORDERS] <= 50
    assert written[GROUPS] <= 50


def test_dead_letters_come_back_in_the_order_in_which_they_died() -> None:
    node = with_letters(1500)
    redrive(node)

    assert read_values(node) == [str(number) for number in range(1500)]


def test_last_deliveries_that_run_out_together_are_buried_in_bounded_turns() -> None:
    node = with_last_deliveries(4000)
    node.advance(11 * SECOND)

    assert node.turn_units_max <= UNITS_MAX
    assert len(read(node, LETTERS)) == 4000


def test_a_reject_does_not_wait_for_thousands_of_others_that_are_still_to_be_moved() -> None:
    node = with_last_deliveries(2000)
    join(node, client="late", mode=Mode.SHARED, session_ns=600 * SECOND)
    publish(node, "mine")
    mine = poll(node, client="late", visibility_ns=100 * SECOND)[0]
    create(node, "orders.dlq")
    node.slow_down(LETTERS)
    node.advance(11 * SECOND)

    rejected = node.begin(Reject(receipt=mine.receipt, reason=""))
    node.speed_up()
    assert node.reply(rejected, Returned).dead_letter_topic == "orders.dlq"
    letters = read_values(node, LETTERS)
    assert len(letters) == 2001
    # Only those that were on their way already are before it.
    assert letters.index("mine") <= 400


@pytest.mark.parametrize("victim", ["letters", "origin", "group"])
def test_what_is_deleted_in_the_midst_of_many_moves_stops_no_node(victim: str) -> None:
    node = with_last_deliveries(2000)
    create(node, "orders.dlq")
    node.slow_down(LETTERS)
    node.advance(11 * SECOND)
    if victim == "group":
        for number in (0, 1000):
            leave(node, f"c{number}")
        node.ask(DeleteGroup(group="shop"), Done)
    else:
        node.begin(DeleteTopic(name="orders" if victim == "origin" else "orders.dlq"))
    node.speed_up()
    node.advance(3 * SECOND)

    assert not node.halts
    # Letters that were deleted are written again, since nothing of them was decided.
    if victim == "letters":
        assert len(read(node, LETTERS)) == 2000
    create(node, "others")
    publish(node, "x", topic="others")


def leave(node: DrivenNode, client: str) -> None:
    node.ask(Leave(group="shop", member_id=f"{client}-{client}00"), Done)


@pytest.mark.parametrize("log", [ORDERS, GROUPS], ids=str)
@pytest.mark.parametrize("writes", [1, 2, 3, 5])
def test_a_crash_in_the_midst_of_a_redrive_leaves_each_dead_letter_in_one_place(
    log: LogId, writes: int
) -> None:
    node = with_letters(600)
    left = writes

    def crash(work: Work) -> bool:
        nonlocal left
        left -= isinstance(work, Write) and work.log == log
        return left == 0

    node.crash_before = crash
    with pytest.raises(Crashed):
        redrive(node)
    node.restart()
    redrive(node)

    assert sorted(map(int, read_values(node))) == list(range(600))


def patient_shop(max_deliveries: int = 3) -> DrivenNode:
    """A node with one member that may be silent for minutes."""
    node = DrivenNode()
    create(node, config=TopicConfig(max_deliveries=max_deliveries))
    join(node, session_ns=600 * SECOND)
    return node


def rejected(node: DrivenNode, message: Delivery) -> Refused:
    """The refusal of a reject."""
    request = node.begin(Reject(receipt=message.receipt, reason=""))
    with pytest.raises(Refused) as refused:
        node.reply(request, Returned)
    return refused.value


def stalls(node: DrivenNode) -> list[DeadLettersStalled]:
    return [each for each in node.reports if isinstance(each, DeadLettersStalled)]


def stalled_gauge(node: DrivenNode) -> dict[str, object]:
    """The stalled messages, by topic."""
    name = "goqueue_broker_dead_letters_stalled"
    family = next(each for each in node.node.metrics() if each.name == name)
    samples = [sample for sample in family.samples if sample is not None]
    return {labels[0]: value for labels, value in samples}


@pytest.mark.parametrize("when", ["before", "while the copy is written"])
def test_a_reject_is_refused_when_the_log_of_the_dead_letters_has_failed(when: str) -> None:
    node = shop(max_deliveries=2)
    create(node, "orders.dlq")
    publish(node, "a")
    message = poll(node)[0]
    if when == "before":
        node.take(Failed(log=LETTERS, reason="broken"))
        refused = rejected(node, message)
    else:
        node.slow_down(LETTERS)
        request = node.begin(Reject(receipt=message.receipt, reason=""))
        assert not node.is_answered(request)
        node.take(Failed(log=LETTERS, reason="broken"))
        with pytest.raises(Refused) as raised:
            node.reply(request, Returned)
        refused = raised.value

    assert refused.code is Code.STORAGE_FAILED
    assert refused.facts["reason"] == "broken"
    # The message stays with its group.
    again = poll(node)[0]
    assert (again.value, again.attempt) == (b"a", 2)


def test_a_message_without_deliveries_left_waits_for_failed_dead_letters_and_is_reported() -> None:
    node = patient_shop(max_deliveries=1)
    create(node, "orders.dlq")
    publish(node, "a")
    message = poll(node)[0]
    node.take(Failed(log=LETTERS, reason="broken"))
    request = node.begin(Nack(receipt=message.receipt))
    with pytest.raises(Refused) as refused:
        node.reply(request, Returned)

    assert refused.value.code is Code.STORAGE_FAILED
    # It is neither delivered again nor lost, however often the move is tried.
    node.advance(30 * SECOND)
    assert poll(node) == []
    assert stalls(node) == [DeadLettersStalled(topic="orders.dlq", count=1, reason="broken")]
    assert stalled_gauge(node) == {"orders.dlq": 1}
    node.advance(31 * SECOND)
    assert len(stalls(node)) == 2

    node.restart()
    join(node)
    poll(node)
    node.advance(3 * SECOND)
    assert read_values(node, LETTERS) == ["a"]


def test_a_reject_is_refused_when_the_dead_letter_topic_cannot_be_created() -> None:
    node = shop()
    publish(node, "a")
    message = poll(node)[0]
    node.files.faults.broken["make_directory", "orders.dlq"] = errno.EIO
    refused = rejected(node, message)

    assert refused.code is Code.STORAGE_FAILED
    node.files.faults.broken.clear()
    node.advance(2 * SECOND)
    again = node.begin(Reject(receipt=poll(node)[0].receipt, reason=""))
    assert node.reply(again, Returned).dead_letter_offset == 0


def test_a_full_disk_stalls_a_reject_and_is_reported_once_a_minute() -> None:
    node = patient_shop()
    create(node, "orders.dlq")
    publish(node, "a")
    message = poll(node)[0]
    full = "write", "orders.dlq/0/00000000000000000000.log"
    node.files.faults.broken[full] = errno.ENOSPC
    request = node.begin(Reject(receipt=message.receipt, reason=""))
    node.advance(10 * SECOND)

    assert not node.is_answered(request)
    assert [each.reason for each in stalls(node)] == ["storage_full"]
    del node.files.faults.broken[full]
    node.advance(10 * SECOND)
    assert node.reply(request, Returned).dead_letter_offset == 0
    assert stalled_gauge(node) == {}


def test_a_redrive_into_a_failed_log_ends_and_leaves_the_dead_letters() -> None:
    node = with_letters(10)
    node.take(Failed(log=ORDERS, reason="broken"))

    assert redrive(node) == 0
    assert len(read(node, LETTERS)) == 10


def test_thousands_of_rejects_of_a_failed_log_are_refused_in_bounded_turns() -> None:
    node = DrivenNode(budget_units=100)
    create(node)
    create(node, "orders.dlq")
    join(node)
    publish(node, *map(str, range(1000)))
    node.slow_down(LETTERS)
    waiting = [
        node.begin(Reject(receipt=each.receipt, reason="")) for each in poll(node, count=1000)
    ]
    node.turn_units_max = 0
    node.take(Failed(log=LETTERS, reason="broken"))

    assert all(node.is_answered(each) for each in waiting)
    assert node.turn_units_max <= 200
    assert len(poll(node, count=1000)) == 1000
