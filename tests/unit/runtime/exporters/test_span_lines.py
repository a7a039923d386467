"""Lines of span files: their form is promised, so it is written out here."""

import json
import re
from array import array
from pathlib import Path

import msgspec
import pytest

from goqueue.records import DelayedRecords
from goqueue.runtime.exporters.span_lines import WORDS, SpanLine, encode_line
from goqueue.tracing import Kind
from tests.unit.runtime.exporters.trace_entries import GIVEN, entry, spans

REFERENCE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "span-files.md"


def test_a_line_of_a_delivery_has_exactly_these_fields() -> None:
    made = entry(
        kind=Kind.FETCH,
        first=7,
        given={0: GIVEN},
        attempts=(3,),
        group="billing",
        group_number=4,
        member="c-1",
    )
    (span,) = spans(made)
    line = encode_line(span, "node-1")
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "trace_id": "0102030405060708090a0b0c0d0e0f10",
        "span_id": f"{span.span_id:016x}",
        "parent_span_id": f"{span.parent:016x}",
        "name": "consume",
        "kind": "consumer",
        "topic": "orders",
        "partition": 2,
        "offset": 7,
        "start_time": "1970-01-01T00:00:00.000001Z",
        "end_time": "1970-01-01T00:00:00.0000025Z",
        "events": [
            {"timestamp": "1970-01-01T00:00:00.0000025Z", "event_type": "consume.fetched"},
        ],
        "node_id": "node-1",
        "consumer_group": "billing",
        "consumer_id": "c-1",
        "delivery_count": 3,
    }


def test_a_publication_tells_when_its_message_is_due_and_a_dead_letter_where_it_lies() -> None:
    delayed = entry(
        waiting=DelayedRecords(array("q", [0]), array("q", [9_000_000_000]), array("B", [3]))
    )
    line = json.loads(encode_line(spans(delayed)[0], "n"))
    assert "parent_span_id" not in line
    assert line["deliver_at"] == "1970-01-01T00:00:09Z"
    assert [event["event_type"] for event in line["events"]] == [
        "publish.received",
        "publish.partitioned",
        "publish.persisted",
        "delay.scheduled",
    ]
    letter = entry(kind=Kind.DEAD_LETTER, given={0: GIVEN}, detail="max_retries")
    line = json.loads(encode_line(spans(letter)[0], "n"))
    assert (line["dlq_topic"], line["error"]) == ("orders", "max_retries")


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_span_has_its_words(kind: Kind) -> None:
    (span,) = spans(entry(kind=kind, group="g", attempts=(1,)))
    line = msgspec.json.decode(encode_line(span, "n"), type=SpanLine)
    assert line.name == WORDS[kind].name
    assert f"| `{line.name}` |" in REFERENCE.read_text()


def test_the_reference_names_every_field_and_no_other() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| (?:always|where)", REFERENCE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(SpanLine.__struct_fields__)


def test_reasons_that_callers_give_stay_within_their_line() -> None:
    (span,) = spans(entry(kind=Kind.NACK, attempts=(1,), detail='a\n"b"\u2028\x00'))
    line = encode_line(span, "n")
    assert line.count(b"\n") == 1
    assert json.loads(line)["error"] == 'a\n"b"\u2028\x00'
