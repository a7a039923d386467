"""Message journeys over HTTP: contexts in and out, the routes, what is asked wrongly, restarts."""

import re
from collections.abc import Callable

import pytest

from goqueue.model import Message
from goqueue.records import build, rehead
from tests.integration.http_api import Api, Json
from tests.integration.server_process import ServerProcess

Name = Callable[[], str]
Connect = Callable[[ServerProcess], Api]

PUBLISHED = ["publish.received", "publish.partitioned", "publish.persisted"]
GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE_ID = re.compile(r"[0-9a-f]{32}")
SUMMARY = {
    "trace_id",
    "topic",
    "partition",
    "offset",
    "status",
    "start_time",
    "duration_ms",
    "event_count",
}


def given(number: int) -> tuple[str, str]:
    """A context of its own, and its trace."""
    trace = f"{number:032x}"
    return f"00-{trace}-00f067aa0ba902b7-01", trace


def names(trace: Json) -> list[str]:
    return [event["event_type"] for event in trace["events"]]


def search(api: Api, **query: object) -> list[str]:
    answer = api.get("/traces/search", **query)
    assert answer["total"] >= len(answer["traces"])
    return [each["trace_id"] for each in answer["traces"]]


# What a message carries and is told


def test_a_message_tells_its_trace_wherever_it_is_read(api: Api, name: Name) -> None:
    topic = api.create(name())
    api.publish(topic, "made", {"value": "given", "headers": {"traceparent": GIVEN}})
    made, carried = (message["trace_id"] for message in api.read(topic))
    assert TRACE_ID.fullmatch(made)
    assert carried == GIVEN[3:35]
    polled = api.join(name(), topic).take(2)
    assert [message["trace_id"] for message in polled] == [made, carried]
    assert names(api.get(f"/traces/{made}")) == [*PUBLISHED, "consume.fetched"]
    raw = api.send("GET", f"/topics/{topic}/partitions/0/records?offset=0")
    assert re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]{16}-10{16}", raw.headers["goqueue-trace-seed"])


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "nonsense",
        GIVEN[:-1],
        GIVEN + "-",
        GIVEN.upper(),
        "ff" + GIVEN[2:],
        "00-" + "0" * 32 + GIVEN[35:],
        GIVEN[:36] + "0" * 16 + "-01",
        "x" * 4_096,
        "\u00e9" * 55,
    ],
    ids=lambda text: text[:12],
)
def test_a_context_that_is_malformed_is_replaced_and_never_fatal(
    api: Api, name: Name, broken: str
) -> None:
    topic = api.create(name())
    headers = {"traceparent": broken, "tracestate": "a=1"}
    api.publish(topic, {"value": "v", "headers": headers})
    (message,) = api.read(topic)
    assert message["headers"] == headers, "what the sender wrote is kept"
    trace = api.get(f"/traces/{message['trace_id']}")
    assert (names(trace), trace["topic"]) == (PUBLISHED, topic)


def test_64_kib_of_state_are_the_error_of_that_message_alone(api: Api, name: Name) -> None:
    topic = api.create(name())
    parent, trace = given(0xABC)
    fits = {"value": "v", "headers": {"traceparent": parent, "tracestate": "s" * 4_096}}
    api.publish(topic, fits)
    assert names(api.get(f"/traces/{trace}")) == PUBLISHED
    larger = {"value": "v", "headers": {"traceparent": parent, "tracestate": "s" * 65_536}}
    answer = api.post(f"/topics/{topic}/messages", {"messages": [larger, {"value": "w"}]})
    assert [result.get("code") for result in answer["results"]] == ["message_invalid", None]


def test_the_context_of_a_request_is_that_of_messages_which_carry_none(
    api: Api, name: Name
) -> None:
    topic = api.create(name())
    (ours, our_trace), (theirs, their_trace) = given(0xA1), given(0xA2)
    body = (
        b'{"messages": [{"value": "a"}, {"value": "b", "headers": {"traceparent": "%s"}}]}'
        % theirs.encode()
    )
    sent = {"traceparent": ours, "tracestate": "vendor=1"}
    assert api.send("POST", f"/topics/{topic}/messages", body, sent).status == 200
    first, second = api.read(topic)
    assert (first["trace_id"], second["trace_id"]) == (our_trace, their_trace)
    assert first["headers"] == sent
    parents = {event["parent_span_id"] for event in api.get(f"/traces/{our_trace}")["events"]}
    assert parents == {"00f067aa0ba902b7"}


@pytest.mark.parametrize(
    "sent",
    [
        {"traceparent": "nonsense", "tracestate": "a=1"},
        {"tracestate": "a=1"},
        {"traceparent": GIVEN.upper()},
    ],
)
def test_a_malformed_context_of_a_request_is_as_good_as_none(
    api: Api, name: Name, sent: dict[str, str]
) -> None:
    topic = api.create(name())
    body = b'{"messages": [{"value": "a"}]}'
    assert api.send("POST", f"/topics/{topic}/messages", body, sent).status == 200
    (message,) = api.read(topic)
    assert "headers" not in message
    assert TRACE_ID.fullmatch(message["trace_id"])


def test_a_long_state_of_a_request_is_left_out(api: Api, name: Name) -> None:
    topic = api.create(name())
    parent, trace = given(0xA3)
    sent = {"traceparent": parent, "tracestate": "s" * 5_000}
    answer = api.send("POST", f"/topics/{topic}/messages", b'{"messages": [{"value": "a"}]}', sent)
    assert answer.status == 200
    (message,) = api.read(topic)
    assert (message["trace_id"], message["headers"]) == (trace, {"traceparent": parent})


def test_a_state_of_64_kib_in_a_request_is_told_so_and_harms_nobody(api: Api, name: Name) -> None:
    topic = api.create(name())
    sent = {"traceparent": GIVEN, "tracestate": "s" * 65_536}
    body = b'{"messages": [{"value": "a"}]}'
    refused = api.send("POST", f"/topics/{topic}/messages", body, sent)
    assert refused.status in {400, 431}
    api.publish(topic, "goes on")
    assert len(api.read(topic)) == 1


def test_raw_records_take_part(api: Api, name: Name) -> None:
    topic = api.create(name())
    (parent, trace), (request, request_trace) = given(0xB1), given(0xB2)
    batch = build(
        (Message(value=b"a", headers=(("traceparent", parent.encode()),)), Message(value=b"b"))
    )
    answer = api.send(
        "POST",
        f"/topics/{topic}/records?partition=0",
        bytes(batch),
        {"content-type": "application/vnd.goqueue.records", "traceparent": request},
    )
    assert answer.status == 200, answer
    assert [message["trace_id"] for message in api.read(topic)] == [trace, request_trace]
    assert names(api.get(f"/traces/{request_trace}")) == PUBLISHED


def test_nobody_can_claim_the_trace_of_another_message(api: Api, name: Name) -> None:
    """The header that says where a delayed message came from is the broker's alone."""
    topic = api.create(name())
    claim = {"value": "v", "headers": {"gq.delayed-from": "0"}}
    claims = {"messages": [claim]}
    assert api.refusal("POST", f"/topics/{topic}/messages", claims) == (400, "message_invalid")
    forged = rehead(build((Message(value=b"v"),)), 0, (("gq.delayed-from", b"0"),))
    answer = api.send("POST", f"/topics/{topic}/records?partition=0", bytes(forged))
    assert (answer.status, answer.code) == (400, "request_invalid")
    assert api.read(topic) == []


# The routes


def test_the_newest_come_first_and_all_are_counted(api: Api, name: Name) -> None:
    topic = api.create(name())
    for value in "abc":
        api.publish(topic, value)
    listed = api.get("/traces", limit=2)
    assert [each["offset"] for each in listed["traces"]] == [2, 1]
    assert listed["total"] > 2
    assert all(set(each) == SUMMARY for each in listed["traces"]), "pending ones have no end"
    assert len(api.get("/traces")["traces"]) <= 100


def test_a_trace_that_has_ended_says_when(api: Api, name: Name) -> None:
    topic = api.create(name())
    api.publish(topic, "a")
    (message,) = api.join(name(), topic).take(1)
    api.ack(message)
    trace = api.get(f"/traces/{message['trace_id']}")
    assert set(trace) == {*SUMMARY, "end_time", "events"}
    assert trace["status"] == "completed"
    assert trace["event_count"] == len(trace["events"]) == 5
    assert trace["end_time"] == trace["events"][-1]["timestamp"]
    assert trace["start_time"] == trace["events"][0]["timestamp"]
    assert trace["events"][-1]["details"]["delivery_count"] == 1


def test_a_search_by_every_criterion(api: Api, name: Name) -> None:
    topic, group = api.create(name(), 2), name()
    api.publish(
        topic,
        {"value": "a", "key": "k\u00e9y", "partition": 0},
        {"value": "b", "partition": 1},
    )
    member = api.join(group, topic)
    taken = {message["value"]: message for message in member.take(2)}
    api.ack(taken["a"])
    body = {"receipt_handle": taken["b"]["receipt_handle"], "reason": "bad"}
    api.post("/messages/reject", body)
    ours, theirs = taken["a"]["trace_id"], taken["b"]["trace_id"]
    start = api.get(f"/traces/{ours}")["start_time"]
    assert set(search(api, topic=topic, partition=0)) == {ours}
    assert set(search(api, topic=topic, partition=1, offset=0)) == {theirs}
    assert search(api, topic=topic, offset=1) == []
    assert search(api, key="k\u00e9y") == [ours]
    assert {ours, theirs} <= set(search(api, consumer_group=group))
    assert {ours, theirs} == set(search(api, consumer_id=member.id))
    assert search(api, topic=topic, status="completed", partition=0) == [ours]
    assert search(api, topic=topic, status="error") == [theirs]
    assert search(api, topic=f"{topic}.dlq", status="error") == [theirs]
    assert {ours, theirs} <= set(search(api, topic=topic, start=start))
    assert search(api, topic=topic, end="2020-01-01T00:00:00Z") == []
    assert search(api, topic=topic, start="2100-01-01T00:00:00+01:00") == []
    assert len(search(api, topic=topic, limit=1)) == 1
    assert api.get("/traces/search", topic=topic, limit=1)["total"] == 3


def test_counts_of_what_is_kept(api: Api, name: Name) -> None:
    api.publish(api.create(name()), "a")
    stats = api.get("/traces/stats")
    ended = stats["traces_completed"] + stats["traces_error"] + stats["traces_pending"]
    assert stats["traces_total"] == ended == api.get("/traces")["total"]
    assert (stats["sampling_rate"], stats["buffer_capacity"]) == (1.0, 10_000)
    assert 0 < stats["spans_in_buffer"] <= 10_000


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("/traces", {"limit": 0}, (400, "request_invalid")),
        ("/traces", {"limit": "many"}, (400, "request_invalid")),
        ("/traces/search", {"limit": 0}, (400, "request_invalid")),
        ("/traces/search", {"limit": -1}, (400, "request_invalid")),
        ("/traces/search", {"status": "lost"}, (400, "request_invalid")),
        ("/traces/search", {"partition": -1}, (400, "request_invalid")),
        ("/traces/search", {"offset": "x"}, (400, "request_invalid")),
        ("/traces/search", {"start": "yesterday"}, (400, "request_invalid")),
        (
            "/traces/search",
            {"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"},
            (400, "request_invalid"),
        ),
        ("/traces/search", {"topic": "no/name"}, (400, "name_invalid")),
        (f"/traces/{'0' * 31}", {}, (400, "request_invalid")),
        (f"/traces/{'0' * 33}", {}, (400, "request_invalid")),
        (f"/traces/{'A' * 32}", {}, (400, "request_invalid")),
        (f"/traces/{'g' * 32}", {}, (400, "request_invalid")),
        (f"/traces/{'0' * 32}", {}, (404, "trace_not_found")),
        (f"/traces/{'f' * 32}", {}, (404, "trace_not_found")),
        (f"/traces/{'0' * 31}1", {}, (404, "trace_not_found")),
    ],
)
def test_what_is_asked_wrongly_is_told(
    api: Api, path: str, query: Json, expected: tuple[int, str]
) -> None:
    assert api.refusal("GET", path, **query) == expected


def test_a_limit_beyond_all_is_cut(api: Api) -> None:
    assert len(api.get("/traces", limit=10**9)["traces"]) <= 1000


def test_a_start_that_is_the_end_is_a_moment(api: Api, name: Name) -> None:
    topic = api.create(name())
    api.publish(topic, "a")
    (found,) = api.get("/traces/search", topic=topic)["traces"]
    moment = found["start_time"]
    assert search(api, topic=topic, start=moment, end=moment) == [found["trace_id"]]


# Refusals, bounds, restarts


def test_a_refused_message_is_found_by_its_status(api: Api, name: Name) -> None:
    topic = api.create(name(), max_message_bytes=2048)
    parent, trace = given(0xC1)
    bad = {"value": "x" * 4096, "headers": {"traceparent": parent}}
    answer = api.post(f"/topics/{topic}/messages", {"messages": [{"value": "a"}, bad]})
    assert answer["results"][1]["code"] == "message_too_large"
    assert search(api, topic=topic, status="error") == [trace]
    found = api.get(f"/traces/{trace}")
    assert names(found) == ["publish.received", "publish.validation_failed"]
    assert found["events"][1]["details"] == {"topic": topic, "error": "message_too_large"}
    assert (found["partition"], found["offset"]) == (-1, -1)


def test_only_the_newest_ten_thousand_are_kept(
    mortal: ServerProcess, connect: Connect, name: Name
) -> None:
    api = connect(mortal)
    topic = api.create(name())
    for _ in range(12):
        api.publish(topic, *(["v"] * 1000))
    stats = api.get("/traces/stats")
    assert stats["spans_in_buffer"] == stats["traces_total"] == 10_000
    assert search(api, topic=topic, offset=1_999) == []
    assert len(search(api, topic=topic, offset=2_000)) == 1
    lost = api.read(topic, offset=0)[0]["trace_id"]
    assert api.refusal("GET", f"/traces/{lost}") == (404, "trace_not_found")


def test_a_trace_goes_on_after_a_kill(mortal: ServerProcess, connect: Connect, name: Name) -> None:
    api = connect(mortal)
    topic, group = api.create(name(), max_deliveries=1), name()
    api.publish(topic, {"value": "a", "delay": "1s"}, "b")
    mortal.kill()
    mortal.start()
    api = connect(mortal)
    member = api.join(group, topic)
    taken = {message["value"]: message for message in member.take(2)}
    for message in taken.values():
        api.post("/messages/reject", {"receipt_handle": message["receipt_handle"]})
    mortal.kill()
    mortal.start()
    api = connect(mortal)
    letters = {message["value"]: message["trace_id"] for message in api.read(f"{topic}.dlq")}
    assert letters == {value: message["trace_id"] for value, message in taken.items()}
    assert api.post(f"/topics/{topic}/dlq/redrive", {})["moved"] == 2
    for trace_id in letters.values():
        assert names(api.get(f"/traces/{trace_id}")) == ["dlq.redriven"]
