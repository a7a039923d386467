"""Deliveries of what a worker has in hand, or has finished: not work a second time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from goqueue.client.ack_sender import AckSender
from goqueue.client.delivery_ledger import DeliveryLedger
from goqueue.client.http import Settings, Transport
from goqueue.client.message import Message
from tests.unit.client.lease_answers import held, named, settled
from tests.unit.client.peer import Answer, Asked, peer

TIMESTAMP = 1_000_000_000


@contextlib.asynccontextmanager
async def settling(*stale: int) -> AsyncIterator[tuple[AckSender, list[int]]]:
    """A sender whose acks of some offsets are refused, and the offsets that were acked."""
    acked: list[int] = []

    async def answer(asked: Asked) -> Answer:
        acked.extend(named(asked))
        return settled(asked, lambda offset: offset in stale and acked.count(offset) == 1)

    async with asyncio.timeout(20), peer(answer) as server:
        sender = AckSender(Transport(Settings(server=server)), "g")
        running = asyncio.ensure_future(sender.run())
        yield sender, acked
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def delivery(sender: AckSender, offset: int, timestamp: int = TIMESTAMP) -> Message:
    return Message("orders", 0, offset, timestamp, 2, b"", b"", b"", held(sender, offset))


def test_what_is_in_hand_is_settled_by_its_newest_lease() -> None:
    async def play() -> None:
        async with settling() as (sender, acked):
            ledger = DeliveryLedger()
            work = ledger.begin(delivery(sender, 1))
            assert work is not None
            work.lease.lose()
            again = delivery(sender, 1)
            assert ledger.begin(again) is None
            assert work.message is again
            ledger.end(work)
            assert ledger.ack(work)
            await sender.drain()
            assert acked == [1]
            assert len(ledger) == 0

    asyncio.run(play())


def test_what_is_finished_is_acked_when_it_comes_again_also_before_its_first_ack_is_answered() -> (
    None
):
    async def play() -> None:
        async with settling(1, 2) as (sender, acked):
            ledger = DeliveryLedger()
            for offset in (1, 2):
                work = ledger.begin(delivery(sender, offset))
                assert work is not None
                ledger.end(work)
                ledger.ack(work)
            assert ledger.begin(delivery(sender, 1)) is None
            await sender.drain()
            assert ledger.begin(delivery(sender, 2)) is None
            await sender.drain()
            assert acked.count(2) == 2

    asyncio.run(play())


def test_what_was_acked_for_good_is_forgotten() -> None:
    """Such as when an operator resets the group: then it is to be done again."""

    async def play() -> None:
        async with settling() as (sender, _):
            ledger = DeliveryLedger()
            for offset in (1, 2):
                work = ledger.begin(delivery(sender, offset))
                assert work is not None
                ledger.end(work)
                ledger.ack(work)
                await sender.drain()
            assert ledger.begin(delivery(sender, 1)) is not None

    asyncio.run(play())


def test_the_last_that_was_acked_for_good_is_forgotten_too() -> None:
    """No ack comes behind it: a worker that has nothing to do would remember it for hours."""

    async def play() -> None:
        async with settling() as (sender, _):
            ledger = DeliveryLedger()
            work = ledger.begin(delivery(sender, 1))
            assert work is not None
            ledger.end(work)
            ledger.ack(work)
            await sender.drain()
            assert ledger.begin(delivery(sender, 1)) is not None

    asyncio.run(play())


def test_a_lease_that_was_lost_during_the_work_is_not_acked_but_its_next_one_is() -> None:
    async def play() -> None:
        async with settling() as (sender, acked):
            ledger = DeliveryLedger()
            work = ledger.begin(delivery(sender, 1))
            assert work is not None
            work.lease.lose()
            ledger.end(work)
            assert not ledger.ack(work)
            assert ledger.begin(delivery(sender, 1)) is None
            await sender.drain()
            assert acked == [1]

    asyncio.run(play())


def test_what_its_handler_gave_back_is_work_when_it_comes_again() -> None:
    async def play() -> None:
        async with settling() as (sender, acked):
            ledger = DeliveryLedger()
            first = ledger.begin(delivery(sender, 1))
            assert first is not None
            first.lease.end()
            second = ledger.begin(delivery(sender, 1))
            assert second is not None
            ledger.end(first)
            assert ledger.ack(first)
            assert len(ledger) == 1
            ledger.end(second)
            assert ledger.ack(second)
            await sender.drain()
            assert acked == [1]

    asyncio.run(play())


def test_another_message_at_the_same_place_is_work() -> None:
    async def play() -> None:
        async with settling() as (sender, _):
            ledger = DeliveryLedger()
            first = delivery(sender, 1)
            assert ledger.begin(first) is not None
            assert ledger.begin(delivery(sender, 1, TIMESTAMP + 1)) is not None
            assert ledger.begin(msgspec.structs.replace(first, partition=1)) is not None
            assert ledger.begin(msgspec.structs.replace(first, topic="other")) is not None

    asyncio.run(play())


def test_no_more_than_ten_thousand_lost_messages_are_remembered() -> None:
    async def play() -> None:
        async with settling() as (sender, _):
            ledger = DeliveryLedger()
            for offset in range(10_001):
                work = ledger.begin(delivery(sender, offset))
                assert work is not None
                work.lease.lose()
                ledger.end(work)
                ledger.ack(work)
            assert ledger.begin(delivery(sender, 0)) is not None
            assert ledger.begin(delivery(sender, 1)) is None

    asyncio.run(play())


def test_what_its_handler_acked_is_no_work_when_the_ack_failed_and_it_comes_again() -> None:
    async def play() -> None:
        async with settling(1) as (sender, acked):
            ledger = DeliveryLedger()
            work = ledger.begin(delivery(sender, 1))
            assert work is not None
            work.lease.ack()
            ledger.end(work)
            assert ledger.ack(work)
            await sender.drain()

            assert ledger.begin(delivery(sender, 1)) is None
            await sender.drain()
            assert acked == [1, 1]

    asyncio.run(play())


def test_what_its_handler_acked_and_still_has_in_hand_is_acked_by_its_newest_lease() -> None:
    async def play() -> None:
        async with settling(1) as (sender, acked):
            ledger = DeliveryLedger()
            work = ledger.begin(delivery(sender, 1))
            assert work is not None
            work.lease.ack()
            await sender.drain()
            assert ledger.begin(delivery(sender, 1)) is None
            assert work.is_acked
            ledger.end(work)
            assert ledger.ack(work)
            await sender.drain()
            assert acked == [1, 1]

    asyncio.run(play())


def test_what_its_handler_acked_for_good_is_work_when_it_comes_again() -> None:
    async def play() -> None:
        async with settling() as (sender, _):
            ledger = DeliveryLedger()
            work = ledger.begin(delivery(sender, 1))
            assert work is not None
            work.lease.ack()
            await sender.drain()
            assert ledger.begin(delivery(sender, 1)) is not None
            ledger.end(work)
            ledger.ack(work)
            assert ledger.begin(delivery(sender, 1)) is None, "it is in hand"

    asyncio.run(play())
