"""Epochs of a transactional id: nothing that arrives late is taken for the next transaction's."""

import asyncio

import pytest

from goqueue.client import (
    GoQueueError,
    ProducerFenced,
    ServerUnreachable,
    TransactionAborted,
    TransactionOutcomeUnknown,
    TransactionStateInvalid,
)
from goqueue.client.connection import Connection
from goqueue.model import LogId
from tests.unit.client.ledger import Ledger
from tests.unit.client.peer import HANG_UP, refusal_answer
from tests.unit.client.transactional import NAME, leased, play, publish_one


def test_an_abort_that_fails_does_not_hide_why_there_was_one() -> None:
    ledger = Ledger()
    ledger.instead["abort"] = [HANG_UP] * 4

    async def scene(q: Connection) -> None:
        with pytest.raises(LookupError, match="my own"):
            async with q.transaction(NAME):
                raise LookupError("my own")
        await publish_one(q)

    play(ledger, scene)
    # What was left open is ended by the next epoch.
    assert ledger.count("init") == 2
    assert [batch.epoch for batch in ledger.batches] == [1]


def test_a_batch_under_way_at_an_abort_cannot_join_the_next_transaction() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        ledger.gates["records"] = asyncio.Event()

        async def work() -> None:
            async with q.transaction(NAME) as tx:
                await tx.publish("orders", b"late")
                await ledger.wait_for(lambda: ledger.count("records") == 1)
                raise LookupError

        with pytest.raises(LookupError):
            await work()
        ledger.gates.pop("records")
        await publish_one(q)

    play(ledger, scene)
    assert [(batch.epoch, batch.values) for batch in ledger.batches] == [(1, [b"x"])]


def test_a_batch_of_unknown_outcome_aborts_and_ends_the_epoch() -> None:
    ledger = Ledger()
    ledger.unheard["records"] = 4

    async def scene(q: Connection) -> None:
        with pytest.raises(TransactionAborted) as aborted:
            await publish_one(q)
        assert isinstance(aborted.value.__cause__, ServerUnreachable)
        await publish_one(q)

    play(ledger, scene)
    assert [(batch.epoch, batch.sequence) for batch in ledger.batches] == [(0, 0), (1, 0)]


@pytest.mark.parametrize("code", ["sequence_out_of_order", "producer_not_found"])
def test_a_batch_whose_number_is_refused_ends_the_epoch(code: str) -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        await publish_one(q)
        ledger.instead["records"] = [refusal_answer(409, code)]
        with pytest.raises(TransactionAborted, match=code):
            await publish_one(q)
        # As after a topic was made anew: no number of this epoch would ever be right.
        await publish_one(q)

    play(ledger, scene)
    assert [(batch.epoch, batch.sequence) for batch in ledger.batches] == [(0, 0), (1, 0)]


def test_a_commit_whose_answer_was_lost_is_asked_for_again() -> None:
    ledger = Ledger()
    ledger.unheard["commit"] = 6

    async def scene(q: Connection) -> None:
        await publish_one(q)
        await publish_one(q)

    play(ledger, scene)
    assert ledger.count("commit") == 8
    assert ledger.count("abort") == 0
    # A commit that arrives late is one of an epoch that is over.
    assert [batch.epoch for batch in ledger.batches] == [0, 1]


def test_acknowledgements_that_may_arrive_late_cannot_join_the_next_transaction() -> None:
    ledger = Ledger()
    ledger.unheard["offsets"] = 1

    async def scene(q: Connection) -> None:
        async def work() -> None:
            async with q.transaction(NAME) as tx:
                for number in range(1000):
                    await tx.ack(leased(number))
                raise LookupError

        with pytest.raises(LookupError):
            await work()
        await publish_one(q)

    play(ledger, scene)
    assert [batch.epoch for batch in ledger.batches] == [1]


def test_a_call_of_the_block_that_is_cancelled_cannot_join_the_next_transaction() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        ledger.gates["offsets"] = asyncio.Event()
        async with q.transaction(NAME) as tx:
            sending = asyncio.ensure_future(tx.send_offsets("g", {LogId("orders", 0): 5}))
            await ledger.wait_for(lambda: ledger.count("offsets") == 1)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            await tx.abort()
        await publish_one(q)

    play(ledger, scene)
    assert [batch.epoch for batch in ledger.batches] == [1]


def test_a_call_that_another_task_has_under_way_at_an_abort_ends_the_epoch() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        ledger.gates["offsets"] = asyncio.Event()
        async with q.transaction(NAME) as tx:
            sending = asyncio.ensure_future(tx.send_offsets("g", {LogId("orders", 0): 5}))
            await ledger.wait_for(lambda: ledger.count("offsets") == 1)
            await tx.abort()
        ledger.gates.pop("offsets").set()
        with pytest.raises(TransactionStateInvalid):
            await sending
        await publish_one(q)

    play(ledger, scene)
    assert [batch.epoch for batch in ledger.batches] == [1]


def test_a_prepared_transaction_outlives_a_doubt_about_its_epoch() -> None:
    ledger = Ledger()
    ledger.unheard["prepare"] = 1

    async def scene(q: Connection) -> None:
        async with q.transaction(NAME) as tx:
            await tx.publish("orders", b"x")
            transaction_id = await tx.prepare()
        for _ in range(2):
            with pytest.raises(TransactionStateInvalid):
                await publish_one(q)
        await q.take_over(NAME)
        assert ledger.state == "prepared"
        assert await q.commit_group("key", [transaction_id])
        await publish_one(q)

    play(ledger, scene)
    assert [batch.epoch for batch in ledger.batches] == [0, 1]


def test_a_commit_that_is_never_answered_has_an_unknown_outcome() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        ledger.unheard["commit"] = 10_000
        with pytest.raises(TransactionOutcomeUnknown, match="billing-1"):
            async with q.transaction(NAME, timeout_s=0.3) as tx:
                await tx.publish("orders", b"x")
        ledger.unheard.clear()
        await publish_one(q)

    play(ledger, scene, attempts=1)
    assert ledger.count("init") == 2


def test_what_is_undecided_is_ended_before_the_next_transaction_asks_for_it() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        ledger.unheard["commit"] = 10_000
        with pytest.raises(TransactionOutcomeUnknown):
            async with q.transaction(NAME, timeout_s=0.1):
                pass
        # Without another call from here.
        await ledger.wait_for(lambda: ledger.count("init") == 2)

    play(ledger, scene, attempts=1)
    assert ledger.count("begin") == 1


def test_taking_over_initialises_before_the_first_transaction() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        await q.take_over(NAME)
        await q.take_over(NAME)
        assert ledger.calls == ["init"]
        await publish_one(q)
        assert ledger.count("init") == 1
        ledger.instead["init"] = [refusal_answer(400, "name_invalid")]
        with pytest.raises(GoQueueError, match="name_invalid"):
            await q.take_over("no name")

    play(ledger, scene)


def test_fenced_after_a_commit_that_was_not_answered_is_an_unknown_outcome() -> None:
    ledger = Ledger()
    ledger.instead["commit"] = [HANG_UP, refusal_answer(409, "producer_fenced")]

    async def scene(q: Connection) -> None:
        with pytest.raises(TransactionOutcomeUnknown, match="took over"):
            await publish_one(q)

    play(ledger, scene)


@pytest.mark.parametrize("route", ["begin", "records", "commit"])
def test_a_fenced_worker_is_told_who_it_was_and_never_takes_the_id_back(route: str) -> None:
    ledger = Ledger()
    ledger.instead[route] = [refusal_answer(409, "producer_fenced")]

    async def scene(q: Connection) -> None:
        for _ in range(2):
            with pytest.raises(ProducerFenced, match="took over the transactional id 'billing-1'"):
                await publish_one(q)
        async with q.transaction("billing-2"):
            pass

    play(ledger, scene)
    assert ledger.count("init") == 2


def test_an_id_that_was_taken_over_is_not_taken_back_by_a_new_epoch() -> None:
    ledger = Ledger()
    ledger.instead["heartbeat"] = [refusal_answer(409, "producer_fenced")]

    async def scene(q: Connection) -> None:
        ledger.unheard["records"] = 4
        with pytest.raises(TransactionAborted):
            await publish_one(q)
        with pytest.raises(ProducerFenced):
            await publish_one(q)

    play(ledger, scene)
    assert ledger.count("init") == 1


def test_a_begin_whose_answer_was_lost_is_made_good_by_a_new_epoch() -> None:
    ledger = Ledger()
    ledger.unheard["begin"] = 1

    async def scene(q: Connection) -> None:
        await publish_one(q)

    play(ledger, scene)
    assert (ledger.count("init"), ledger.count("begin")) == (2, 2)
    assert [batch.epoch for batch in ledger.batches] == [1]
