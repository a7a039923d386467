"""One message's whole story, told alike by the API, the span file and an OTLP receiver."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from goqueue.model import parse_time
from goqueue.runtime.exporters.span_lines import SpanLine
from tests.integration.http_api import Api, Json
from tests.integration.server_process import ServerProcess, serving
from tests.integration.tracing.collectors import Receiver, receiving

GIVEN_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
GIVEN_SPAN = "00f067aa0ba902b7"
# When, what, in which span, below which.
Timeline = list[tuple[int, str, str, str]]

STORY = [
    ("publish.received", "orders"),
    ("publish.partitioned", "orders"),
    ("publish.persisted", "orders"),
    ("delay.scheduled", "orders"),
    ("delay.fired", "orders"),
    ("consume.fetched", "orders"),
    ("consume.nacked", "orders"),
    ("consume.fetched", "orders"),
    ("consume.nacked", "orders"),
    ("dlq.routed", "orders.dlq"),
    ("dlq.redriven", "orders"),
    ("consume.fetched", "orders"),
    ("consume.acked", "orders"),
]


def live(api: Api, headers: dict[str, str]) -> str:
    """Delayed, delivered, failed twice, dead, redriven, acked; the id of its trace."""
    api.create("orders", max_deliveries=2)
    api.publish("orders", {"value": "a", "delay": "200ms", "headers": headers})
    member = api.join("billing", "orders")
    (message,) = member.take(1)
    api.nack(message, delay="0s", reason="out of stock")
    (again,) = member.take(1)
    assert again["delivery_count"] == 2
    api.nack(again, delay="0s", reason="out of stock")
    (letter,) = letters(api)
    assert api.post("/topics/orders/dlq/redrive", {})["moved"] == 1
    (redriven,) = member.take(1)
    api.ack(redriven)
    traces = {each["trace_id"] for each in (message, again, letter, redriven)}
    assert len(traces) == 1
    return str(traces.pop())


def letters(api: Api) -> list[Json]:
    """Dead letters, as soon as there is one."""
    path = "/topics/orders.dlq/partitions/0/messages"
    messages: list[Json] = api.get(path, offset=0, wait="10s")["messages"]
    return messages


def told_by_api(api: Api, trace: str) -> tuple[Timeline, list[tuple[str, str]]]:
    found = api.get(f"/traces/{trace}")
    assert found["status"] == "completed"
    timeline = [
        (
            int(parse_time(event["timestamp"])),
            event["event_type"],
            event["span_id"],
            event.get("parent_span_id", ""),
        )
        for event in found["events"]
    ]
    return timeline, [(event["event_type"], event["details"]["topic"]) for event in found["events"]]


def told_by_file(path: Path, trace: str) -> Timeline:
    lines = [msgspec.json.decode(line, type=SpanLine) for line in path.read_bytes().splitlines()]
    return [
        (int(parse_time(event.timestamp)), event.event_type, line.span_id, line.parent_span_id)
        for line in lines
        if line.trace_id == trace
        for event in line.events
    ]


def told_by_receiver(receiver: Receiver, trace: str) -> Timeline:
    return [
        (at, name, span.span_id, span.parent_span_id)
        for span in receiver.spans()
        if span.trace_id == trace
        for at, name in span.events
    ]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("is_given", [False, True])
def test_one_trace_and_one_timeline_in_the_api_the_file_and_the_receiver(
    tmp_path: Path, protocol: str, is_given: bool, connect: Callable[[ServerProcess], Api]
) -> None:
    file = tmp_path / "spans.jsonl"
    with receiving(tmp_path, protocol) as receiver:
        scheme = "http://" if protocol == "http" else ""
        flags = ["--tracing-exporters", "file,otlp", "--tracing-file", str(file)]
        flags += ["--tracing-otlp-protocol", protocol]
        flags += ["--tracing-otlp-endpoint", f"{scheme}127.0.0.1:{receiver.port}"]
        with serving(tmp_path / "data", *flags) as node:
            api = connect(node)
            parent = {"traceparent": f"00-{GIVEN_TRACE}-{GIVEN_SPAN}-01"} if is_given else {}
            trace = live(api, parent)
            by_api, story = told_by_api(api, trace)
            assert node.stop() == 0
        by_file, by_receiver = told_by_file(file, trace), told_by_receiver(receiver, trace)
        spans = {each.span_id: each for each in receiver.spans() if each.trace_id == trace}
    assert story == STORY
    assert sorted(by_file) == sorted(by_receiver) == sorted(by_api)

    # It is one tree: all hang below the publication, or below what the producer had.
    roots = [each for each in spans.values() if each.parent_span_id not in spans]
    if is_given:
        assert trace == GIVEN_TRACE
        assert {each.parent_span_id for each in roots} == {GIVEN_SPAN}
    else:
        assert [each.name for each in roots] == ["send orders"]
    assert [each.name for each in spans.values()] == [
        "send orders",
        "fire orders",
        "receive orders",
        "nack orders",
        "receive orders",
        "nack orders",
        "dead_letter orders.dlq",
        "redrive orders",
        "receive orders",
        "ack orders",
    ]
    made = GIVEN_SPAN if is_given else roots[0].span_id
    for each in spans.values():
        if each.kind == "SPAN_KIND_CONSUMER":
            assert each.links == [(trace, made)]
