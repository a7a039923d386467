"""Topics through the SDK: settings by name, and names that are none."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

import goqueue
from goqueue.client.admin import TopicSettings
from goqueue.client.connection import Connection
from tests.unit.client.peer import Answer, Asked, json_answer, peer


def asked_by(scene: Callable[[Connection], Awaitable[object]]) -> list[Asked]:
    """What the server was asked by a program."""
    asked: list[Asked] = []

    async def answer(request: Asked) -> Answer:
        asked.append(request)
        return json_answer({"name": "orders", "partitions": 3})

    async def play() -> None:
        async with peer(answer) as server, goqueue.connect(server) as q:
            await scene(q)

    asyncio.run(play())
    return asked


def test_settings_travel_by_their_names() -> None:
    (created,) = asked_by(
        lambda q: q.topics.create("orders", partitions=3, max_deliveries=5, priority_boost="1m")
    )
    assert msgspec.json.decode(created.body) == {
        "name": "orders",
        "num_partitions": 3,
        "max_deliveries": 5,
        "priority_boost": "1m",
    }
    (altered,) = asked_by(lambda q: q.topics.alter("orders", visibility_timeout=90))
    assert msgspec.json.decode(altered.body) == {"visibility_timeout": 90}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("max_delivries", "max_deliveries"),
        ("partitons", "partitions"),
        ("num_partitions", "partitions"),
    ],
)
def test_a_setting_with_a_typo_is_refused_before_anything_is_asked(given: str, meant: str) -> None:
    settings: TopicSettings = {given: 5}  # type: ignore[misc]  # what a program gets wrong

    async def create(q: Connection) -> None:
        with pytest.raises(TypeError, match=f"argument '{given}'; did you mean '{meant}'"):
            await q.topics.create("orders", **settings)
        with pytest.raises(TypeError, match=f"argument '{given}'"):
            await q.topics.alter("orders", **settings)

    assert asked_by(create) == []


def test_a_search_for_something_that_does_not_exist_is_refused() -> None:
    async def search(q: Connection) -> None:
        with pytest.raises(TypeError, match="did you mean 'topic'"):
            await q.traces.search(topics="orders")  # type: ignore[call-arg]  # what is wrong

    assert asked_by(search) == []


def test_what_is_fixed_from_then_on_is_given_when_a_topic_is_created() -> None:
    (created,) = asked_by(lambda q: q.topics.create("orders", replication_factor=1))
    assert msgspec.json.decode(created.body) == {"name": "orders", "replication_factor": 1}
    (left,) = asked_by(lambda q: q.topics.create("orders", replication_factor=None))
    assert msgspec.json.decode(left.body).get("replication_factor") is None

    async def alter(q: Connection) -> None:
        with pytest.raises(TypeError, match="argument 'replication_factor'"):
            await q.topics.alter("orders", replication_factor=1)  # type: ignore[call-arg]  # it is fixed

    assert asked_by(alter) == []
