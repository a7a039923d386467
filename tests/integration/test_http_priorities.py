"""Priorities over HTTP: who overtakes whom in queue reads, the settings, the statistics."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import goqueue
from goqueue.model import parse_duration, parse_time
from tests.integration.http_api import Api, Json, values_of
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess

Name = Callable[[], str]
PRIORITIES = ("critical", "high", "normal", "low", "background")


def ranked(*priorities: str) -> list[Json]:
    """A message for each priority; its value is its place."""
    return [
        {"value": str(place), "priority": priority} for place, priority in enumerate(priorities)
    ]


def lanes_of(api: Api, topic: str) -> dict[str, Json]:
    lanes = api.get("/priority/stats")["lanes"]
    return {lane["priority"]: lane for lane in lanes if lane["topic"] == topic}


def test_a_critical_message_overtakes_in_queue_reads_and_nothing_is_left_out(
    api: Api, name: Name
) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, *ranked("normal", "low", "critical", "normal"))
    member = api.join(group, topic)

    taken = member.take(4)
    assert values_of(taken) == ["2", "0", "3", "1"]
    assert [message["priority"] for message in taken] == ["critical", "normal", "normal", "low"]
    api.ack_all(taken)
    assert api.committed(group, topic) == 4


def test_a_critical_message_that_comes_later_is_next(api: Api, name: Name) -> None:
    topic = api.create(name())
    api.publish(topic, *ranked(*["normal"] * 50))
    member = api.join(name(), topic)
    member.take(5)
    api.publish(topic, {"value": "now", "priority": 0})

    assert values_of(member.take(2)) == ["now", "5"]


def test_stream_reads_go_by_offset(api: Api, name: Name) -> None:
    topic = api.create(name())
    api.publish(topic, *ranked("background", "critical", "normal", "high"))

    found = api.read(topic)
    assert values_of(found) == ["0", "1", "2", "3"]
    assert [each["priority"] for each in found] == ["background", "critical", "normal", "high"]


@pytest.mark.parametrize("priority", [9, -1, "urgent", True, 1.5, [], {}])
def test_a_priority_that_does_not_exist_is_the_error_of_its_message(
    api: Api, name: Name, priority: object
) -> None:
    topic = api.create(name())
    messages = [{"value": "bad", "priority": priority}, {"value": "good", "priority": "high"}]
    bad, good = api.post(f"/topics/{topic}/messages", {"messages": messages})["results"]

    assert bad["code"] == "message_invalid"
    assert set(bad) == {"error", "code"}
    assert (good["offset"], good["priority"]) == (0, "high")
    assert values_of(api.read(topic)) == ["good"]


def test_the_shares_of_a_topic_are_its_settings(api: Api, name: Name) -> None:
    topic = api.create(name())
    config = api.get(f"/topics/{topic}")["config"]
    assert (config["priority_weights"], config["priority_boost"]) == ([50, 25, 15, 7, 3], "30s")

    changed = api.do("PATCH", f"/topics/{topic}", {"priority_weights": [1, 1, 1, 1, 1]})
    assert changed["config"]["priority_weights"] == [1, 1, 1, 1, 1]
    api.do("PATCH", f"/topics/{topic}", {"priority_boost": "90s"})
    config = api.get(f"/topics/{topic}")["config"]
    assert (config["priority_weights"], config["priority_boost"]) == ([1, 1, 1, 1, 1], "1m30s")

    api.publish(topic, *ranked(*["low"] * 10, *["critical"] * 10))
    taken = api.join(name(), topic).take(6)
    assert [message["priority"] for message in taken] == ["critical", "low"] * 3


def test_a_topic_is_made_with_shares_of_its_own(api: Api, name: Name) -> None:
    body = {"name": name(), "priority_weights": [9, 8, 7, 6, 5], "priority_boost": 1.5}
    config = api.post("/topics", body)["config"]

    assert (config["priority_weights"], config["priority_boost"]) == ([9, 8, 7, 6, 5], "1.5s")


@pytest.mark.parametrize(
    "setting",
    [
        {"priority_weights": [50, 25, 15, 7]},
        {"priority_weights": [50, 25, 15, 7, 3, 1]},
        {"priority_weights": [50, 25, 15, 7, 0]},
        {"priority_weights": [50, 25, 15, 7, 1001]},
        {"priority_weights": "50,25,15,7,3"},
        {"priority_weights": {}},
        {"priority_boost": "99ms"},
        {"priority_boost": "25h"},
        {"priority_boost": -1},
    ],
)
def test_shares_that_no_topic_may_have_are_refused(
    api: Api, name: Name, setting: dict[str, object]
) -> None:
    (field,) = setting
    for answer in (
        api.ask("POST", "/topics", {"name": name(), **setting}),
        api.ask("PATCH", f"/topics/{api.create(name())}", setting),
    ):
        assert (answer.status, answer.code) == (400, "request_invalid")
        assert answer.body["details"]["field"].startswith(field)


def test_statistics_tell_of_every_priority_and_lane(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    before = api.get("/priority/stats")
    api.publish(topic, *ranked("normal", "normal", "critical"))
    api.join(group, topic).take(2)

    stats = api.get("/priority/stats")
    for field in ("messages_by_priority", "avg_wait_time_by_priority", "pending_by_priority"):
        assert tuple(stats[field]) == PRIORITIES
    for priority, count in (("critical", 1), ("high", 0), ("normal", 2)):
        published = stats["messages_by_priority"][priority]
        assert published - before["messages_by_priority"][priority] == count
    assert all(parse_duration(each) >= 0 for each in stats["avg_wait_time_by_priority"].values())
    lanes = lanes_of(api, topic)
    assert set(lanes) == {"critical", "normal"}
    normal = lanes["normal"]
    assert (normal["consumer_group"], normal["partition"]) == (group, 0)
    counts = [normal[field] for field in ("ready", "in_flight", "enqueued", "dequeued")]
    assert counts == [1, 1, 2, 1]
    assert parse_time(normal["last_served"]) > 0
    assert parse_duration(normal["oldest_waiting"]) > 0


def test_the_program_and_the_client_show_the_lanes(
    api: Api, node: ServerProcess, name: Name, tmp_path: Path
) -> None:
    topic, group = name(), name()
    program = Program(node.url, tmp_path)
    weights = "priority_weights=5,4,3,2,1"
    program.do("topic", "create", topic, "-p", "1", "--set", weights, "--set", "priority_boost=1m")
    api.publish(topic, *ranked("normal"))
    member = api.join(group, topic)
    member.take(1)
    assert "LAST SERVED" not in program.do("topic", "describe", topic).text
    api.publish(topic, *ranked("low", "critical"))
    member.take(1)

    shown = program.do("topic", "describe", topic).text
    assert "5,4,3,2,1" in shown
    assert "LAST SERVED" in shown
    assert "critical" in shown
    described = program.do("topic", "describe", topic, "-o", "json").json()
    lanes = msgspec.convert(described["lanes"], list[dict[str, object]])
    assert {lane["priority"] for lane in lanes} == {"critical", "normal", "low"}
    refused = program.run("topic", "alter", topic, "--set", "priority_weights=1,x,1,1,1")
    assert refused.code == 2
    with goqueue.connect_sync(node.url) as queue:
        stats = queue.priorities()
        config = queue.topics.describe(topic).config
    assert (config.priority_weights, config.priority_boost) == ((5, 4, 3, 2, 1), "1m0s")
    assert {lane.priority for lane in stats.lanes if lane.topic == topic} >= {"critical", "low"}
