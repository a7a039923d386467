"""Receipts of messages, and the room for those that wait."""

import asyncio

import pytest

from goqueue.client.batch import ProducerBatch, Receipt, Sent
from goqueue.client.errors import GoQueueError
from goqueue.client.sender import Buffer


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
