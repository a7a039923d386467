"""Transactions of the SDK and a server at the other end of a socket: every way to their end."""

import asyncio
import contextlib

import pytest

from goqueue.client import (
    GoQueueError,
    ProducerFenced,
    ReceiptStale,
    TransactionAborted,
    TransactionStateInvalid,
    TransactionTimedOut,
)
from goqueue.client.batch import ProducerConfig, Receipt
from goqueue.client.connection import Connection
from goqueue.client.http import Settings, Transport
from goqueue.client.tasks import Tasks
from goqueue.client.transaction import Transaction
from goqueue.client.transactional_producer import TransactionalId
from goqueue.model import LogId
from tests.unit.client.ledger import Ledger
from tests.unit.client.peer import peer, refusal_answer
from tests.unit.client.transactional import NAME, leased, play, publish_one


def test_leaving_the_block_commits_after_everything_has_arrived() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        async with q.transaction(NAME) as tx:
            receipt = await tx.publish("orders", b"x", key="k")
            await tx.ack(leased(1))
        assert (await receipt).offset == 0

    play(ledger, scene)
    assert [call for call in ledger.calls if call != "describe"] == [
        "init",
        "begin",
        "offsets",
        "records",
        "commit",
    ]
    (batch,) = ledger.batches
    assert (batch.producer_id, batch.epoch, batch.sequence) == (1, 0, 0)


def test_an_id_is_initialised_once_and_its_numbers_run_on() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        for number in range(3):
            await publish_one(q, b"%d" % number)

    play(ledger, scene)
    assert ledger.count("init") == 1
    assert [batch.sequence for batch in ledger.batches] == [0, 1, 2]


def test_an_exception_aborts_and_goes_on_as_it_is() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        receipts: list[Receipt] = []

        async def work() -> None:
            async with q.transaction(NAME) as tx:
                receipts.append(await tx.publish("orders", b"never sent"))
                raise LookupError("my own")

        with pytest.raises(LookupError, match="my own"):
            await work()
        with pytest.raises(TransactionAborted):
            await receipts[0]
        await publish_one(q)

    play(ledger, scene)
    assert ledger.values == [b"x"]
    assert (ledger.count("abort"), ledger.count("init")) == (1, 1)


def test_a_cancelled_block_aborts() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        is_inside = asyncio.Event()

        async def work() -> None:
            async with q.transaction(NAME):
                is_inside.set()
                await asyncio.Event().wait()

        working = asyncio.ensure_future(work())
        await is_inside.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    play(ledger, scene)
    assert ledger.state == "aborted"


def test_one_transaction_at_a_time_per_id() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        async with q.transaction(NAME) as outer:
            with pytest.raises(TransactionStateInvalid, match="one at a time"):
                async with q.transaction(NAME):
                    raise AssertionError("entered")
            with pytest.raises(TransactionStateInvalid, match="used once"):
                await outer.__aenter__()
            await outer.publish("orders", b"x")

    play(ledger, scene)
    assert ledger.state == "committed"


def test_nothing_is_taken_before_the_block_and_after_it() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        tx = q.transaction(NAME)
        with pytest.raises(TransactionStateInvalid, match="has not begun"):
            await tx.publish("orders", b"x")
        async with tx:
            pass
        with pytest.raises(TransactionStateInvalid, match="has ended"):
            await tx.publish("orders", b"x")

    play(ledger, scene)
    assert ledger.values == []


def test_a_publish_that_fails_aborts_whether_the_caller_minds_or_not() -> None:
    ledger = Ledger()
    ledger.instead["records"] = [refusal_answer(422, "schema_violation")]

    async def scene(q: Connection) -> None:
        async def work() -> None:
            async with q.transaction(NAME) as tx:
                receipt = await tx.publish("orders", b"bad")
                with pytest.raises(GoQueueError, match="schema_violation"):
                    await receipt

        with pytest.raises(TransactionAborted, match="schema_violation") as aborted:
            await work()
        assert isinstance(aborted.value.__cause__, GoQueueError)
        assert aborted.value.__cause__.code == "schema_violation"
        await publish_one(q)

    play(ledger, scene)
    assert (ledger.count("abort"), ledger.count("commit"), ledger.count("init")) == (1, 1, 1)
    assert [batch.sequence for batch in ledger.batches] == [0]


def test_a_batch_whose_answer_was_lost_is_in_the_transaction_once() -> None:
    ledger = Ledger()
    ledger.unheard["records"] = 2

    async def scene(q: Connection) -> None:
        await publish_one(q)

    play(ledger, scene)
    assert ledger.values == [b"x"]
    assert ledger.state == "committed"


def test_an_error_that_is_passed_on_is_not_its_own_cause() -> None:
    ledger = Ledger()
    ledger.instead["init"] = [refusal_answer(400, "name_invalid")]

    async def scene(q: Connection) -> None:
        with pytest.raises(GoQueueError, match="name_invalid") as refused:
            await publish_one(q)
        assert refused.value.__cause__ is None

    play(ledger, scene)


def test_a_transaction_that_the_broker_timed_out_says_so() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        for route in ("records", "commit"):
            ledger.instead[route] = [refusal_answer(409, "transaction_timeout")]
            with pytest.raises(TransactionTimedOut):
                await publish_one(q)
            ledger.state = "aborted"
        await publish_one(q)

    play(ledger, scene)
    assert ledger.count("init") == 1


def test_a_commit_of_what_an_operator_aborted_says_so() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        with pytest.raises(TransactionAborted, match="had ended before"):
            async with q.transaction(NAME):
                ledger.state = "aborted"

    play(ledger, scene)


@pytest.mark.parametrize("state", ["preparing_commit", "completed_commit"])
def test_a_commit_that_is_decided_already_is_one(state: str) -> None:
    ledger = Ledger()
    ledger.instead["commit"] = [refusal_answer(409, "transaction_state_invalid", state=state)]

    async def scene(q: Connection) -> None:
        await publish_one(q)

    play(ledger, scene)
    assert ledger.count("abort") == 0


def test_acknowledgements_travel_by_the_thousand_and_by_group() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        async with q.transaction(NAME) as tx:
            for number in range(1500):
                await tx.ack(leased(number))
            await tx.ack(leased(7, group="h"))

    play(ledger, scene)
    added = [body for body in ledger.bodies if "receipt_handles" in body]
    sizes = [(body["group"], len(body["receipt_handles"])) for body in added]  # type: ignore[arg-type]  # a list, as the contract says
    assert sizes == [("g", 1000), ("g", 500), ("h", 1)]
    assert {body["transactional_id"] for body in added} == {NAME}


def test_a_lease_that_is_over_aborts() -> None:
    ledger = Ledger()
    ledger.instead["offsets"] = [refusal_answer(410, "receipt_stale")] * 2

    async def scene(q: Connection) -> None:
        with pytest.raises(TransactionAborted) as aborted:
            async with q.transaction(NAME) as tx:
                await tx.ack(leased(1))
        assert isinstance(aborted.value.__cause__, ReceiptStale)

    play(ledger, scene)
    assert ledger.count("commit") == 0


def test_offsets_that_are_refused_abort_even_if_the_caller_goes_on() -> None:
    ledger = Ledger()
    ledger.instead["offsets"] = [refusal_answer(409, "generation_stale")]

    async def scene(q: Connection) -> None:
        async def work() -> None:
            async with q.transaction(NAME) as tx:
                with pytest.raises(GoQueueError, match="generation_stale"):
                    await tx.send_offsets("g", {LogId("orders", 2): 5}, generation=3)

        with pytest.raises(TransactionAborted, match="generation_stale"):
            await work()

    play(ledger, scene)
    assert ledger.count("commit") == 0


def test_positions_are_sent_with_member_and_generation() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        async with q.transaction(NAME) as tx:
            offsets = {LogId("orders", 2): 5, LogId("orders", 0): 1}
            await tx.send_offsets("g", offsets, member_id="m", generation=3)

    play(ledger, scene)
    (sent,) = [body for body in ledger.bodies if "offsets" in body]
    assert sent["offsets"] == {"orders": {"2": 5, "0": 1}}
    assert (sent["group"], sent["member_id"], sent["generation"]) == ("g", "m", 3)


def test_an_explicit_abort_lets_the_block_be_left_in_peace() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        async with q.transaction(NAME) as tx:
            await tx.publish("orders", b"never sent")
            await tx.abort()
            await tx.abort()

    play(ledger, scene)
    assert (ledger.state, ledger.values, ledger.count("abort")) == ("aborted", [], 1)


def test_a_prepared_transaction_waits_for_its_group() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        async with q.transaction(NAME) as tx:
            await tx.publish("orders", b"x")
            transaction_id = await tx.prepare()
            with pytest.raises(TransactionStateInvalid, match="is prepared"):
                await tx.publish("orders", b"too late")
        assert ledger.state == "prepared"
        # One that is open cannot be begun anew, and is not ended by the attempt.
        with pytest.raises(TransactionStateInvalid):
            await publish_one(q)
        assert await q.commit_group("key", [transaction_id])
        await publish_one(q)

    play(ledger, scene)
    assert ledger.values == [b"x", b"x"]
    assert {"key": "key", "transaction_ids": ["7-1"]} in ledger.bodies
    assert ledger.count("init") == 1


def test_an_exception_after_prepare_aborts() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        async def work() -> None:
            async with q.transaction(NAME) as tx:
                await tx.prepare()
                raise LookupError

        with pytest.raises(LookupError):
            await work()

    play(ledger, scene)
    assert ledger.state == "aborted"


def test_a_group_that_was_committed_before_is_told() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        ledger.instead["commit-group"] = [refusal_answer(404, "transaction_not_found")]
        with pytest.raises(GoQueueError, match="transaction_not_found"):
            await q.commit_group("key", ["9-9"])

    play(ledger, scene)


def test_closing_the_connection_aborts_what_is_open() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        await q.transaction(NAME).__aenter__()

    play(ledger, scene)
    assert ledger.state == "aborted"


def test_a_message_that_was_being_taken_in_belongs_to_the_transaction_that_is_left() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        ledger.gates["describe"] = asyncio.Event()
        async with q.transaction(NAME) as tx:
            publishing = asyncio.ensure_future(tx.publish("orders", b"slow"))
            await ledger.wait_for(lambda: ledger.count("describe") == 1)
            asyncio.get_running_loop().call_soon(ledger.gates["describe"].set)
        assert (await (await publishing)).offset == 0

    play(ledger, scene)
    assert ledger.calls[-2:] == ["records", "commit"]


async def publish_on(tx: Transaction) -> None:
    while True:
        await tx.publish("orders", b"x")


def test_heartbeats_go_on_while_a_transaction_is_open() -> None:
    ledger = Ledger()

    async def run() -> None:
        async with asyncio.timeout(20), peer(ledger) as server:
            transport, tasks = Transport(Settings(server=server)), Tasks()
            await tasks.open()
            holder = TransactionalId(NAME, transport, tasks, ProducerConfig())
            async with Transaction(holder, beat_s=0.001) as tx:
                await tx.ack(leased(1))
                await ledger.wait_for(lambda: ledger.count("heartbeat") >= 3)
                # What was acknowledged is held by now: its lease cannot run out any more.
                assert ledger.count("offsets") == 1
                ledger.instead["heartbeat"] = [refusal_answer(409, "producer_fenced")]
                await ledger.wait_for(lambda: not ledger.instead["heartbeat"])
                with pytest.raises(ProducerFenced):
                    await publish_on(tx)
                with contextlib.suppress(ProducerFenced):
                    await tx.abort()
            transport.close()
            await tasks.close()

    asyncio.run(run())
