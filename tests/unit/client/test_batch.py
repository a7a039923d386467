"""Messages gathered into batches: bounds, order, room for those that wait, and their receipts."""

import asyncio
import gc

import hypothesis
import pytest
from hypothesis import strategies as st

from goqueue import records
from goqueue.client.batch import ProducerBatch, ProducerConfig, Receipt, Sent
from goqueue.client.errors import GoQueueError, ServerUnreachable
from goqueue.client.sender import Accumulator, Buffer
from goqueue.model import Message, Refused

GATHERING = ProducerConfig(
    messages=3, size_bytes=300, linger_s=1.0, messages_max=5, size_bytes_max=500
)


def gather(*sizes: int, now: float = 0.0) -> Accumulator:
    accumulator = Accumulator("orders", 0, GATHERING)
    for number, size in enumerate(sizes):
        accumulator.add(b"", b"%d" % number, size, now)
    return accumulator


def values_of(batch: ProducerBatch) -> list[bytes | None]:
    body = batch.close()
    return [records.decode(body, position).value for position in records.walk(body).positions]


def test_nothing_is_due_while_nothing_waits() -> None:
    accumulator = gather()
    assert accumulator.due_at() is None
    assert not accumulator.is_full
    assert not accumulator


def test_a_batch_is_due_a_linger_after_its_first_message() -> None:
    accumulator = gather(1, now=5.0)
    accumulator.add(b"", b"", 1, 5.9)
    assert accumulator.due_at() == 6.0
    assert not accumulator.is_full


def test_a_batch_is_full_by_its_messages() -> None:
    assert not gather(1, 1).is_full
    assert gather(1, 1, 1).is_full


def test_a_batch_is_full_by_its_bytes() -> None:
    assert not gather(299).is_full
    assert gather(300).is_full


def test_a_full_batch_grows_on_while_it_cannot_leave() -> None:
    accumulator = gather(1, 1, 1, 1, 1, 1)
    assert accumulator.take().count == 5
    assert accumulator.take().count == 1
    assert not accumulator


def test_a_batch_never_grows_over_its_bytes() -> None:
    accumulator = gather(400, 100, 1)
    assert accumulator.take().size_bytes == 500
    assert accumulator.take().size_bytes == 1


def test_a_message_over_the_bound_travels_alone() -> None:
    accumulator = gather(1, 9999, 1)
    assert [accumulator.take().count for _ in range(3)] == [1, 1, 1]


def test_what_was_taken_takes_nothing_more() -> None:
    accumulator = gather(1)
    taken = accumulator.take()
    accumulator.add(b"", b"", 1, 9.0)
    assert taken.count == 1
    assert accumulator.due_at() == 10.0


@hypothesis.given(st.lists(st.one_of(st.integers(1, 700), st.none()), max_size=60))
def test_messages_leave_once_in_the_order_in_which_they_came(steps: list[int | None]) -> None:
    accumulator = gather()
    added: list[bytes] = []
    left: list[bytes | None] = []
    for step in steps:
        if step is not None:
            added.append(b"%d" % len(added))
            accumulator.add(b"", added[-1], step, 0.0)
        elif accumulator:
            left += values_of(accumulator.take())
    while accumulator:
        batch = accumulator.take()
        assert batch.count <= 5
        assert batch.size_bytes <= 500 or batch.count == 1
        left += values_of(batch)
    assert left == added


def test_a_message_that_cannot_be_encoded_leaves_no_trace() -> None:
    accumulator = gather()
    with pytest.raises(Refused):
        accumulator.add(b"gq.reserved", b"", 1, 0.0)
    assert not accumulator
    accumulator.add(b"", b"good", 1, 0.0)
    with pytest.raises(Refused):
        accumulator.put(Message(key=b"k" * 70_000, value=b""), 1, 0.0)
    assert values_of(accumulator.take()) == [b"good"]


@hypothesis.given(st.integers(1, 8), st.data())
def test_a_refused_message_is_cut_out_and_the_others_keep_their_order(
    count: int, data: st.DataObject
) -> None:
    batch = ProducerBatch("orders", 0, 0.0)
    receipts = [batch.add(b"", b"%d" % number, 1) for number in range(count)]
    left = list(range(count))
    for index in data.draw(st.lists(st.integers(0, 100), max_size=count)):
        refused = left.pop(index % len(left)) if left else None
        if refused is not None:
            error = GoQueueError("request_invalid", f"{refused}")
            batch.refuse(index % (len(left) + 1), error)
    assert values_of(batch) == [b"%d" % number for number in left]
    assert batch.remaining == len(left)
    batch.settle(100, 7)
    for number, receipt in enumerate(receipts):
        if number in left:
            assert asyncio.run(waited(receipt)).offset == 100 + left.index(number)
        else:
            with pytest.raises(GoQueueError, match=f"{number}"):
                asyncio.run(waited(receipt))


async def waited(receipt: Receipt) -> Sent:
    return await receipt


def test_each_message_learns_its_own_offset() -> None:
    batch = ProducerBatch("orders", 2, 0.0)
    batch.settle(100, 7)
    assert asyncio.run(waited(Receipt(batch, 3))) == Sent("orders", 2, 103, 7)


def test_a_failure_is_raised_by_every_receipt_of_the_batch() -> None:
    batch = ProducerBatch("orders", 2, 0.0)
    batch.fail(GoQueueError("storage_full", "full"))
    for index in range(2):
        with pytest.raises(GoQueueError) as failed:
            asyncio.run(waited(Receipt(batch, index)))
        assert failed.value.code == "storage_full"
    assert batch.is_seen


def batches_in_memory() -> int:
    gc.collect()
    return sum(type(each) is ProducerBatch for each in gc.get_objects())


def test_a_failure_that_was_raised_to_a_holder_of_receipts_keeps_nothing_in_memory() -> None:
    def fail_once() -> GoQueueError:
        batch = ProducerBatch("orders", 0, 0.0)
        receipts = [batch.add(b"", b"x", 1) for _ in range(3)]
        batch.fail(GoQueueError("storage_full", "full"))
        try:
            asyncio.run(waited(receipts[0]))
        except GoQueueError as error:
            # Its traceback has this frame, which has the receipts, which have the batch.
            return error
        raise AssertionError("it did not fail")

    before = batches_in_memory()
    error: GoQueueError | None = fail_once()
    assert error is not None
    assert batches_in_memory() == before + 1
    error = None
    assert batches_in_memory() == before


def test_a_failure_keeps_its_kind_code_facts_and_cause() -> None:
    told = ServerUnreachable("gone", was_sent=True)
    told.details = {"attempts": 3}
    told.__cause__ = OSError("reset")
    batch = ProducerBatch("orders", 0, 0.0)
    batch.fail(told)
    with pytest.raises(ServerUnreachable) as failed:
        asyncio.run(waited(Receipt(batch, 0)))
    raised = failed.value
    assert (raised.code, raised.sentence, raised.args) == (told.code, told.sentence, told.args)
    assert raised.was_sent
    assert raised.details == {"attempts": 3}
    assert raised.__cause__ is told.__cause__


def test_many_may_wait_and_one_that_gives_up_takes_nobody_along() -> None:
    async def scene() -> list[Sent]:
        batch = ProducerBatch("orders", 0, 0.0)
        waiting = [asyncio.ensure_future(waited(Receipt(batch, index))) for index in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.sleep(0)
        batch.settle(10, 1)
        return [await waiting[0], await waiting[2]]

    assert [sent.offset for sent in asyncio.run(scene())] == [10, 12]


def test_receipts_can_be_gathered() -> None:
    async def scene() -> list[Sent]:
        batch = ProducerBatch("orders", 0, 0.0)
        gathered = asyncio.gather(*(Receipt(batch, index) for index in range(3)))
        await asyncio.sleep(0)
        batch.settle(0, 1)
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
