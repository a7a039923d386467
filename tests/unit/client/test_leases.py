"""Leases as their holder knows them, and their renewal, with a server at the end of a socket."""

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import AsyncIterator, Awaitable

import pytest

from goqueue.client import ReceiptStale
from goqueue.client.ack_sender import AckSender
from goqueue.client.http import Settings, Transport
from goqueue.client.leases import HeldLease, LeaseRenewer
from goqueue.client.message import Message
from goqueue.client.retries import Retries
from tests.unit.client.lease_answers import held, named, settled
from tests.unit.client.peer import HANG_UP, Answer, Asked, peer

LEASE_S = 0.06
NOWHERE = AckSender(Transport(Settings(server="http://127.0.0.1:1")), "g")


def test_a_lease_is_begun_only_while_it_is_live() -> None:
    assert held(NOWHERE, 1, at=100.0).begin(129.9)
    assert not held(NOWHERE, 1, at=100.0).begin(130.0)
    over = held(NOWHERE, 1, at=100.0)
    over.end()
    assert not over.begin(100.0)


def test_a_renewal_never_shortens_a_lease() -> None:
    lease = held(NOWHERE, 1, at=100.0)
    assert not lease.is_due(109.9)
    assert lease.is_due(110.1)
    lease.renew(150.0, "")
    lease.renew(140.0, "")
    assert lease.begin(149.0)


class Broker:
    """Renews and acknowledges what is not stale; keeps what it was asked to."""

    def __init__(self, *stale: int) -> None:
        self.stale = stale
        self.asked: list[Asked] = []
        self.renewed: list[list[int]] = []
        self.acked: list[list[int]] = []
        self.has_renewed = asyncio.Event()
        self.is_asked = asyncio.Event()
        # Acks are answered when it is open.
        self.gate: asyncio.Event | None = None
        self.hang_ups = 0

    async def __call__(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if self.hang_ups:
            self.hang_ups -= 1
            return HANG_UP
        if asked.target == "/groups/g/leases/extend":
            self.renewed.append(named(asked))
            self.has_renewed.set()
        else:
            self.acked.append(named(asked))
            self.is_asked.set()
            if self.gate is not None:
                await self.gate.wait()
        return settled(asked, self.stale.__contains__)

    async def wait_for_renewals(self, count: int) -> None:
        for _ in range(count):
            self.has_renewed.clear()
            await self.has_renewed.wait()


class TransactionalId:
    """What a consumer has to do with leases."""

    def __init__(self, server: str, max_handling_s: float) -> None:
        retries = Retries(attempts_max=1)
        self.settling = AckSender(Transport(Settings(server=server, retries=retries)), "g")
        self.renewer = LeaseRenewer(self.settling, max_handling_s, lambda _: None)

    def lease(self, *offsets: int) -> list[HeldLease]:
        now = time.monotonic()
        leases = [held(self.settling, offset, LEASE_S, now) for offset in offsets]
        messages = [Message("orders", 0, 0, 0, 2, b"", b"", b"", lease) for lease in leases]
        self.renewer.watch(messages, LEASE_S)
        return leases


@contextlib.asynccontextmanager
async def holding(
    broker: Broker, *, max_handling_s: float = 60.0
) -> AsyncIterator[TransactionalId]:
    async with asyncio.timeout(20), peer(broker) as server:
        holder = TransactionalId(server, max_handling_s)
        running = [
            asyncio.ensure_future(holder.renewer.run()),
            asyncio.ensure_future(holder.settling.run()),
        ]
        yield holder
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def test_leases_are_renewed_together_again_and_again() -> None:
    broker = Broker()

    async def play() -> None:
        async with holding(broker) as holder:
            leases = holder.lease(1, 2, 3)
            await broker.wait_for_renewals(3)
            assert leases[0].deadline > 1_800_000_000_000_000_000

    asyncio.run(play())
    assert broker.renewed[:3] == [[1, 2, 3]] * 3


def test_a_message_that_was_dropped_or_settled_is_not_renewed() -> None:
    broker = Broker()

    async def play() -> None:
        async with holding(broker) as holder:
            dropped, settled, kept = holder.lease(1, 3, 5)
            del dropped
            gc.collect()
            await settled.ack()
            await broker.wait_for_renewals(2)
            assert not kept.is_over

    asyncio.run(play())
    assert {*map(tuple, broker.renewed)} == {(5,)}


def test_a_lease_that_was_lost_is_told_of_once_and_not_renewed_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Broker(1)

    async def play() -> None:
        async with holding(broker) as holder:
            lost, kept = holder.lease(1, 5)
            await broker.wait_for_renewals(3)
            assert lost.is_over
            assert not kept.is_over
            assert not lost.begin(time.monotonic())

    asyncio.run(play())
    assert broker.renewed[:3] == [[1, 5], [5], [5]]
    told = [record for record in caplog.records if "1 leases ended" in record.getMessage()]
    assert len(told) == 1


def test_a_renewal_that_fails_is_tried_again_before_the_lease_ends() -> None:
    broker = Broker()
    broker.hang_ups = 1

    async def play() -> None:
        async with holding(broker) as holder:
            (lease,) = holder.lease(1)
            await broker.wait_for_renewals(1)
            assert not lease.is_over

    asyncio.run(play())
    assert broker.renewed[0] == [1]


def test_a_message_is_not_kept_in_hand_for_ever() -> None:
    broker = Broker()

    async def play() -> None:
        async with holding(broker, max_handling_s=LEASE_S / 10) as holder:
            in_hand, waiting = holder.lease(1, 5)
            in_hand.begin(time.monotonic())
            await broker.wait_for_renewals(2)
            assert not waiting.is_over

    asyncio.run(play())
    assert {*map(tuple, broker.renewed)} == {(5,)}


def test_acknowledgements_that_nobody_awaited_fail_in_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Broker(1, 2)

    async def play() -> None:
        unhandled: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: unhandled.append(told))
        async with holding(broker) as holder:
            first, second, third = holder.lease(1, 2, 3)
            first.ack()
            await asyncio.sleep(0)
            second.ack()
            await third.ack()
            await holder.settling.drain()
        gc.collect()
        assert unhandled == []

    with caplog.at_level(logging.WARNING):
        asyncio.run(play())
    told = [each.getMessage() for each in caplog.records if "nobody awaited" in each.getMessage()]
    assert 1 <= len(told) <= 2
    assert "receipt_stale" in told[0]


def test_an_acknowledgement_that_is_awaited_raises_and_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Broker(1, 2)

    async def play() -> None:
        async with holding(broker) as holder:
            first, second = holder.lease(1, 2)
            with pytest.raises(ReceiptStale):
                await first.ack()
            refused = await asyncio.gather(second.ack(), return_exceptions=True)
            assert [type(each) for each in refused] == [ReceiptStale]

    asyncio.run(play())
    assert not [each for each in caplog.records if "nobody awaited" in each.getMessage()]


def test_acks_made_while_a_request_is_under_way_share_the_next() -> None:
    broker = Broker()
    broker.gate = gate = asyncio.Event()

    async def play() -> None:
        async with holding(broker) as holder:
            leases = holder.lease(1, 2, 3, 4, 5, 6)
            first = leases[0].ack()
            await broker.is_asked.wait()
            others = [lease.ack() for lease in leases[1:]]
            gate.set()
            await first
            await asyncio.gather(*others)

    asyncio.run(play())
    assert broker.acked == [[1], [2, 3, 4, 5, 6]]


def test_whoever_gives_up_waiting_for_an_ack_takes_nobody_along() -> None:
    broker = Broker()
    broker.gate = gate = asyncio.Event()

    async def play() -> None:
        async with holding(broker) as holder:
            acks = [lease.ack() for lease in holder.lease(1, 2)]
            given_up, kept = (asyncio.ensure_future(waited(ack)) for ack in acks)
            await broker.is_asked.wait()
            given_up.cancel()
            gate.set()
            await kept
            assert given_up.cancelled()
            # It was on its way all the same, and may be awaited again.
            await acks[0]

    asyncio.run(play())
    assert broker.acked == [[1, 2]]


def test_a_request_names_no_more_leases_than_the_broker_takes() -> None:
    broker = Broker()

    async def play() -> None:
        async with holding(broker) as holder:
            for number in range(2500):
                lease = held(holder.settling, 1)
                lease.handle = f"orders:0:1:{number}"
                lease.ack()
            await holder.settling.flush()

    asyncio.run(play())
    assert [len(each) for each in broker.acked] == [1000, 1000, 500]


def test_no_more_is_leased_while_many_acks_wait() -> None:
    broker = Broker()
    broker.gate = gate = asyncio.Event()

    async def play() -> None:
        async with holding(broker) as holder:
            holder.settling.ack(held(holder.settling, 0))
            await broker.is_asked.wait()
            for offset in range(1, 20_001):
                holder.settling.ack(held(holder.settling, offset))
            waiting = asyncio.ensure_future(holder.settling.wait_for_room())
            await asyncio.sleep(0)
            assert not waiting.done()
            gate.set()
            await waiting
            await holder.settling.flush()

    asyncio.run(play())
    assert [len(each) for each in broker.acked] == [1, 10_000, 10_000]


async def waited(ack: Awaitable[None]) -> None:
    await ack
