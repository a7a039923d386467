"""Members of groups and a server at the other end of a socket: losses, rebalances, settling."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest

from goqueue import records
from goqueue.client import GoQueueError, ReceiptStale, connect
from goqueue.client.connection import Connection
from goqueue.client.http import Settings, Transport
from goqueue.client.membership import Subscription
from goqueue.client.retries import Retries
from goqueue.client.stream_consumer import StreamConsumer
from goqueue.client.tasks import Tasks
from goqueue.model import LogId, Message
from tests.unit.client.lease_answers import leased, named, settled
from tests.unit.client.peer import Answer, Asked, json_answer, peer, refusal_answer

ONCE = Retries(attempts_max=1)


class Commit(msgspec.Struct, frozen=True):
    """What a member commits."""

    generation: int
    offsets: dict[str, dict[str, int]]


class Broker:
    """Answers of a broker with one group, told by a test what the group looks like."""

    def __init__(self) -> None:
        self.assigned = ["orders-0", "orders-1"]
        self.generation = 1
        self.members = 0
        self.is_lost = False
        self.joins_refused = 0
        # What polls bring, and what they take from after that, as many as they ask for.
        self.polls: list[Sequence[int]] = []
        self.supply: list[int] = []
        self.stale: list[int] = []
        self.acks: list[list[int]] = []
        self.asked: list[str] = []
        self.commits: list[dict[str, dict[str, int]]] = []
        self.committed: dict[str, dict[str, int]] = {}
        self.has_changed = asyncio.Event()

    async def __call__(self, asked: Asked) -> Answer:
        path = asked.target.split("?")[0]
        self.asked.append(f"{asked.method} {path}")
        self.has_changed.set()
        fields = msgspec.json.decode(asked.body) if asked.body else {}
        route = path.rsplit("/", 1)[-1]
        if route == "join":
            return self._join()
        if path.endswith("poll/records"):
            return await self._poll(fields["max_messages"])
        if route == "heartbeat":
            return self._beat(fields)
        if route == "ack":
            self.acks.append(named(asked))
        if route in {"ack", "release"}:
            return settled(asked, self.stale.__contains__)
        if route == "offsets":
            return self._offsets(asked, fields)
        if route == "records":
            return await self._records(asked)
        return json_answer({"left": True})

    async def wait_for(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self.has_changed.clear()
            await self.has_changed.wait()

    def _join(self) -> Answer:
        if self.is_lost and self.joins_refused:
            self.joins_refused -= 1
            return refusal_answer(503, "broker_unavailable")
        self.members += 1
        self.is_lost = False
        return json_answer(
            {
                "member_id": f"m-{self.members}",
                "generation": self.generation,
                "assigned_partitions": self.assigned,
            }
        )

    def _beat(self, fields: dict[str, object]) -> Answer:
        if self.is_lost:
            return refusal_answer(404, "member_not_found")
        return json_answer(
            {
                "rebalance_required": fields["generation"] != self.generation,
                "generation": self.generation,
                "assigned_partitions": self.assigned,
            }
        )

    async def _poll(self, count_max: int) -> Answer:
        if self.is_lost:
            return refusal_answer(404, "member_not_found")
        if self.polls:
            return Answer(body=leased(*self.polls.pop(0)))
        await self.wait_for(lambda: bool(self.supply))
        given, self.supply = self.supply[:count_max], self.supply[count_max:]
        return Answer(body=leased(*given))

    def _offsets(self, asked: Asked, fields: dict[str, object]) -> Answer:
        if asked.method == "POST":
            commit = msgspec.convert(fields, Commit)
            if commit.generation != self.generation:
                return refusal_answer(409, "generation_stale")
            self.commits.append(commit.offsets)
            for topic, offsets in commit.offsets.items():
                self.committed.setdefault(topic, {}).update(offsets)
        return json_answer({"group_id": "g", "offsets": self.committed, "generation": 1})

    async def _records(self, asked: Asked) -> Answer:
        """Ten records in every partition, then silence."""
        offset = int(asked.target.split("offset=")[1].split("&")[0])
        if offset >= 10:
            await asyncio.Event().wait()
        batch = records.build([Message(value=b"%d" % number) for number in range(offset, 10)])
        records.stamp(batch, offset, 1)
        return Answer(body=bytes(batch), headers={"GoQueue-Next-Offset": "10"})


def with_broker(broker: Broker, scene: Callable[[Connection], Awaitable[None]]) -> None:
    async def play() -> None:
        async with peer(broker) as server, connect(server) as q:
            await scene(q)

    asyncio.run(play())


def test_leased_messages_are_handed_out_and_settled() -> None:
    broker = Broker()
    broker.polls = [[0, 1]]

    async def scene(q: Connection) -> None:
        consumer = q.consume("orders", group="g", protocol="eager")
        assert [(await anext(consumer)).text for _ in range(2)] == ["0", "1"]

    with_broker(broker, scene)
    assert broker.asked[0] == "POST /groups/g/join"
    assert broker.asked[-1] == "POST /groups/g/leave"


def test_acknowledgements_given_together_travel_together() -> None:
    broker = Broker()
    broker.polls = [range(10)]

    async def scene(q: Connection) -> None:
        async with q.consume("orders", group="g", protocol="eager") as consumer:
            messages = [await anext(consumer) for _ in range(10)]
            await asyncio.gather(*(message.ack() for message in messages))

    with_broker(broker, scene)
    assert [*itertools.chain(*broker.acks)] == [*range(10)]
    assert len(broker.acks) <= 2


def test_each_acknowledgement_learns_its_own_fate() -> None:
    broker = Broker()
    broker.polls = [[0, 1]]
    broker.stale = [0]

    async def scene(q: Connection) -> None:
        consumer = q.consume("orders", group="g", protocol="eager")
        late, good = await anext(consumer), await anext(consumer)
        with pytest.raises(ReceiptStale):
            await late.ack()
        await good.ack()

    with_broker(broker, scene)


def test_acknowledgements_that_nobody_awaited_are_sent_before_leaving() -> None:
    broker = Broker()
    broker.polls = [[0]]

    async def scene(q: Connection) -> None:
        async for message in q.consume("orders", group="g", protocol="eager"):
            message.ack()
            break

    with_broker(broker, scene)
    assert broker.acks == [[0]]
    assert broker.asked.index("POST /groups/g/leases/ack") < broker.asked.index(
        "POST /groups/g/leave"
    )


def test_polls_bring_many_where_messages_come_as_fast_as_they_are_handled() -> None:
    broker = Broker()
    broker.supply = [*range(20)]

    async def scene(q: Connection) -> None:
        async with q.consume("orders", group="g", protocol="eager") as consumer:
            for offset in range(20, 320):
                await (await anext(consumer)).ack()
                broker.supply.append(offset)
                broker.has_changed.set()

    with_broker(broker, scene)
    # One at half of the twenty, again and again, and some until there are twenty.
    assert broker.asked.count("POST /groups/g/poll/records") < 100


def test_a_loop_that_awaits_nothing_else_lets_the_poll_leave_at_half() -> None:
    broker = Broker()
    broker.polls = [[0], range(1, 17)]

    async def scene(q: Connection) -> None:
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async with q.consume("orders", group="g", protocol="eager") as consumer:
            for _ in range(2):
                (await anext(consumer)).ack()
            counting = asyncio.ensure_future(count_turns())
            await asyncio.sleep(0)
            before = turns
            while not consumer.is_low:
                (await anext(consumer)).ack()
            assert turns == before
            (await anext(consumer)).ack()
            assert turns > before
            counting.cancel()

    with_broker(broker, scene)


def test_a_flush_waits_for_acks_and_raises_the_first_failure_that_nobody_awaited() -> None:
    broker = Broker()
    broker.polls = [[0], [1, 2, 3]]
    broker.stale = [1, 2]

    async def scene(q: Connection) -> None:
        async with q.consume("orders", group="g", protocol="eager") as consumer:
            await consumer.flush()
            messages = [await anext(consumer) for _ in range(4)]
            messages[0].ack()
            await consumer.flush()
            assert broker.acks == [[0]]
            seen = asyncio.ensure_future(waited(messages[1].ack()))
            messages[2].ack()
            messages[3].ack()
            with pytest.raises(ReceiptStale):
                await consumer.flush()
            with pytest.raises(ReceiptStale):
                await seen
            await consumer.flush()

    with_broker(broker, scene)


async def waited(ack: Awaitable[None]) -> None:
    await ack


def test_a_member_that_was_lost_joins_again_and_goes_on() -> None:
    broker = Broker()
    broker.polls = [[0]]

    async def scene(q: Connection) -> None:
        consumer = q.consume("orders", group="g", protocol="eager", prefetch=1)
        broker.is_lost = True
        joining = asyncio.ensure_future(anext(consumer))
        await broker.wait_for(lambda: broker.members == 1)
        broker.is_lost = True
        assert (await joining).text == "0"

    with_broker(broker, scene)
    assert broker.members == 2


def test_a_lost_member_that_cannot_join_at_once_tries_until_it_can() -> None:
    broker = Broker()
    broker.polls = [[0]]
    broker.joins_refused = 3

    async def play() -> None:
        async with (
            peer(broker) as server,
            connect(server, retries=ONCE) as q,
            q.consume("orders", group="g", protocol="eager") as consumer,
        ):
            broker.is_lost = True
            assert (await anext(consumer)).text == "0"

    asyncio.run(play())
    assert broker.members == 2


def test_a_refusal_that_waiting_does_not_mend_is_raised_to_the_consumer() -> None:
    async def refuse(asked: Asked) -> Answer:
        if asked.target.endswith("/join"):
            body = {"member_id": "m", "generation": 1, "assigned_partitions": []}
            return json_answer(body)
        return refusal_answer(403, "permission_denied")

    async def play() -> None:
        async with peer(refuse) as server, connect(server) as q:
            await anext(q.consume("orders", group="g", protocol="eager"))

    with pytest.raises(GoQueueError) as refused:
        asyncio.run(play())
    assert refused.value.code == "permission_denied"


# ---- streams -------------------------------------------------------------------------------


def test_what_was_finished_is_committed_when_the_consumer_closes() -> None:
    broker = Broker()
    broker.assigned = ["orders-0"]
    broker.committed = {"orders": {"0": 3}}

    async def scene(q: Connection) -> None:
        async with q.subscribe("orders", group="g", protocol="eager") as consumer:
            assert [(await anext(consumer)).offset for _ in range(4)] == [3, 4, 5, 6]

    with_broker(broker, scene)
    assert broker.commits == [{"orders": {"0": 6}}]
    assert broker.asked[-1] == "POST /groups/g/leave"


def test_a_commit_by_hand_includes_the_message_in_hand() -> None:
    broker = Broker()
    broker.assigned = ["orders-0"]
    broker.committed = {"orders": {"0": 0}}

    async def scene(q: Connection) -> None:
        async with q.subscribe(
            "orders", group="g", protocol="eager", commit_interval_s=None
        ) as consumer:
            await anext(consumer)
            await consumer.commit()
            await anext(consumer)

    with_broker(broker, scene)
    assert broker.commits == [{"orders": {"0": 1}}]


class Member:
    """A stream consumer whose heart beats fast, with a note of what came and went."""

    def __init__(self, server: str, retries: Retries | None = None) -> None:
        self.notes: list[str] = []
        self.tasks = Tasks()
        subscription = Subscription(
            group="g",
            protocol="eager",
            topics=("orders",),
            heartbeat_s=0.005,
            commit_interval_s=0.005,
            on_assigned=lambda logs: self._note("+", logs),
            on_revoked=lambda logs: self._note("-", logs),
        )
        settings = Settings(server=server, retries=retries or Retries())
        self.consumer = StreamConsumer(Transport(settings), self.tasks, subscription)

    def _note(self, sign: str, logs: Sequence[LogId]) -> None:
        self.notes.append(sign + ",".join(map(str, logs)))


def test_partitions_come_and_go_with_the_generation() -> None:
    broker = Broker()
    broker.committed = {"orders": {"0": 0, "1": 0, "2": 0}}

    async def play() -> list[str]:
        async with peer(broker) as server:
            member = Member(server)
            await member.tasks.open()
            async with member.consumer:
                broker.generation, broker.assigned = 2, ["orders-1", "orders-2"]
                await broker.wait_for(lambda: len(member.notes) == 3)
                assert member.consumer.assigned == (LogId("orders", 1), LogId("orders", 2))
            await member.tasks.close()
            return member.notes

    assert asyncio.run(play()) == ["+orders-0,orders-1", "-orders-0", "+orders-2"]


def test_a_stream_member_that_was_lost_begins_again_where_the_group_stands() -> None:
    broker = Broker()
    broker.assigned = ["orders-0"]
    broker.committed = {"orders": {"0": 0}}

    async def play() -> list[int]:
        async with peer(broker) as server:
            member = Member(server)
            await member.tasks.open()
            async with member.consumer as consumer:
                seen = [(await anext(consumer)).offset]
                broker.committed = {"orders": {"0": 7}}
                broker.is_lost = True
                await broker.wait_for(lambda: len(member.notes) == 3)
                seen.append((await anext(consumer)).offset)
            await member.tasks.close()
            return seen

    assert asyncio.run(play()) == [0, 7]
    assert broker.members == 2


def test_a_lost_stream_member_that_cannot_join_at_once_tries_until_it_can() -> None:
    broker = Broker()
    broker.assigned = ["orders-0"]
    broker.committed = {"orders": {"0": 0}}
    broker.joins_refused = 3

    async def play() -> list[str]:
        async with peer(broker) as server:
            member = Member(server, ONCE)
            await member.tasks.open()
            async with member.consumer:
                broker.is_lost = True
                await broker.wait_for(lambda: len(member.notes) == 3)
            await member.tasks.close()
            return member.notes

    assert asyncio.run(play()) == ["+orders-0", "-orders-0", "+orders-0"]


def test_what_stayed_ours_is_committed_under_the_new_generation() -> None:
    broker = Broker()
    broker.committed = {"orders": {"0": 0, "1": 0}}

    async def scene(q: Connection) -> None:
        async with q.subscribe(
            "orders", group="g", protocol="eager", commit_interval_s=None
        ) as consumer:
            seen = {(await anext(consumer)).partition for _ in range(20)}
            assert seen == {0, 1}
            broker.generation, broker.assigned = 2, ["orders-1"]
            with pytest.raises(GoQueueError) as refused:
                await consumer.commit()
            assert refused.value.code == "generation_stale"
            assert consumer.assigned == (LogId("orders", 1),)

    with_broker(broker, scene)
    assert broker.commits == [{"orders": {"1": 10}}]


def test_a_stream_is_read_by_one_task_at_a_time() -> None:
    broker = Broker()
    broker.assigned = []

    async def scene(q: Connection) -> None:
        async with q.subscribe("orders", group="g", protocol="eager") as consumer:
            first = asyncio.ensure_future(consumer.take())
            await asyncio.sleep(0)
            with pytest.raises(GoQueueError) as refused:
                await consumer.take()
            assert refused.value.code == "request_invalid"
            first.cancel()

    with_broker(broker, scene)
