"""The schema registry of a cluster of real processes: at any node, without its controller."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import httpx
import pytest

import goqueue
from tests.integration.cluster.cluster_processes import HTTP
from tests.integration.cluster.test_real_quorum import Make

TOPIC = "orders"
_WAIT_S_MAX = 30.0
SUBJECT = f"{TOPIC}-value"
FIRST = '{"type":"object","properties":{"id":{"type":"integer"}},"additionalProperties":false}'
SECOND = (
    '{"type":"object","properties":{"id":{"type":"integer"},"note":{"type":"string"}},'
    '"additionalProperties":false}'
)


async def _check_values(urls: list[str]) -> None:
    async with goqueue.connect(urls) as q:
        await q.topics.create(TOPIC, partitions=3, schema_validation=True)
        for number in range(6):
            await q.publish(TOPIC, {"id": number}, key=str(number))
        with pytest.raises(goqueue.GoQueueError, match="schema_violation"):
            await q.publish(TOPIC, {"id": "x"}, key="x")


def test_schemas_are_the_same_on_all_nodes_and_outlive_the_controller(cluster_of: Make) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    cluster.wait_until_whole()
    state = cluster.look(cluster.names[0])
    assert state is not None
    controller = str(state["controller_id"])
    first, second = (cluster[name].url for name in cluster.names if name != controller)

    posted = _register(first, FIRST)
    assert posted.json()["id"] == 1
    for name in cluster.names:
        found = HTTP.get(f"{cluster[name].url}/schema-registry/schemas/ids/1")
        assert found.json()["schema"] == FIRST, found.text
    refused = _register(second, '{"type": "string"}')
    assert refused.status_code == 409, refused.text
    asyncio.run(_check_values([cluster[name].url for name in cluster.names]))

    cluster[controller].kill()
    assert _register(second, SECOND).json()["id"] == 2
    cluster[controller].start()
    for name in cluster.names:
        url = f"{cluster[name].url}/schema-registry/subjects/{SUBJECT}/versions"
        assert _once_available(partial(HTTP.get, url)).json() == [1, 2]


def _register(url: str, text: str) -> httpx.Response:
    return _once_available(
        lambda: HTTP.post(
            f"{url}/schema-registry/subjects/{SUBJECT}/versions",
            json={"schema": text, "schemaType": "JSON"},
            timeout=20,
        )
    )


def _once_available(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer of a node that has joined, and knows a controller."""
    deadline = time.monotonic() + _WAIT_S_MAX
    while True:
        reply = ask()
        if reply.status_code != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
            return reply
        time.sleep(0.1)
