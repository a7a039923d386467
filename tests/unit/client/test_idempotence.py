"""A producer whose batches are numbered: sent again at will, taken once, never out of order."""

import asyncio
import itertools

import pytest

from goqueue import records
from goqueue.client import GoQueueError, SequenceOutOfOrder, ServerUnreachable
from goqueue.client.batch import Fixed, Identity, PartitionSequence, ProducerConfig
from goqueue.client.connection import Connection
from goqueue.model import Message
from tests.unit.client.ledger import Ledger
from tests.unit.client.peer import HANG_UP, Answer, refusal_answer
from tests.unit.client.transactional import play

ONE_BY_ONE = ProducerConfig(linger_s=0.0, messages_max=1, idempotent=True)
LAZY = ProducerConfig(linger_s=60.0, idempotent=True)


def test_batches_of_a_partition_are_numbered_one_after_the_other() -> None:
    ledger = Ledger(partitions=2)

    async def scene(q: Connection) -> None:
        producer = q.producer(
            ProducerConfig(linger_s=60.0, messages=3, messages_max=3, idempotent=True)
        )
        for number in range(12):
            await producer.send("orders", b"%d" % number, partition=number % 2)
        await producer.flush()

    play(ledger, scene)
    assert ledger.count("init") == 1
    numbers = [(batch.partition, batch.sequence, batch.epoch) for batch in ledger.batches]
    assert sorted(numbers) == [(0, 0, 0), (0, 3, 0), (1, 0, 0), (1, 3, 0)]


def test_nobody_is_asked_for_an_id_before_something_is_sent() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        async with q.producer(LAZY):
            pass

    play(ledger, scene)
    assert ledger.calls == []


def test_without_numbers_nobody_is_asked_for_an_id() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        async with q.producer(ProducerConfig(idempotent=False)) as producer:
            await producer.send("orders", b"x")

    play(ledger, scene)
    assert "init" not in ledger.calls
    assert [batch.sequence for batch in ledger.batches] == [-1]


def test_a_batch_whose_answer_was_lost_is_taken_once_and_stays_in_its_place() -> None:
    ledger = Ledger()
    ledger.unheard["records"] = 3

    async def scene(q: Connection) -> None:
        producer = q.producer(ONE_BY_ONE)
        receipts = [await producer.send("orders", b"%d" % number) for number in range(5)]
        assert [(await receipt).offset for receipt in receipts] == list(range(5))

    play(ledger, scene)
    assert ledger.values == [b"%d" % number for number in range(5)]
    assert ledger.count("records") == 8


@pytest.mark.parametrize(
    "answer",
    [
        HANG_UP,
        refusal_answer(503, "broker_unavailable"),
        refusal_answer(504, "request_timeout"),
        refusal_answer(503, "replication_failed"),
        refusal_answer(507, "storage_full"),
    ],
)
def test_what_may_work_later_is_sent_again_under_the_same_number(answer: Answer) -> None:
    ledger = Ledger()
    ledger.instead["records"] = [answer, answer]

    async def scene(q: Connection) -> None:
        producer = q.producer(ONE_BY_ONE)
        for number in range(3):
            await producer.send("orders", b"%d" % number)
        await producer.flush()

    play(ledger, scene)
    assert [batch.sequence for batch in ledger.batches] == [0, 1, 2]
    assert {batch.producer_id for batch in ledger.batches} == {1}


def test_a_refused_batch_uses_up_no_number() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        producer = q.producer(ONE_BY_ONE)
        await (await producer.send("orders", b"0"))
        ledger.instead["records"] = [refusal_answer(422, "schema_violation")]
        bad = await producer.send("orders", b"bad")
        good = await producer.send("orders", b"1")
        with pytest.raises(GoQueueError, match="schema_violation"):
            await bad
        assert (await good).offset == 1

    play(ledger, scene)
    assert [(batch.sequence, batch.values) for batch in ledger.batches] == [
        (0, [b"0"]),
        (1, [b"1"]),
    ]
    assert ledger.count("init") == 1


def test_after_a_batch_of_unknown_outcome_the_next_goes_as_another_producer() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        producer = q.producer(ONE_BY_ONE)
        await (await producer.send("orders", b"0"))
        ledger.unheard["records"] = 2
        lost = await producer.send("orders", b"1")
        later = [await producer.send("orders", b"%d" % number) for number in (2, 3)]
        with pytest.raises(ServerUnreachable) as unknown:
            await lost
        assert unknown.value.is_outcome_unknown
        for receipt in later:
            await receipt

    play(ledger, scene, attempts=2)
    # Taken after all: told as unknown, and not there twice.
    assert ledger.values == [b"0", b"1", b"2", b"3"]
    senders = [(batch.producer_id, batch.sequence) for batch in ledger.batches]
    assert senders == [(1, 0), (1, 1), (2, 0), (2, 1)]


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, "producer_not_found"), (409, "sequence_out_of_order"), (409, "producer_fenced")],
)
def test_a_producer_that_was_forgotten_introduces_itself_again(status: int, code: str) -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        producer = q.producer(ONE_BY_ONE)
        await (await producer.send("orders", b"0"))
        ledger.instead["records"] = [refusal_answer(status, code)]
        assert (await (await producer.send("orders", b"1"))).offset == 1

    play(ledger, scene)
    assert ledger.values == [b"0", b"1"]
    assert [(batch.producer_id, batch.sequence) for batch in ledger.batches] == [(1, 0), (2, 0)]


def test_a_batch_that_may_have_been_taken_is_never_sent_as_another_producer() -> None:
    ledger = Ledger()

    async def scene(q: Connection) -> None:
        producer = q.producer(ONE_BY_ONE)
        ledger.instead["records"] = [HANG_UP, refusal_answer(409, "sequence_out_of_order")]
        doubtful = await producer.send("orders", b"0")
        with pytest.raises(SequenceOutOfOrder) as failed:
            await doubtful
        assert failed.value.is_outcome_unknown
        assert (await (await producer.send("orders", b"1"))).offset == 0

    play(ledger, scene)
    assert ledger.values == [b"1"]


def test_a_producer_that_nobody_wants_gives_up() -> None:
    ledger = Ledger()
    ledger.instead["records"] = [refusal_answer(404, "producer_not_found") for _ in range(9)]

    async def scene(q: Connection) -> None:
        with pytest.raises(GoQueueError, match="producer_not_found"):
            await (await q.producer(ONE_BY_ONE).send("orders", b"0"))

    play(ledger, scene)
    assert ledger.values == []
    assert ledger.count("init") == 3


def test_a_batch_that_was_never_sent_has_no_unknown_outcome() -> None:
    ledger = Ledger()
    ledger.instead["init"] = [HANG_UP]

    async def scene(q: Connection) -> None:
        producer = q.producer(ONE_BY_ONE)
        with pytest.raises(ServerUnreachable) as failed:
            await (await producer.send("orders", b"0"))
        assert not failed.value.is_outcome_unknown
        assert (await (await producer.send("orders", b"1"))).offset == 0

    play(ledger, scene, attempts=1)
    assert ledger.values == [b"1"]


def test_the_message_that_the_broker_names_fails_alone() -> None:
    ledger = Ledger()
    bodies = [b"a" * size for size in (10, 20, 30, 40)]
    # Where the second and then, of the three that remain, the last one begins.
    second = len(records.build([Message(value=bodies[0])]))
    last = len(records.build([Message(value=bodies[0]), Message(value=bodies[2])]))
    ledger.instead["records"] = [
        refusal_answer(400, "request_invalid", position=second, reason="no"),
        refusal_answer(400, "request_invalid", position=last, reason="no"),
    ]

    async def scene(q: Connection) -> None:
        producer = q.producer(LAZY)
        receipts = [await producer.send("orders", body) for body in bodies]
        with pytest.raises(GoQueueError, match="request_invalid"):
            await producer.flush()
        for index in (1, 3):
            with pytest.raises(GoQueueError, match="request_invalid"):
                await receipts[index]
        assert [(await receipts[index]).offset for index in (0, 2)] == [0, 1]

    play(ledger, scene)
    assert [(batch.sequence, batch.values) for batch in ledger.batches] == [
        (0, [bodies[0], bodies[2]])
    ]


def test_messages_without_key_fill_one_batch_before_the_next_partition_has_its_turn() -> None:
    ledger = Ledger(partitions=3)

    async def scene(q: Connection) -> None:
        producer = q.producer(ProducerConfig(linger_s=60.0, messages=10, idempotent=True))
        for number in range(25):
            await producer.send("orders", b"%d" % number)
        await producer.flush()

    play(ledger, scene)
    sizes = {batch.partition: len(batch.values) for batch in ledger.batches}
    assert sizes == {0: 10, 1: 10, 2: 5}


def test_a_partition_gets_a_new_producer_before_its_numbers_run_out() -> None:
    class Counter:
        is_renewable = True

        def __init__(self) -> None:
            self.numbers = itertools.count(1)

        async def identity(self) -> Identity:
            return Identity(next(self.numbers), 0)

        async def renew(self, old: Identity) -> Identity:
            return Identity(old.producer_id + 1, 0)

    async def stamps() -> list[str]:
        sequence = PartitionSequence(Counter())
        stamped = [await sequence.stamp(10)]
        sequence.advance(2**31 - 11)
        stamped.append(await sequence.stamp(10))
        stamped.append(await sequence.stamp(11))
        return stamped

    assert asyncio.run(stamps()) == [
        "&producer_id=1&epoch=0&sequence=0",
        f"&producer_id=1&epoch=0&sequence={2**31 - 11}",
        "&producer_id=2&epoch=0&sequence=0",
    ]


def test_the_holder_of_an_epoch_sends_nothing_after_a_batch_of_unknown_outcome() -> None:
    async def stamp() -> str:
        sequence = PartitionSequence(Fixed(Identity(5, 2)))
        assert await sequence.stamp(1) == "&producer_id=5&epoch=2&sequence=0"
        sequence.lose()
        return await sequence.stamp(1)

    with pytest.raises(SequenceOutOfOrder):
        asyncio.run(stamp())
