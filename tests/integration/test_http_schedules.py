"""Schedules over HTTP: created, listed, paused, run, deleted, and each tick once over kills."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from goqueue.model import MILLISECOND, SECOND, format_time, parse_time
from tests.integration.http_api import Api, Json
from tests.integration.server_process import ServerProcess, serving

Name = Callable[[], str]
Connect = Callable[[ServerProcess], Api]


def _read(api: Api, topic: str, *, offset: int = 0, wait: str = "0s") -> tuple[list[Json], int]:
    path = f"/topics/{topic}/partitions/0/messages"
    answer = api.get(path, offset=offset, limit=1000, wait=wait)
    return answer["messages"], answer["next_offset"]


def _ticks(messages: list[Json], name: str) -> list[int]:
    found = [each["headers"] for each in messages if each["headers"].get("gq.schedule") == name]
    return [parse_time(each["gq.tick"]) for each in found]


def _create(api: Api, topic: str, name: str, **fields: object) -> Json:
    body = {"name": name, "topic": topic, "message": {"value": name}, **fields}
    return api.post("/schedules", body)


def test_a_schedule_goes_through_its_whole_life(api: Api, name: Name) -> None:
    topic = api.create(name(), 1)
    schedule = name()
    created = _create(
        api,
        topic,
        schedule,
        cron="0 9 * * MON-FRI",
        time_zone="America/New_York",
        message={"value": "report", "key": "k", "headers": {"a": "b"}, "priority": "high"},
        missed="skip",
        grace="5m",
    )
    assert created["state"] == "active"
    assert created["cron"] == "0 9 * * MON-FRI"
    assert created["time_zone"] == "America/New_York"
    assert created["grace"] == "5m0s"
    assert created["ticks_sent"] == 0
    assert created["message"] == {
        "value": "report",
        "key": "k",
        "headers": {"a": "b"},
        "priority": "high",
    }
    hour = parse_time(created["next_tick_at"]) // SECOND // 3600 % 24
    assert hour in {13, 14}
    assert api.get(f"/schedules/{schedule}") == created

    ran = api.do("POST", f"/schedules/{schedule}/run")
    (message,), _ = _read(api, topic)
    assert message["offset"] == ran["offset"]
    assert message["headers"] == {"a": "b", "gq.schedule": schedule}

    paused = api.do("POST", f"/schedules/{schedule}/pause")
    assert paused["state"] == "paused"
    assert "next_tick_at" not in paused
    resumed = api.do("POST", f"/schedules/{schedule}/resume")
    assert resumed["next_tick_at"] == created["next_tick_at"]

    changed = api.do("PATCH", f"/schedules/{schedule}", {"every": "1h"})
    assert changed["every"] == "1h0m0s"
    assert "cron" not in changed

    assert api.do("DELETE", f"/schedules/{schedule}") == {"deleted": True, "name": schedule}
    assert api.refusal("GET", f"/schedules/{schedule}") == (404, "schedule_not_found")


def test_putting_a_schedule_creates_or_replaces_it(api: Api, name: Name) -> None:
    topic, schedule = api.create(name(), 1), name()
    body = {"topic": topic, "every": "1h", "message": {"value": "x"}}
    first = api.do("PUT", f"/schedules/{schedule}", body)
    again = api.do("PUT", f"/schedules/{schedule}", body)

    assert again == first
    body["every"] = "2h"
    assert api.do("PUT", f"/schedules/{schedule}", body)["every"] == "2h0m0s"


def test_schedules_are_listed_by_name_in_pages(api: Api, name: Name) -> None:
    topic = api.create(name(), 1)
    names = [f"zz-{name()}-{letter}" for letter in "cab"]
    for each in names:
        _create(api, topic, each, every="1h")
    listed = api.get("/schedules", limit=1000)

    assert listed["total"] == len(listed["schedules"]) == listed["count"]
    found = [each["name"] for each in listed["schedules"]]
    assert found == sorted(found)
    page = api.get("/schedules", limit=1, skip=found.index(min(names)))
    assert [each["name"] for each in page["schedules"]] == [min(names)]


@pytest.mark.parametrize(
    ("fields", "status", "code", "words"),
    [
        ({}, 400, "request_invalid", "`cron` or `every` must be given, and not both"),
        ({"every": "1h", "cron": "@daily"}, 400, "request_invalid", "not both"),
        ({"every": "1ms"}, 400, "request_invalid", "100ms"),
        ({"cron": "* * *"}, 400, "request_invalid", "five fields"),
        (
            {"cron": "@daily", "time_zone": "Mars/Base"},
            400,
            "request_invalid",
            "is not known: Mars",
        ),
        ({"cron": "@daily", "time_zone": "../../etc/passwd"}, 400, "request_invalid", "zone"),
        ({"cron": "0 0 30 2 *"}, 400, "request_invalid", "matches no day"),
        ({"every": "1h", "ends": "x"}, 400, "request_invalid", "did you mean `end`"),
        ({"every": "1h", "end": "2001-01-01T00:00:00Z"}, 400, "request_invalid", "no tick"),
        (
            {"every": "1h", "missed": "never"},
            400,
            "request_invalid",
            "`missed` must be `latest` or `skip` or `all`, not 'never'",
        ),
        ({"every": "1h", "missed_max": 1000}, 400, "request_invalid", "missed_max"),
        ({"every": "1h", "topic": "nowhere"}, 404, "topic_not_found", "topic"),
        ({"every": "1h", "topic": "__groups"}, 403, "topic_internal", "broker"),
        ({"every": "1h", "message": {}}, 400, "request_invalid", "message.value"),
        (
            {"every": "1h", "message": {"value": "", "partition": -1}},
            400,
            "partition_invalid",
            "partition",
        ),
        (
            {"every": "1h", "message": {"value": "", "partition": 9}},
            404,
            "partition_not_found",
            "partition",
        ),
        (
            {"every": "1h", "message": {"value": "", "headers": {"gq.tick": "1"}}},
            400,
            "message_invalid",
            "reserved",
        ),
        ({"every": "1h", "message": {"value": "x" * 300_000}}, 413, "message_too_large", "larger"),
        ({"every": "1h", "name": "a b"}, 400, "name_invalid", "name"),
    ],
)
def test_what_makes_no_schedule_is_refused_with_its_reason(
    api: Api, name: Name, fields: Json, status: int, code: str, words: str
) -> None:
    topic = api.create(name(), 1)
    body = {"name": name(), "topic": topic, "message": {"value": "x"}, **fields}
    answer = api.ask("POST", "/schedules", body)

    assert (answer.status, answer.code) == (status, code)
    assert words in answer.body["error"], answer.body


def test_a_name_is_taken_once(api: Api, name: Name) -> None:
    topic, schedule = api.create(name(), 1), name()
    _create(api, topic, schedule, every="1h")
    body = {"name": schedule, "topic": topic, "every": "1h", "message": {"value": "x"}}

    assert api.refusal("POST", "/schedules", body) == (409, "schedule_exists")


def test_bytes_that_are_no_text_come_back_as_base64(api: Api, name: Name) -> None:
    topic = api.create(name(), 1)
    message = {"value": "/wA=", "key": "/w==", "encoding": "base64"}
    created = _create(api, topic, name(), every="1h", message=message)

    assert created["message"] == {**message, "priority": "normal"}


def test_every_tick_is_sent_once_although_the_node_is_killed_again_and_again(
    tmp_path: Path, connect: Connect
) -> None:
    """Kills come from a seed; some of them meet a tick between its append and its marker."""
    chance = random.Random(11)
    with serving(tmp_path) as server:
        api = connect(server)
        topic = api.create("ticks", 1)
        start = parse_time(api.get("/topics/ticks")["created_at"]) + SECOND
        end = start + 6 * SECOND
        times = {
            "start": format_time(start),
            "end": format_time(end),
            "missed": "all",
            "grace": "1h",
        }
        for schedule, every in (("fast", "100ms"), ("slow", "250ms")):
            _create(api, topic, schedule, every=every, **times)
        for _ in range(8):
            # A pause of any length is right: it only decides which moment the kill meets.
            time.sleep(chance.uniform(0.05, 0.5))
            server.kill()
            server.start()
        api = connect(server)
        messages: list[Json] = []
        offset = 0
        wanted = 61 + 25
        while len(messages) < wanted:
            found, offset = _read(api, topic, offset=offset, wait="10s")
            assert found, f"{len(messages)} of {wanted} messages came"
            messages += found
        more, _ = _read(api, topic, offset=offset, wait="300ms")

        assert not more
        assert _ticks(messages, "fast") == list(range(start, end + 1, 100 * MILLISECOND))
        assert _ticks(messages, "slow") == list(range(start, end + 1, 250 * MILLISECOND))
        assert api.get("/schedules/fast")["ticks_sent"] == 61
        assert api.get("/schedules/slow")["state"] == "ended"
