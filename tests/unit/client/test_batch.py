"""Messages gathered into batches: bounds, order, room for those that wait, and their receipts."""

import asyncio

import hypothesis
import pytest
from hypothesis import strategies as st

from goqueue.client.batch import ProducerBatch, ProducerConfig, Receipt, Sent
from goqueue.client.errors import GoQueueError
from goqueue.client.sender import Accumulator, Buffer
from goqueue.model import Message

GATHERING = ProducerConfig(
    messages=3, size_bytes=300, linger_s=1.0, messages_max=5, size_bytes_max=500
)


def gather(*sizes: int, now: float = 0.0) -> Accumulator:
    accumulator = Accumulator("orders", 0, GATHERING)
    for number, size in enumerate(sizes):
        accumulator.add(Message(value=b"%d" % number), size, now)
    return accumulator


def test_nothing_is_due_while_nothing_waits() -> None:
    accumulator = gather()
    assert accumulator.due_at() is None
    assert not accumulator.is_full
    assert not accumulator


def test_a_parcel_is_due_a_linger_after_its_first_message() -> None:
    accumulator = gather(1, now=5.0)
    accumulator.add(Message(value=b""), 1, 5.9)
    assert accumulator.due_at() == 6.0
    assert not accumulator.is_full


def test_a_parcel_is_full_by_its_messages() -> None:
    assert not gather(1, 1).is_full
    assert gather(1, 1, 1).is_full


def test_a_parcel_is_full_by_its_bytes() -> None:
    assert not gather(299).is_full
    assert gather(300).is_full


def test_a_full_parcel_grows_on_while_it_cannot_leave() -> None:
    accumulator = gather(1, 1, 1, 1, 1, 1)
    assert len(accumulator.take().messages) == 5
    assert len(accumulator.take().messages) == 1
    assert not accumulator


def test_a_parcel_never_grows_over_its_bytes() -> None:
    accumulator = gather(400, 100, 1)
    assert accumulator.take().size_bytes == 500
    assert accumulator.take().size_bytes == 1


def test_a_message_over_the_bound_travels_alone() -> None:
    accumulator = gather(1, 9999, 1)
    assert [len(accumulator.take().messages) for _ in range(3)] == [1, 1, 1]


def test_what_was_taken_takes_nothing_more() -> None:
    accumulator = gather(1)
    taken = accumulator.take()
    accumulator.add(Message(value=b""), 1, 9.0)
    assert len(taken.messages) == 1
    assert accumulator.due_at() == 10.0


@hypothesis.given(st.lists(st.one_of(st.integers(1, 700), st.none()), max_size=60))
def test_messages_leave_once_in_the_order_in_which_they_came(steps: list[int | None]) -> None:
    accumulator = gather()
    added: list[bytes] = []
    left: list[bytes | None] = []
    for step in steps:
        if step is not None:
            added.append(b"%d" % len(added))
            accumulator.add(Message(value=added[-1]), step, 0.0)
        elif accumulator:
            left += [message.value for message in accumulator.take().messages]
    while accumulator:
        parcel = accumulator.take()
        assert len(parcel.messages) <= 5
        assert parcel.size_bytes <= 500 or len(parcel.messages) == 1
        left += [message.value for message in parcel.messages]
    assert left == added


async def waited(receipt: Receipt) -> Sent:
    return await receipt


def test_each_message_learns_its_own_offset() -> None:
    parcel = ProducerBatch("orders", 2, 0.0)
    parcel.settle(100, 7)
    assert asyncio.run(waited(Receipt(parcel, 3))) == Sent("orders", 2, 103, 7)


def test_a_failure_is_raised_by_every_receipt_of_the_parcel() -> None:
    parcel = ProducerBatch("orders", 2, 0.0)
    parcel.fail(GoQueueError("storage_full", "full"))
    for index in range(2):
        with pytest.raises(GoQueueError) as failed:
            asyncio.run(waited(Receipt(parcel, index)))
        assert failed.value.code == "storage_full"
    assert parcel.is_seen


def test_many_may_wait_and_one_that_gives_up_takes_nobody_along() -> None:
    async def scene() -> list[Sent]:
        parcel = ProducerBatch("orders", 0, 0.0)
        waiting = [asyncio.ensure_future(waited(Receipt(parcel, index))) for index in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.sleep(0)
        parcel.settle(10, 1)
        return [await waiting[0], await waiting[2]]

    assert [sent.offset for sent in asyncio.run(scene())] == [10, 12]


def test_receipts_can_be_gathered() -> None:
    async def scene() -> list[Sent]:
        parcel = ProducerBatch("orders", 0, 0.0)
        gathered = asyncio.gather(*(Receipt(parcel, index) for index in range(3)))
        await asyncio.sleep(0)
        parcel.settle(0, 1)
        return await gathered

    assert [sent.offset for sent in asyncio.run(scene())] == [0, 1, 2]


def test_who_finds_no_room_waits_until_half_of_it_is_free() -> None:
    async def scene() -> list[bool]:
        buffer = Buffer(100)
        buffer.taken = 100
        waiting = asyncio.ensure_future(buffer.wait_for_room(10))
        seen = []
        for _ in range(2):
            await asyncio.sleep(0)
            buffer.release(30)
            await asyncio.sleep(0)
            seen.append(waiting.done())
        await waiting
        return seen

    assert asyncio.run(scene()) == [False, True]


def test_a_message_larger_than_all_room_is_taken_when_nothing_else_is_there() -> None:
    buffer = Buffer(100)
    assert buffer.has_room(1000)
    buffer.taken = 1
    assert not buffer.has_room(1000)
