"""A producer and a server at the end of a socket: partitions, batches, order, failures, closing."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from goqueue import records
from goqueue.client import Closed, GoQueueError, MessageTooLarge, TopicNotFound, connect
from goqueue.client.batch import ProducerConfig
from goqueue.client.connection import Connection
from goqueue.client.errors import NotFound
from goqueue.client.producer import Partitioner
from goqueue.client.retries import Retries
from tests.unit.client.peer import HANG_UP, Answer, Asked, json_answer, peer, refusal_answer

LAZY = ProducerConfig(linger_s=60.0)

AT_ONCE = ProducerConfig(linger_s=0.0)


class Taker:
    """Takes records and keeps the values of each batch by partition; told what to refuse."""

    def __init__(self, partitions: int = 1) -> None:
        self.partitions = partitions
        self.batches: list[list[bytes]] = []
        self.ends = [0] * 100
        self.refusals: list[Answer] = []
        self.gate: asyncio.Event | None = None
        self.is_busy = asyncio.Event()
        self.targets: list[str] = []

    async def __call__(self, asked: Asked) -> Answer:
        if asked.method == "GET":
            return self._describe(asked)
        if asked.target == "/producers/init":
            return json_answer({"producer_id": 1, "epoch": 0})
        if self.gate is not None:
            self.is_busy.set()
            await self.gate.wait()
        if self.refusals:
            return self.refusals.pop(0)
        columns = records.walk(asked.body)
        values = [records.decode(asked.body, position).value for position in columns.positions]
        self.batches.append([value or b"" for value in values])
        partition = int(parse_qs(urlsplit(asked.target).query)["partition"][0])
        base, self.ends[partition] = self.ends[partition], self.ends[partition] + len(values)
        placed: dict[str, object] = {"partition": partition, "count": len(values)}
        self.targets.append(asked.target)
        if "acks=none" not in asked.target:
            placed["base_offset"] = base
        return json_answer({"results": [placed], "timestamp": "1970-01-01T00:00:01Z"})

    def _describe(self, asked: Asked) -> Answer:
        if asked.target != "/topics/orders":
            return refusal_answer(404, "topic_not_found")
        config = {"max_message_bytes": 1000}
        return json_answer({"name": "orders", "partitions": self.partitions, "config": config})


def with_server(taker: Taker, scene: Callable[[Connection], Awaitable[None]]) -> None:
    async def play() -> None:
        async with peer(taker) as server:
            retries = Retries(attempts_max=3, first_wait_s=0.001)
            async with connect(server, retries=retries) as q:
                await scene(q)

    asyncio.run(play())


def test_a_published_message_learns_its_place() -> None:
    async def scene(q: Connection) -> None:
        first = await q.publish("orders", {"id": 1})
        second = await q.publish("orders", {"id": 2})
        assert (first.topic, first.partition, first.offset) == ("orders", 0, 0)
        assert (second.offset, second.timestamp) == (1, 1_000_000_000)

    taker = Taker()
    with_server(taker, scene)
    assert taker.batches == [[b'{"id":1}'], [b'{"id":2}']]


def test_messages_published_at_the_same_time_travel_together() -> None:
    async def scene(q: Connection) -> None:
        await q.publish("orders", "first")
        await asyncio.gather(*(q.publish("orders", f"{number}") for number in range(50)))

    taker = Taker()
    with_server(taker, scene)
    assert len(taker.batches) <= 3


def test_a_batch_leaves_when_it_is_full() -> None:
    async def scene(q: Connection) -> None:
        producer = q.producer(LAZY)
        receipts = [await producer.send("orders", b"%d" % number) for number in range(100)]
        assert [(await receipt).offset for receipt in receipts] == list(range(100))

    taker = Taker()
    with_server(taker, scene)
    assert taker.batches == [[b"%d" % number for number in range(100)]]


def test_a_batch_leaves_when_its_linger_is_over() -> None:
    async def scene(q: Connection) -> None:
        receipt = await q.producer(ProducerConfig(linger_s=0.01)).send("orders", b"alone")
        assert (await receipt).offset == 0

    with_server(Taker(), scene)


def test_flush_sends_what_lingers() -> None:
    async def scene(q: Connection) -> None:
        producer = q.producer(LAZY)
        receipt = await producer.send("orders", b"alone")
        await producer.flush()
        assert receipt.is_settled

    with_server(Taker(), scene)


def test_batches_grow_while_one_is_under_way_and_keep_their_order() -> None:
    taker = Taker()

    async def scene(q: Connection) -> None:
        taker.gate = asyncio.Event()
        producer = q.producer(AT_ONCE)
        await producer.send("orders", b"0")
        await taker.is_busy.wait()
        for number in range(1, 2000):
            await producer.send("orders", b"%d" % number)
        taker.gate.set()
        await producer.flush()

    with_server(taker, scene)
    assert [len(batch) for batch in taker.batches] == [1, 1000, 999]
    assert [*itertools.chain(*taker.batches)] == [b"%d" % number for number in range(2000)]


def test_a_batch_that_is_sent_again_stays_ahead_of_later_ones() -> None:
    taker = Taker()
    taker.refusals = [refusal_answer(503, "broker_unavailable"), HANG_UP]

    async def scene(q: Connection) -> None:
        producer = q.producer(ProducerConfig(linger_s=0.0, messages_max=1))
        for number in range(5):
            await producer.send("orders", b"%d" % number)
        await producer.flush()

    with_server(taker, scene)
    assert [*itertools.chain(*taker.batches)] == [b"%d" % number for number in range(5)]


def test_a_batch_of_unknown_outcome_fails_where_repeating_is_not_wanted() -> None:
    taker = Taker()
    taker.refusals = [HANG_UP]

    async def scene(q: Connection) -> None:
        gathering = ProducerConfig(idempotent=False, repeats=False, linger_s=0.0)
        receipt = await q.producer(gathering).send("orders", b"x")
        with pytest.raises(GoQueueError) as failed:
            await receipt
        assert failed.value.code == "server_unreachable"

    with_server(taker, scene)
    assert taker.batches == []


def test_keys_go_to_their_partition_and_others_take_turns() -> None:
    async def scene(q: Connection) -> None:
        assert (await q.publish("orders", b"", key="a")).partition == 2
        assert (await q.publish("orders", b"", key=b"user-100")).partition == 0
        assert (await q.publish("orders", b"", partition=1)).partition == 1
        turns = [(await q.publish("orders", b"")).partition for _ in range(3)]
        assert turns == [0, 1, 2]

    with_server(Taker(partitions=3), scene)


def test_what_is_wrong_with_a_message_is_raised_by_send() -> None:
    async def scene(q: Connection) -> None:
        producer = q.producer()
        with pytest.raises(MessageTooLarge):
            await producer.send("orders", b"x" * 1001)
        with pytest.raises(TopicNotFound):
            await producer.send("nothing", b"x")
        with pytest.raises(GoQueueError) as reserved:
            await producer.send("orders", b"x", key=b"gq.mine")
        assert reserved.value.code == "message_invalid"
        with pytest.raises(TypeError, match="a key is str or bytes"):
            await producer.send("orders", b"x", key=5)  # type: ignore[arg-type]  # the wrong type
        # Nothing of them is left in a batch.
        assert (await (await producer.send("orders", b"good"))).offset == 0

    taker = Taker()
    with_server(taker, scene)
    assert taker.batches == [[b"good"]]


def test_plain_messages_and_others_keep_the_order_of_their_sends() -> None:
    class Bytes(bytes):
        pass

    async def scene(q: Connection) -> None:
        producer = q.producer(LAZY)
        await producer.send("orders", b"0", key="k")
        await producer.send("orders", "1", key=b"k", headers={"n": "1"})
        await producer.send("orders", 2, key="k", priority="high")
        await producer.send("orders", None, key="k")
        await producer.send("orders", Bytes(b"4"), key="k")
        await producer.flush()

    taker = Taker()
    with_server(taker, scene)
    assert taker.batches == [[b"0", b"1", b"2", b"", b"4"]]


def test_a_refused_batch_fails_its_receipts_and_no_others() -> None:
    taker = Taker()
    taker.refusals = [refusal_answer(422, "schema_violation")]

    async def scene(q: Connection) -> None:
        producer = q.producer(AT_ONCE)
        with pytest.raises(GoQueueError) as failed:
            await (await producer.send("orders", b"bad"))
        assert failed.value.code == "schema_violation"
        assert (await (await producer.send("orders", b"good"))).offset == 0
        await producer.flush()

    with_server(taker, scene)


def test_a_failure_that_nobody_looked_at_is_raised_by_flush_once() -> None:
    taker = Taker()
    taker.refusals = [refusal_answer(422, "schema_violation")]

    async def scene(q: Connection) -> None:
        producer = q.producer()
        await producer.send("orders", b"bad")
        with pytest.raises(GoQueueError) as failed:
            await producer.flush()
        assert failed.value.code == "schema_violation"
        await producer.flush()

    with_server(taker, scene)


def test_closing_the_connection_drains_and_then_nothing_more_is_taken() -> None:
    taker = Taker()

    async def play() -> None:
        async with peer(taker) as server:
            async with connect(server) as q:
                producer = q.producer(LAZY)
                receipt = await producer.send("orders", b"last")
            assert (await receipt).offset == 0
            with pytest.raises(Closed):
                await producer.send("orders", b"late")

    asyncio.run(play())
    assert taker.batches == [[b"last"]]


def test_an_exception_of_the_callers_own_passes_through_as_it_is() -> None:
    async def scene(q: Connection) -> None:
        await q.publish("orders", b"x")
        raise LookupError("the caller's own")

    with pytest.raises(LookupError, match="own"):
        with_server(Taker(), scene)


def test_a_sender_waits_while_the_buffer_is_full() -> None:
    taker = Taker()

    async def scene(q: Connection) -> None:
        taker.gate = asyncio.Event()
        producer = q.producer(ProducerConfig(linger_s=0.0, buffer_bytes_max=3000))
        sending = asyncio.ensure_future(send_many(producer.send, 10))
        await taker.is_busy.wait()
        assert not sending.done()
        taker.gate.set()
        await sending
        await producer.flush()

    async def send_many(send: Callable[[str, bytes], Awaitable[object]], count: int) -> None:
        for _ in range(count):
            await send("orders", b"x" * 900)

    with_server(taker, scene)
    assert sum(map(len, taker.batches)) == 10


@pytest.mark.parametrize(
    ("key", "partitions"),
    [
        ("a", {3: 2, 4: 2, 6: 2, 50: 0}),
        ("user-100", {3: 0, 4: 1, 6: 3, 50: 25}),
        ("order-123", {3: 1, 4: 1, 6: 1, 50: 41}),
        ("é", {3: 1, 4: 3, 6: 1, 50: 45}),
    ],
)
def test_a_key_decides_by_the_hash_of_the_contract(key: str, partitions: dict[int, int]) -> None:
    for count, expected in partitions.items():
        assert Partitioner("orders", count).choose(key.encode(), None) == expected


def test_messages_without_key_take_turns_over_all_partitions() -> None:
    partitioner = Partitioner("orders", 3)
    chosen = [partitioner.choose(b"", None) for _ in range(6)]
    assert chosen == [0, 1, 2, 0, 1, 2]


def test_an_explicit_partition_wins_and_uses_up_no_turn() -> None:
    partitioner = Partitioner("orders", 3)
    assert partitioner.choose(b"a", 1) == 1
    assert partitioner.choose(b"", None) == 0


def test_a_partition_that_is_no_number_is_refused() -> None:
    with pytest.raises(TypeError, match="a partition is a number, not '0'"):
        Partitioner("orders", 3).choose(b"", "0")  # type: ignore[arg-type]  # a program's mistake


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_is_not_there_is_refused(partition: int) -> None:
    with pytest.raises(NotFound) as refused:
        Partitioner("orders", 3).choose(b"", partition)
    assert refused.value.code == "partition_not_found"
    assert refused.value.details == {"partitions": 3}


def test_new_partitions_are_used_once_they_are_known() -> None:
    partitioner = Partitioner("orders", 1)
    assert partitioner.choose(b"a", None) == 0
    partitioner.count = 3
    assert partitioner.choose(b"a", None) == 2


def test_without_acks_batches_have_no_numbers_and_receipts_no_offset() -> None:
    taker = Taker()

    async def scene(q: Connection) -> None:
        async with q.producer(ProducerConfig(acks="none", linger_s=0.0)) as producer:
            sent = await (await producer.send("orders", "a"))
        assert (sent.partition, sent.offset, sent.timestamp) == (0, -1, 1_000_000_000)

    with_server(taker, scene)
    [target] = taker.targets
    assert parse_qs(urlsplit(target).query) == {"partition": ["0"], "acks": ["none"]}


def test_acks_of_the_leader_are_asked_for_and_all_is_what_the_broker_does_anyway() -> None:
    taker = Taker()

    async def scene(q: Connection) -> None:
        for acks in ("leader", "all"):
            async with q.producer(ProducerConfig(acks=acks, linger_s=0.0)) as producer:
                assert (await (await producer.send("orders", "a"))).offset >= 0

    with_server(taker, scene)
    leader, everybody = (parse_qs(urlsplit(each).query) for each in taker.targets)
    assert (leader["acks"], "acks" in everybody) == (["leader"], False)
    assert "sequence" in leader
    assert "sequence" in everybody


@pytest.mark.parametrize("acks", ["", "ALL", "1", "quorum"])
def test_acks_are_one_of_three_words(acks: str) -> None:
    with pytest.raises(ValueError, match="none, leader, all"):
        ProducerConfig(acks=acks)


def test_an_answer_without_an_offset_that_was_asked_for_is_invalid() -> None:
    class Vague(Taker):
        async def __call__(self, asked: Asked) -> Answer:
            if asked.method == "GET" or asked.target == "/producers/init":
                return await super().__call__(asked)
            placed = {"partition": 0, "count": 1}
            return json_answer({"results": [placed], "timestamp": "1970-01-01T00:00:01Z"})

    async def scene(q: Connection) -> None:
        with pytest.raises(GoQueueError) as raised:
            await q.publish("orders", "a")
        assert raised.value.code == "response_invalid"
        assert raised.value.is_outcome_unknown

    with_server(Vague(), scene)
