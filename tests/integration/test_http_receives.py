"""Receiving without joining, through the API and the SDK."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
import uvloop

import goqueue
from tests.integration.http_api import Api, values_of
from tests.integration.server_process import ServerProcess

Name = Callable[[], str]


def test_one_request_leases_and_another_settles(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a", "b")

    received = api.post(f"/queues/{group}/receive", {"topic": topic, "max": 10})["messages"]
    assert sorted(values_of(received)) == ["a", "b"]
    assert all(each["delivery_count"] == 1 and each["deadline"] for each in received)
    for message in received:
        acked = api.post("/messages/ack", {"receipt_handle": message["receipt_handle"]})
        assert acked["acknowledged"]

    assert api.post(f"/queues/{group}/receive", {"topic": topic}) == {"messages": []}
    lag = api.get(f"/groups/{group}/lag")
    assert lag["total_lag"] == 0


def test_by_default_one_message_is_leased_and_nothing_is_waited_for(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    assert api.post(f"/queues/{group}/receive", {"topic": topic}) == {"messages": []}
    api.publish(topic, "a", "b")

    assert len(api.post(f"/queues/{group}/receive", {"topic": topic})["messages"]) == 1


def test_a_publish_wakes_waiting_receivers_and_each_gets_its_own(
    node: ServerProcess, api: Api, name: Name
) -> None:
    topic, group = api.create(name()), name()

    def receive(_: int) -> list[str]:
        client = Api(node.url)
        try:
            body = {"topic": topic, "wait": "60s", "visibility": "1m"}
            return values_of(client.post(f"/queues/{group}/receive", body)["messages"])
        finally:
            client.close()

    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(receive, number) for number in range(8)]
        api.publish(topic, *map(str, range(8)))
        got = [value for each in waiting for value in each.result(30)]
    assert sorted(got) == sorted(map(str, range(8)))


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "request_invalid", "topics"),
        ({"topics": []}, "request_invalid", "topics"),
        ({"topics": ["no/where"]}, "name_invalid", "topics"),
        ({"topics": ["t"], "topic": "t"}, "request_invalid", "topic"),
        ({"topic": "nowhere"}, "topic_not_found", None),
        ({"topic": "no/where"}, "name_invalid", "topic"),
        ({"topic": "t", "max": 0}, "request_invalid", "max"),
        ({"topic": "t", "wait": "soon"}, "request_invalid", "wait"),
        ({"topic": "t", "max_messages": 0}, "request_invalid", "max_messages"),
        ({"topic": "t", "max_messages": 3, "max": 3}, "request_invalid", "max"),
        ({"topic": "t", "max_message": 3}, "request_invalid", "max_message"),
    ],
)
def test_what_cannot_be_received_is_refused_by_name(
    api: Api, name: Name, body: dict[str, object], code: str, field: str | None
) -> None:
    refused = api.send("POST", f"/queues/{name()}/receive", msgspec.json.encode(body))
    assert refused.body["code"] == code
    if field is not None:
        assert refused.body["details"]["field"] == field


def test_a_lease_out_of_range_is_refused(api: Api, name: Name) -> None:
    topic = api.create(name())
    body = {"topic": topic, "visibility": "13h"}
    refused = api.send("POST", f"/queues/{name()}/receive", msgspec.json.encode(body))
    assert (refused.status, refused.body["details"]["field"]) == (400, "visibility_timeout")


def test_a_receive_takes_the_fields_of_the_contract_and_several_topics(
    api: Api, name: Name
) -> None:
    orders, bills, group = api.create(name()), api.create(name()), name()
    api.publish(orders, "a", "b")
    api.publish(bills, "c")

    body = {
        "topics": [orders, bills],
        "max_messages": 10,
        "wait": "20s",
        "visibility_timeout": "1m",
    }
    received = api.post(f"/queues/{group}/receive", body)["messages"]

    assert sorted(values_of(received)) == ["a", "b", "c"]
    assert {each["topic"] for each in received} == {orders, bills}


def test_a_partitioned_group_is_received_from_when_its_last_member_has_left(
    api: Api, name: Name
) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    member = api.join(group, topic)
    api.post(f"/groups/{group}/leave", {"member_id": member.id})

    body = {"topics": [topic], "max_messages": 10}
    (message,) = api.post(f"/queues/{group}/receive", body)["messages"]
    assert api.post("/messages/ack", {"receipt_handle": message["receipt_handle"]})["acknowledged"]


def test_a_partitioned_group_with_members_is_refused_with_its_reason(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.join(group, topic)

    refused = api.send("POST", f"/queues/{group}/receive", msgspec.json.encode({"topic": topic}))
    assert (refused.status, refused.body["code"]) == (409, "group_mismatch")
    assert "shared" in refused.body["error"]


def test_the_sdk_receives_and_settles(node: ServerProcess, api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a", "b", "c")

    async def receive() -> list[str]:
        async with goqueue.connect(node.url) as q:
            first, *rest = await q.receive(topic, group=group, max=3)
            await first.ack()
            for message in rest:
                await message.nack(delay_s=0.0)
            again = await q.receive(topic, group=group, max=3, wait=20.0, visibility_s=60.0)
            for message in again:
                assert message.group == group
                message.ack()
            return [first.text, *(message.text for message in again)]

    assert sorted(asyncio.run(receive())) == ["a", "b", "c"]
    assert api.get(f"/groups/{group}/lag")["total_lag"] == 0


def test_threads_receive_as_well(node: ServerProcess, api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    with goqueue.connect_sync(node.url) as q:
        (message,) = q.receive(topic, group=group, wait=20.0)
        message.ack()
        assert (message.text, q.receive(topic, group=group)) == ("a", [])


@pytest.mark.parametrize("runner", ["asyncio", "uvloop"])
def test_a_receive_that_is_cancelled_leases_nothing(
    node: ServerProcess, name: Name, runner: str
) -> None:
    topic, group = name(), name()

    async def scene() -> None:
        async with asyncio.timeout(60), goqueue.connect(node.url) as q:
            await q.topics.create(topic, partitions=1)
            for number in range(20):
                waiting = asyncio.create_task(q.receive(topic, group=group, wait=20))
                await asyncio.sleep(0.01)
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                await q.publish(topic, str(number))
                (message,) = await q.receive(topic, group=group, wait=20, visibility_s=60)
                assert (message.text, message.delivery_count) == (str(number), 1)
                await message.ack()

    if runner == "uvloop":
        uvloop.run(scene())
    else:
        asyncio.run(scene())
