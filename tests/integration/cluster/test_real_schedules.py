"""Schedules of a cluster of real processes, while the coordinator is killed."""

import asyncio

import goqueue
from tests.integration.cluster.cluster_processes import HTTP
from tests.integration.cluster.test_real_groups import coordinator_of, urls_of
from tests.integration.cluster.test_real_quorum import Make

_TICKS = 20


def test_a_schedule_ticks_on_when_its_coordinator_is_killed(cluster_of: Make) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    cluster.wait_until_whole()
    ticks: list[str] = []

    async def main() -> None:
        async with goqueue.connect(urls_of(cluster)) as q:
            await q.topics.create("beats", partitions=1)
            await q.schedules.create(
                "beat", topic="beats", value="tick", every="300ms", missed="all", grace="1m"
            )
            async with asyncio.timeout(60):
                async for message in q.stream("beats"):
                    ticks.append(message.headers["gq.tick"].decode())
                    if len(ticks) == _TICKS // 2:
                        gone = coordinator_of(cluster, cluster.names)
                        cluster.names.remove(gone)
                        cluster[gone].kill()
                    if len(ticks) == _TICKS:
                        return

    asyncio.run(main())

    assert len(set(ticks)) == _TICKS
    assert ticks == sorted(ticks)
    survivor = cluster[cluster.names[0]].url
    described = HTTP.get(f"{survivor}/schedules/beat").json()
    assert described["ticks_sent"] >= _TICKS, described
