"""Services of nodes of a cluster: traces in pieces, replies to any node, priorities, a tail."""

import asyncio
from collections.abc import AsyncIterator

import goqueue
from goqueue.model import REPLY_TO_HEADER
from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses
from tests.integration.cluster.test_real_groups import coordinator_of, urls_of
from tests.integration.cluster.test_real_quorum import Make

TOPIC = "orders"


async def _use(cluster: ClusterProcesses) -> list[str]:
    """Publish, work off and answer through different nodes; what was answered."""
    first, second, third = (cluster[name].url for name in cluster.names)
    async with (
        goqueue.connect(first) as asks,
        goqueue.connect(second) as works,
        goqueue.connect(third) as tails,
    ):
        await asks.topics.create(TOPIC, partitions=3)
        for number in range(6):
            await asks.publish(TOPIC, str(number), partition=number % 3, priority="high")
        seen = [message.value async for message in _some(tails, 6)]
        assert len(seen) == 6

        async def work() -> None:
            async for message in works.consume(TOPIC, group="workers"):
                if REPLY_TO_HEADER in message.headers:
                    await message.reply(b"answer to " + (message.value or b""))
                await message.ack()

        worker = asyncio.create_task(work())
        replies = [await asks.request(TOPIC, f"question {number}") for number in range(3)]
        worker.cancel()
        return [(each.value or b"").decode() for each in replies]


async def _some(q: goqueue.Connection, count: int) -> AsyncIterator[goqueue.Message]:
    async for message in q.stream(TOPIC):
        yield message
        count -= 1
        if not count:
            return


def test_any_node_answers_what_several_of_them_know(cluster_of: Make) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    cluster.wait_until_whole()

    answers = asyncio.run(_use(cluster))
    assert sorted(answers) == [f"answer to question {number}" for number in range(3)]

    coordinator_of(cluster, cluster.names)
    lists = []
    for url in urls_of(cluster):
        found = HTTP.get(f"{url}/traces/search", params={"topic": TOPIC, "limit": 100}).json()
        lists.append(sorted(each["trace_id"] for each in found["traces"] if each["offset"] >= 0))
        done = HTTP.get(
            f"{url}/traces/search", params={"topic": TOPIC, "status": "completed"}
        ).json()
        assert len(done["traces"]) == 9, done
        priorities = HTTP.get(f"{url}/priority/stats").json()
        assert priorities["messages_by_priority"]["high"] == 6, priorities
    assert lists[0] == lists[1] == lists[2]
    assert len(lists[0]) == 9

    for url in urls_of(cluster):
        detail = HTTP.get(f"{url}/traces/{lists[0][0]}").json()
        events = [each["event_type"] for each in detail["events"]]
        assert "publish.persisted" in events, events
        assert "consume.acked" in events, events
        assert HTTP.get(f"{url}/traces/{'0' * 31}1").status_code == 404
        late = HTTP.post(f"{url}/replies/{'0' * 32}", json={"value": "late"})
        assert late.json()["delivered"] is False
