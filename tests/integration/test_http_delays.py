"""Delayed messages over HTTP: never early, exactly once over kills, cancelled or delivered."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from goqueue.model import SECOND, Message, parse_time
from goqueue.records import build
from tests.integration.http_api import Api, Json, Member, values_of
from tests.integration.server_process import ServerProcess, serving

Name = Callable[[], str]
Connect = Callable[[ServerProcess], Api]
WAIT = "20s"


def listen(api: Api, topic: str, count: int, partition: int = 0, offset: int = 0) -> list[Json]:
    """Read a partition until so many messages came; a wait that stays empty is a failure."""
    found: list[Json] = []
    while len(found) < count:
        path = f"/topics/{topic}/partitions/{partition}/messages"
        answer = api.get(path, offset=offset, limit=1000, wait=WAIT)
        assert answer["messages"], f"{len(found)} of {count} messages came"
        found += answer["messages"]
        offset = answer["next_offset"]
    return found


def wait_until_nothing_waits(api: Api, topic: str) -> None:
    """Long polls on the end of each partition, until what was pending has been delivered."""
    for partition in range(api.get(f"/topics/{topic}")["partitions"]):
        while any(each["partition"] == partition for each in pending(api, topic)):
            ends = api.get(f"/topics/{topic}")["partition_offsets"][str(partition)]
            path = f"/topics/{topic}/partitions/{partition}/messages"
            api.get(path, offset=ends["latest"] + 1, wait="200ms")


def pending(api: Api, topic: str) -> list[Json]:
    messages: list[Json] = api.get(f"/topics/{topic}/delayed", limit=1000)["messages"]
    return messages


def place(result: Json) -> tuple[int, int]:
    return result["partition"], result["offset"]


def cancel(api: Api, topic: str, result: Json) -> Json:
    return api.do("DELETE", f"/topics/{topic}/delayed/{result['partition']}/{result['offset']}")


def find(api: Api, topic: str, result: Json) -> Json:
    path = f"/topics/{topic}/delayed/{result['offset']}"
    return api.get(path, partition=result["partition"])


# Delivery


def test_nothing_is_delivered_early_and_everything_once(api: Api, name: Name) -> None:
    topic = api.create(name(), 2)
    chance = random.Random(7)
    delays = [chance.randrange(0, 1200) for _ in range(300)]
    results = api.publish(
        topic,
        *(
            {"value": str(index), "delay": f"{delay}ms", "partition": index % 2}
            for index, delay in enumerate(delays)
        ),
    )
    due = {
        str(index): parse_time(result["deliverAt"]) if delays[index] else 0
        for index, result in enumerate(results)
    }
    assert all(
        ("delayed" in result) is bool(delay) for result, delay in zip(results, delays, strict=True)
    )
    came: list[Json] = []
    for partition in range(2):
        came += listen(api, topic, 150, partition)
    assert sorted(values_of(came), key=int) == [str(index) for index in range(300)]
    assert all(parse_time(message["timestamp"]) >= due[message["value"]] for message in came)
    first = {place(result): str(index) for index, result in enumerate(results)}
    for message in came:
        if due[message["value"]]:
            origin = int(message["headers"].pop("gq.delayed-from"))
            assert first[message["partition"], origin] == message["value"]
        assert not message.get("headers")
    assert pending(api, topic) == []
    assert api.get(f"/topics/{topic}")["total_messages"] == 300


def test_a_delayed_message_keeps_its_parts(api: Api, name: Name) -> None:
    topic = api.create(name())
    message = {
        "key": "k",
        "value": "AAEC/w==",
        "encoding": "base64",
        "headers": {"a": "b"},
        "priority": "high",
    }
    message = {**message, "key": "aw=="}
    api.publish(topic, {**message, "deliverAt": "2020-01-01T00:00:00Z"})
    api.publish(topic, {**message, "delay": 0.05})
    at_once, delayed = listen(api, topic, 2)
    assert delayed.pop("headers") == {"a": "b", "gq.delayed-from": "1"}
    assert at_once.pop("headers") == {"a": "b"}
    for part in ("key", "value", "encoding", "priority"):
        assert at_once[part] == delayed[part] == {**message, "priority": "high"}[part]


def test_it_reaches_stream_readers_and_each_group_once(api: Api, other: Api, name: Name) -> None:
    topic = api.create(name())
    members = [api.join(name(), topic), other.join(name(), topic)]
    api.publish(topic, {"value": "later", "delay": "300ms"}, "now")
    for member in members:
        messages = member.take(2)
        assert values_of(messages) == ["now", "later"]
        member.api.ack_all(messages)
        assert member.poll(timeout="100ms") == []
        assert member.api.committed(member.group, topic) == 3
    assert values_of(api.read(topic)) == ["now", "later"]
    lag = api.get(f"/groups/{members[0].group}/lag")
    assert lag["total_lag"] == 0


def test_records_in_their_stored_bytes_are_delayed_by_their_header(api: Api, name: Name) -> None:
    topic = api.create(name())
    now = parse_time(api.publish(topic, "clock")[0]["timestamp"])
    body = build(
        [
            Message(value=b"later", headers=(("gq.deliver-at", b"%d" % (now + SECOND)),)),
            Message(value=b"past", headers=(("gq.deliver-at", b"1"),)),
            Message(value=b"now"),
        ]
    )
    answer = api.send("POST", f"/topics/{topic}/records?partition=0", bytes(body))
    assert answer.body["results"] == [{"partition": 0, "base_offset": 1, "count": 3}]
    assert [(each["offset"], parse_time(each["deliver_at"])) for each in pending(api, topic)] == [
        (1, now + SECOND)
    ]
    came = listen(api, topic, 4)
    assert values_of(came) == ["clock", "past", "now", "later"]
    assert parse_time(came[-1]["timestamp"]) >= now + SECOND
    forged = build([Message(value=b"x", headers=(("gq.delayed-from", b"1"),))])
    answer = api.send("POST", f"/topics/{topic}/records", bytes(forged))
    assert (answer.status, answer.code) == (400, "request_invalid")


BAD: list[tuple[Json, str]] = [
    ({"delay": "1s", "deliverAt": "2030-01-01T00:00:00Z"}, "message_invalid"),
    ({"delay": -1}, "message_invalid"),
    ({"delay": "-5s"}, "message_invalid"),
    ({"delay": "NaN"}, "message_invalid"),
    ({"delay": "5 minutes"}, "message_invalid"),
    ({"delay": True}, "message_invalid"),
    ({"delay": "9000h"}, "delay_too_long"),
    ({"delay": 400 * 86_400}, "delay_too_long"),
    ({"deliverAt": "9999-12-31T23:59:59Z"}, "delay_too_long"),
    ({"deliverAt": 5}, "message_invalid"),
    ({"priority": 9}, "message_invalid"),
    ({"priority": "urgent"}, "message_invalid"),
    ({"priority": True}, "message_invalid"),
]


def test_bad_times_and_priorities_fail_alone(api: Api, name: Name) -> None:
    topic = api.create(name())
    messages: list[Json] = [{"value": "first"}]
    for index, (fields, _) in enumerate(BAD):
        messages += [{"value": "bad", **fields}, {"value": str(index), "delay": "20ms"}]
    results = api.post(f"/topics/{topic}/messages", {"messages": messages})["results"]
    assert [each.get("code") for each in results[1::2]] == [code for _, code in BAD]
    assert all(set(each) == {"error", "code"} for each in results[1::2])
    assert all(each["delayed"] for each in results[2::2])
    expected = ["first", *(str(index) for index in range(len(BAD)))]
    assert sorted(values_of(listen(api, topic, len(expected)))) == sorted(expected)


def test_the_longest_delay_is_a_setting(tmp_path: Path, connect: Connect, name: Name) -> None:
    with serving(tmp_path / "data", "--limits-max-delay", "2s") as node:
        api = connect(node)
        topic = api.create(name())
        messages = [{"value": "a", "delay": "2s"}, {"value": "b", "delay": "2001ms"}]
        results = api.post(f"/topics/{topic}/messages", {"messages": messages})["results"]
        assert results[0]["delayed"] is True
        assert results[1]["code"] == "delay_too_long"
        assert "2s" in results[1]["error"]


# Asking and cancelling


def test_those_that_wait_are_listed_by_their_time_over_all_partitions(api: Api, name: Name) -> None:
    topic = api.create(name(), 3)
    before = api.get("/delay/stats")
    hours = [5, 1, 4, 2, 3]
    results = api.publish(
        topic,
        *({"value": "x", "delay": f"{h}h", "partition": i % 3} for i, h in enumerate(hours)),
    )
    by_due = [place(results[hours.index(hour)]) for hour in sorted(hours)]
    assert [place(each) for each in pending(api, topic)] == by_due
    page = api.get(f"/topics/{topic}/delayed", limit=2, skip=1)
    assert [place(each) for each in page["messages"]] == by_due[1:3]
    assert {key: page[key] for key in ("count", "total", "limit", "skip")} == {
        "count": 2,
        "total": 5,
        "limit": 2,
        "skip": 1,
    }
    beyond = api.get(f"/topics/{topic}/delayed", skip=2**53)
    assert (beyond["messages"], beyond["total"]) == ([], 5)
    after = api.get("/delay/stats")
    assert after["pending_count"] - before["pending_count"] == 5
    assert after["by_topic"][topic] == 5
    assert after["next_due_at"] <= results[1]["deliverAt"]


def test_the_same_offset_of_two_partitions_is_two_messages(api: Api, name: Name) -> None:
    topic = api.create(name(), 3)
    first, second = api.publish(
        topic,
        {"value": "a", "delay": "1h", "partition": 1},
        {"value": "b", "delay": "300ms", "partition": 2},
    )
    assert (place(first), place(second)) == ((1, 0), (2, 0))
    assert api.get(f"/topics/{topic}/delayed/0")["partition"] == 1
    assert api.refusal("GET", f"/topics/{topic}/delayed/0", partition=0) == (
        404,
        "message_not_found",
    )
    told = cancel(api, topic, first)
    assert told == {"cancelled": True, "topic": topic, "partition": 1, "offset": 0}
    assert find(api, topic, first)["state"] == "cancelled"
    assert values_of(listen(api, topic, 1, 2)) == ["b"]
    assert find(api, topic, second)["delivered_offset"] == 1
    assert api.read(topic, 1) == []


def test_a_cancellation_may_be_repeated_but_not_come_too_late(api: Api, name: Name) -> None:
    topic = api.create(name())
    waiting, swift, plain = api.publish(
        topic, {"value": "a", "delay": "1h"}, {"value": "b", "delay": "10ms"}, "c"
    )
    assert cancel(api, topic, waiting) == cancel(api, topic, waiting)
    delivered = next(each for each in listen(api, topic, 2) if each["value"] == "b")
    answer = api.ask("DELETE", f"/topics/{topic}/delayed/0/{swift['offset']}")
    assert (answer.status, answer.code) == (409, "already_delivered")
    assert answer.body["details"] == {"delivered_offset": delivered["offset"]}
    for offset in (plain["offset"], delivered["offset"], 10**6):
        path = f"/topics/{topic}/delayed/0/{offset}"
        assert api.refusal("DELETE", path) == (404, "message_not_found")
    missing = f"/topics/{topic}/delayed/1/0"
    assert api.refusal("DELETE", missing) == (404, "partition_not_found")
    assert api.refusal("DELETE", f"/topics/{name()}/delayed/0/0") == (404, "topic_not_found")
    assert api.refusal("DELETE", "/topics/__x/delayed/0/0")[0] in {403, 404}


def test_while_it_fires_a_message_is_either_cancelled_or_delivered(api: Api, name: Name) -> None:
    topic = api.create(name())
    chance = random.Random(11)
    delivered: dict[str, int] = {}
    cancelled: set[str] = set()
    for index in range(150):
        value = str(index)
        (result,) = api.publish(topic, {"value": value, "delay": chance.choice([1, 5, 10]) / 1000})
        if chance.randrange(2):
            # About the time in which it fires.
            api.get(f"/topics/{topic}/partitions/0/messages", offset=10**9, wait="8ms")
        answer = api.ask("DELETE", f"/topics/{topic}/delayed/0/{result['offset']}")
        if answer.status == 200:
            cancelled.add(value)
        else:
            assert answer.code == "already_delivered"
            delivered[value] = answer.body["details"]["delivered_offset"]
    assert len(delivered) + len(cancelled) == 150
    assert pending(api, topic) == []
    read = {message["value"]: message["offset"] for message in api.read(topic)}
    assert read == delivered
    assert len(api.read(topic)) == len(delivered)


def test_deleting_a_topic_takes_its_delayed_messages_along(api: Api, name: Name) -> None:
    topic = api.create(name())
    api.publish(topic, {"value": "old", "delay": "250ms"})
    api.do("DELETE", f"/topics/{topic}")
    assert api.refusal("GET", f"/topics/{topic}/delayed") == (404, "topic_not_found")
    assert topic not in api.get("/delay/stats")["by_topic"]
    api.create(topic)
    assert pending(api, topic) == []
    # Due after the old one would have been.
    api.publish(topic, {"value": "new", "delay": "600ms"})
    assert values_of(listen(api, topic, 1)) == ["new"]
    assert values_of(api.read(topic)) == ["new"]


# Kills


def killed(node: ServerProcess, connect: Connect) -> Api:
    """End the node without warning and start it again; a client of its new life."""
    node.restart()
    return connect(node)


def stopped(node: ServerProcess, connect: Connect) -> Api:
    """Have the node end in order, and start it again."""
    assert node.stop() == 0
    node.start()
    return connect(node)


def test_what_waits_survives_a_kill_and_fires_once(
    mortal: ServerProcess, connect: Connect, name: Name
) -> None:
    api = connect(mortal)
    topic = api.create(name(), 2)
    results = api.publish(
        topic,
        *(
            {"value": str(index), "delay": f"{1 + index * 20}ms", "partition": index % 2}
            for index in range(200)
        ),
    )
    kept, gone = api.publish(topic, {"value": "x", "delay": "1h"}, {"value": "y", "delay": "1h"})
    cancel(api, topic, gone)
    due = {str(index): parse_time(each["deliverAt"]) for index, each in enumerate(results)}
    # While it is down some are overdue; while it runs others fire, in the midst of which it ends.
    for _ in range(3):
        api = killed(mortal, connect)
    came = [message for partition in range(2) for message in listen(api, topic, 100, partition)]
    assert sorted(values_of(came), key=int) == sorted(due, key=int)
    assert all(parse_time(message["timestamp"]) >= due[message["value"]] for message in came)
    api = killed(mortal, connect)
    assert [place(each) for each in pending(api, topic)] == [place(kept)]
    again = [message for partition in range(2) for message in api.read(topic, partition)]
    assert again == came
    assert find(api, topic, gone)["state"] == "cancelled"
    assert cancel(api, topic, gone)["cancelled"] is True
    offsets = {(each["partition"], each["value"]): each["offset"] for each in came}
    for index, result in enumerate(results):
        told = find(api, topic, result)
        assert told["state"] == "delivered"
        assert told["delivered_offset"] == offsets[result["partition"], str(index)]


def test_kills_in_the_midst_of_firing_lose_nothing_and_repeat_nothing(
    mortal: ServerProcess, connect: Connect, name: Name
) -> None:
    api = connect(mortal)
    topic = api.create(name())
    chance = random.Random(5)
    published = 0
    for _ in range(5):
        delays = [chance.randrange(1, 400) for _ in range(200)]
        api.publish(
            topic,
            *(
                {"value": str(published + index), "delay": f"{delay}ms"}
                for index, delay in enumerate(delays)
            ),
        )
        published += len(delays)
        # A part of them has fired when the wait is over.
        api.get(f"/topics/{topic}/partitions/0/messages", offset=10**9, wait="120ms")
        api = killed(mortal, connect)
    wait_until_nothing_waits(api, topic)
    assert sorted(map(int, values_of(api.read(topic)))) == list(range(published))
    assert api.get(f"/topics/{topic}")["total_messages"] == published


def test_an_orderly_stop_keeps_what_waits(
    mortal: ServerProcess, connect: Connect, name: Name
) -> None:
    api = connect(mortal)
    topic = api.create(name())
    api.publish(topic, {"value": "a", "delay": "50ms"}, {"value": "b", "delay": "1h"})
    api = stopped(mortal, connect)
    assert values_of(listen(api, topic, 1)) == ["a"]
    assert [each["offset"] for each in pending(api, topic)] == [1]


def test_a_dead_letter_says_nothing_about_what_waits_in_its_new_topic(
    mortal: ServerProcess, connect: Connect, name: Name
) -> None:
    api = connect(mortal)
    topic = api.create(name())
    letters = api.create(f"{topic}.dlq")
    (waiting,) = api.publish(letters, {"value": "wait", "delay": "1h"})
    (fired,) = api.publish(topic, {"value": "dies", "delay": "1ms"})
    assert waiting["offset"] == fired["offset"] == 0
    member = api.join(name(), topic)
    (message,) = member.take(1)
    api.post("/messages/reject", {"receipt_handle": message["receipt_handle"]})
    (letter,) = listen(api, letters, 1)
    assert "gq.delayed-from" not in letter["headers"]
    api = killed(mortal, connect)
    assert find(api, letters, waiting)["state"] == "pending"


@pytest.mark.parametrize("end", [killed, stopped])
def test_a_fired_message_is_leased_again_after_a_restart_until_it_is_settled(
    mortal: ServerProcess,
    connect: Connect,
    name: Name,
    end: Callable[[ServerProcess, Connect], Api],
) -> None:
    api = connect(mortal)
    topic = api.create(name())
    member = api.join(name(), topic)
    api.publish(topic, {"value": "a", "delay": "20ms"}, {"value": "b", "delay": "40ms"})
    first, _ = member.take(2)
    api.ack(first)
    api = end(mortal, connect)
    member = Member(api, member.group, member.joined)
    (second,) = member.take(1)
    assert second["value"] == "b"
    api.ack(second)
    assert member.poll(timeout="100ms") == []
