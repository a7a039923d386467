"""A stream consumer: its positions, and progress that is part of transactions."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from goqueue.client import (
    GoQueueError,
    TransactionAborted,
    TransactionOutcomeUnknown,
    connect,
    connect_sync,
)
from goqueue.client.connection import Connection
from goqueue.client.fetcher import Chunk, Feed, OffsetSource, Reader
from goqueue.client.http import Settings, Transport
from goqueue.client.message import Message
from goqueue.client.retries import Retries
from goqueue.client.stream_consumer import Positions, StreamConsumer
from goqueue.client.values import StartPosition
from goqueue.model import LogId
from tests.unit.client.ledger import Ledger
from tests.unit.client.peer import Answer, Asked, json_answer, peer, refusal_answer
from tests.unit.client.test_membership import Broker

LOG = LogId("orders", 0)

OTHER = LogId("orders", 1)


def test_only_what_was_finished_since_the_last_commit_is_to_be_committed() -> None:
    positions = Positions()
    positions.adopt(LOG, 5, is_committed=True)
    positions.adopt(OTHER, 0, is_committed=True)
    assert positions.uncommitted() == {}
    positions.finish(LOG, 9)
    assert positions.uncommitted() == {LOG: 9}
    positions.note_committed({LOG: 9})
    assert positions.uncommitted() == {}


def test_where_a_group_begins_is_committed_with_its_first_commit() -> None:
    positions = Positions()
    positions.adopt(LOG, 5, is_committed=False)
    assert positions.uncommitted() == {LOG: 5}
    positions.note_committed({LOG: 5})
    assert positions.uncommitted() == {}


def test_a_position_never_moves_back() -> None:
    positions = Positions()
    positions.adopt(LOG, 5, is_committed=True)
    positions.finish(LOG, 9)
    positions.finish(LOG, 7)
    assert positions.uncommitted() == {LOG: 9}


def test_what_went_to_another_member_is_not_committed() -> None:
    positions = Positions()
    positions.adopt(LOG, 0, is_committed=True)
    positions.finish(LOG, 3)
    positions.forget(LOG)
    positions.finish(LOG, 4)
    positions.note_committed({LOG: 4})
    assert positions.uncommitted() == {}


def test_what_was_worked_on_and_not_committed_is_known_with_the_place_before_it() -> None:
    positions = Positions()
    positions.adopt(LOG, 5, is_committed=True)
    positions.adopt(OTHER, 2, is_committed=False)
    assert positions.unsettled() == {}
    positions.finish(LOG, 9)
    positions.finish(OTHER, 3)
    assert positions.unsettled() == {LOG: 5, OTHER: 2}
    positions.note_committed({LOG: 9})
    positions.finish(LOG, 10)
    assert positions.unsettled() == {LOG: 9, OTHER: 2}


class Scene:
    """A feed, and a reader that a test brings chunks for."""

    def __init__(self) -> None:
        self.finished: list[tuple[LogId, int]] = []
        self.feed = Feed(self._begin, lambda log, offset: self.finished.append((log, offset)))
        self.reader = Reader(
            Transport(Settings(server="http://127.0.0.1:1")),
            LOG,
            0,
            chunk_bytes=1,
            wait_s=0.0,
            on_reading=self.feed.put,
        )

    async def _begin(self) -> None:
        """There is nothing to begin."""

    def bring(self, *offsets: int, next_offset: int) -> None:
        messages = [Message("orders", 0, offset, 0, 2, b"", b"") for offset in offsets]
        self.feed.put(self.reader, Chunk(LOG, messages, next_offset))

    def fail(self, reading: OffsetSource) -> None:
        self.feed.put(self.reader, reading)


def test_a_message_is_finished_when_the_next_one_is_asked_for() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.bring(3, 5, next_offset=8)
        stage.bring(9, next_offset=10)
        assert (await stage.feed.next()).offset == 3
        assert stage.feed.position(is_done=False) == (LOG, 3)
        assert (await stage.feed.next()).offset == 5
        assert stage.feed.position(is_done=False) == (LOG, 5)
        assert stage.finished == []
        assert (await stage.feed.next()).offset == 9
        assert stage.finished == [(LOG, 8)]

    asyncio.run(scene())


def test_who_commits_by_hand_has_finished_the_message_in_hand() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.bring(3, 5, next_offset=8)
        await stage.feed.next()
        assert stage.feed.position(is_done=True) == (LOG, 5)
        await stage.feed.next()
        assert stage.feed.position(is_done=True) == (LOG, 8)

    asyncio.run(scene())


def test_several_taken_at_once_are_in_hand_together() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.bring(0, 1, 2, 3, next_offset=4)
        assert [message.offset for message in await stage.feed.take(3)] == [0, 1, 2]
        assert stage.feed.position(is_done=False) == (LOG, 0)
        assert stage.feed.position(is_done=True, except_last=2) == (LOG, 1)
        assert stage.feed.position(is_done=True) == (LOG, 3)

    asyncio.run(scene())


def test_a_chunk_without_messages_leads_further() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.bring(next_offset=5)
        stage.bring(6, next_offset=7)
        assert (await stage.feed.next()).offset == 6
        assert stage.finished == [(LOG, 5)]

    asyncio.run(scene())


def test_nothing_of_a_partition_that_went_away_is_handed_out() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.bring(0, 1, next_offset=2)
        stage.bring(2, next_offset=3)
        await stage.feed.next()
        stage.feed.drop(stage.reader)
        stage.bring(3, next_offset=4)
        assert stage.feed.position(is_done=True) is None
        stage.feed.end()
        with pytest.raises(StopAsyncIteration):
            await stage.feed.next()
        assert stage.finished == []

    asyncio.run(scene())


def test_a_failure_is_raised_in_its_turn() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.bring(0, next_offset=1)
        stage.fail(GoQueueError("topic_not_found", "gone"))
        assert (await stage.feed.next()).offset == 0
        with pytest.raises(GoQueueError) as failed:
            await stage.feed.next()
        assert failed.value.code == "topic_not_found"

    asyncio.run(scene())


def test_who_waits_is_woken_by_a_chunk_and_by_the_end() -> None:
    async def scene() -> None:
        stage = Scene()
        waiting = asyncio.ensure_future(stage.feed.next())
        await asyncio.sleep(0)
        stage.bring(0, next_offset=1)
        assert (await waiting).offset == 0
        taking = asyncio.ensure_future(stage.feed.take(9))
        await asyncio.sleep(0)
        stage.feed.end()
        with pytest.raises(StopAsyncIteration):
            await taking

    asyncio.run(scene())


NAME = "billing-1"


class Added(msgspec.Struct, frozen=True):
    """Positions as they are added to a transaction."""

    member_id: str
    generation: int
    offsets: dict[str, dict[str, int]]


class Both:
    """A group with ten messages in each partition, and transactions that commit its positions."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.broker.assigned = ["orders-0"]
        self.broker.committed = {"orders": {"0": 0}}
        self.ledger = Ledger()
        self.added: list[Added] = []
        # Before the ten messages came.
        self.latest = -1

    async def __call__(self, asked: Asked) -> Answer:
        path = asked.target.split("?")[0]
        is_write = asked.method == "POST" and path.endswith("/records")
        if path.startswith(("/transactions", "/producers")) or is_write:
            return await self._transact(asked, path.rsplit("/", 1)[-1])
        if path == "/topics/orders":
            ends = {str(number): {"earliest": 0, "latest": self.latest} for number in range(2)}
            return json_answer({"partitions": 2, "partition_offsets": ends})
        return await self.broker(asked)

    async def _transact(self, asked: Asked, route: str) -> Answer:
        if route == "offsets":
            added = msgspec.json.decode(asked.body, type=Added)
            if added.generation != self.broker.generation:
                return refusal_answer(409, "generation_stale")
            self.added.append(added)
        answer = await self.ledger(asked)
        if route == "commit" and self.ledger.state == "committed":
            for added in self.added:
                for topic, offsets in added.offsets.items():
                    self.broker.committed.setdefault(topic, {}).update(offsets)
            self.added = []
        if route == "abort":
            self.added = []
        return answer


def play(
    both: Both,
    scene: Callable[[Connection, StreamConsumer], Awaitable[None]],
    *,
    start: StartPosition = "earliest",
) -> None:
    async def run() -> None:
        retries = Retries(attempts_max=1, first_wait_s=0.001)
        async with (
            asyncio.timeout(20),
            peer(both) as server,
            connect(server, retries=retries) as q,
            q.subscribe(
                "orders", group="g", protocol="eager", start=start, commit_interval_s=None
            ) as consumer,
        ):
            await scene(q, consumer)

    asyncio.run(run())


async def offsets(consumer: StreamConsumer, count: int) -> list[int]:
    return [(await anext(consumer)).offset for _ in range(count)]


def test_what_was_handed_out_is_committed_with_the_transaction() -> None:
    both = Both()

    async def scene(q: Connection, consumer: StreamConsumer) -> None:
        assert await offsets(consumer, 3) == [0, 1, 2]
        async with q.transaction(NAME, consumer=consumer) as tx:
            await tx.publish("orders", b"x")
        assert both.broker.committed == {"orders": {"0": 3}}
        async with q.transaction(NAME, consumer=consumer):
            assert await offsets(consumer, 2) == [3, 4]
        assert both.broker.committed == {"orders": {"0": 5}}

    play(both, scene)


def test_what_was_handed_out_comes_again_after_an_abort() -> None:
    both = Both()

    async def scene(q: Connection, consumer: StreamConsumer) -> None:
        async def fail() -> None:
            async with q.transaction(NAME, consumer=consumer):
                assert await offsets(consumer, 2) == [3, 4]
                raise LookupError

        async with q.transaction(NAME, consumer=consumer):
            assert await offsets(consumer, 3) == [0, 1, 2]
        with pytest.raises(LookupError):
            await fail()
        assert await offsets(consumer, 3) == [3, 4, 5]
        async with q.transaction(NAME, consumer=consumer):
            pass
        assert both.broker.committed == {"orders": {"0": 6}}

    play(both, scene)


def test_a_group_without_positions_begins_again_where_it_began() -> None:
    both = Both()
    both.broker.committed = {}

    async def scene(q: Connection, consumer: StreamConsumer) -> None:
        assert await offsets(consumer, 2) == [0, 1]

        async def fail() -> None:
            async with q.transaction(NAME, consumer=consumer):
                raise LookupError

        with pytest.raises(LookupError):
            await fail()
        assert await offsets(consumer, 1) == [0]

    play(both, scene)


def test_after_an_unknown_outcome_the_broker_says_where_to_go_on() -> None:
    both = Both()

    async def scene(q: Connection, consumer: StreamConsumer) -> None:
        assert await offsets(consumer, 4) == [0, 1, 2, 3]
        both.ledger.unheard["commit"] = 1000

        async def commit() -> None:
            async with q.transaction(NAME, consumer=consumer, timeout_s=0.2):
                pass

        with pytest.raises(TransactionOutcomeUnknown):
            await commit()
        # It was committed, as the position of the group shows.
        assert await offsets(consumer, 1) == [4]

    play(both, scene)


def test_a_generation_that_is_over_aborts_and_what_was_read_comes_again() -> None:
    both = Both()

    async def scene(q: Connection, consumer: StreamConsumer) -> None:
        assert await offsets(consumer, 2) == [0, 1]
        both.broker.generation = 2

        async def commit() -> None:
            async with q.transaction(NAME, consumer=consumer):
                pass

        with pytest.raises(TransactionAborted, match="generation_stale"):
            await commit()
        assert await offsets(consumer, 2) == [0, 1]
        await commit()
        assert both.broker.committed == {"orders": {"0": 2}}

    play(both, scene)


def test_work_on_a_partition_that_was_lost_meanwhile_is_not_committed() -> None:
    both = Both()
    both.broker.assigned = ["orders-0", "orders-1"]
    both.broker.committed = {"orders": {"0": 0, "1": 0}}

    async def scene(q: Connection, consumer: StreamConsumer) -> None:
        taken = {message.partition for _ in range(2) for message in await consumer.take()}
        assert taken == {0, 1}
        both.broker.generation, both.broker.assigned = 2, ["orders-1"]
        # A commit by hand is refused for what is gone, and learns of the new generation.
        with pytest.raises(GoQueueError, match="generation_stale"):
            await consumer.commit()

        async def commit() -> None:
            async with q.transaction(NAME, consumer=consumer) as tx:
                await tx.publish("orders", b"made of messages of both")

        with pytest.raises(TransactionAborted, match="went to another member"):
            await commit()
        await commit()

    play(both, scene)
    assert both.ledger.count("commit") == 1


def test_who_missed_a_generation_reads_on_where_others_left_off() -> None:
    both = Both()

    async def scene(q: Connection, consumer: StreamConsumer) -> None:
        async def commit() -> None:
            async with q.transaction(NAME, consumer=consumer):
                pass

        assert await offsets(consumer, 2) == [0, 1]
        # Another member came, went on to 4, and left: the partition looks as if it had stayed.
        both.broker.generation, both.broker.committed = 3, {"orders": {"0": 5}}
        with pytest.raises(TransactionAborted):
            await commit()
        assert await offsets(consumer, 2) == [5, 6]
        await commit()
        assert both.broker.committed == {"orders": {"0": 7}}

    play(both, scene)


def test_who_was_forgotten_begins_where_it_began_if_nobody_else_did() -> None:
    both = Both()
    both.broker.committed = {}

    async def scene(_: Connection, consumer: StreamConsumer) -> None:
        assert await offsets(consumer, 2) == [0, 1]
        both.latest = 20
        both.broker.generation = 3
        with pytest.raises(GoQueueError, match="generation_stale"):
            await consumer.commit()
        assert await offsets(consumer, 1) == [0]

    play(both, scene, start="latest")


def test_a_consumer_that_commits_by_itself_is_refused() -> None:
    both = Both()

    async def scene(q: Connection, _: StreamConsumer) -> None:
        async def enter() -> None:
            automatic = q.subscribe("orders", group="h", protocol="eager")
            async with q.transaction(NAME, consumer=automatic):
                raise AssertionError("entered")

        with pytest.raises(GoQueueError, match="commit_interval_s=None"):
            await enter()

    play(both, scene)
    assert both.ledger.calls == []


def test_a_prepared_transaction_takes_no_consumer() -> None:
    both = Both()

    async def scene(q: Connection, consumer: StreamConsumer) -> None:
        async def prepare() -> None:
            async with q.transaction(NAME, consumer=consumer) as tx:
                await tx.prepare()

        with pytest.raises(GoQueueError, match="send_offsets"):
            await prepare()

    play(both, scene)


def test_threads_commit_what_they_were_handed_out_and_no_more() -> None:
    async def run() -> None:
        both = Both()
        async with asyncio.timeout(20), peer(both) as server:
            await asyncio.to_thread(in_thread, server, both)

    def in_thread(server: str, both: Both) -> None:
        with (
            connect_sync(server) as q,
            q.subscribe("orders", group="g", protocol="eager", commit_interval_s=None) as consumer,
        ):
            assert [next(consumer).offset for _ in range(2)] == [0, 1]
            with q.transaction(NAME, consumer=consumer) as tx:
                receipt = tx.publish("orders", b"x")
            assert receipt.wait().offset == 0
            assert both.broker.committed == {"orders": {"0": 2}}

            assert [next(consumer).offset for _ in range(3)] == [2, 3, 4]
            with q.transaction(NAME, consumer=consumer) as tx:
                tx.abort()
            assert [next(consumer).offset for _ in range(3)] == [2, 3, 4]
            with q.transaction(NAME, consumer=consumer):
                pass
            assert both.broker.committed == {"orders": {"0": 5}}

    asyncio.run(run())
