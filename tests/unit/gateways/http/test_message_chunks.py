"""Large publish bodies are read in steps, and nobody sees a difference but those who wait."""

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.gateways.http.delay_limits import DelayLimits
from goqueue.gateways.http.json_chunks import finished
from goqueue.gateways.http.publish_decoder import PublishBatch, decode_publish, intake_steps
from goqueue.model import HOUR, Refused
from goqueue.records import decode, walk
from tests.examples import examples
from tests.unit.gateways.http.refusing_broker import NOW, Client, code_of

HORIZON = DelayLimits(NOW, HOUR)
MIB = 1024 * 1024
BODY_BYTES = 16 * MIB - 100


def steps_of(body: bytes) -> tuple[int, PublishBatch]:
    """How many steps a body takes, and what it comes to."""
    steps = intake_steps(body, HORIZON)
    count = 0
    while True:
        count += 1
        try:
            next(steps)
        except StopIteration as done:
            return count, done.value


def filled(head: bytes, unit: bytes, tail: bytes, size: int = BODY_BYTES) -> bytes:
    return head + unit * ((size - len(head) - len(tail)) // len(unit)) + tail


def values_of(intake: PublishBatch) -> list[bytes | None]:
    return [decode(intake.batch, at).value for at in walk(intake.batch).positions]


# Texts that look like what stands between messages, or like the end of them.
TRICKS = ["},{", "}, {", '"},{"', "\\", '\\"', "\\\\", "]}", "é", "LONG", '{"value":""},', ""]
messages = st.fixed_dictionaries(
    {"value": st.none() | st.lists(st.sampled_from(TRICKS), max_size=6).map("".join)},
    optional={
        "key": st.sampled_from(["k", "},{", '"']),
        "headers": st.dictionaries(st.sampled_from(["a", "},{", "{"]), st.sampled_from(TRICKS[:8])),
        "partition": st.sampled_from([0, 1.0, -1, "x"]),
        "delay": st.sampled_from(["1s", "soon"]),
        "deliver_at": st.just("2023-11-14T22:30:00Z"),
        "colour": st.sampled_from([[{"a": 1}, {"b": [{}, {}]}], "},{", None]),
    },
)
layouts = st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 2}])


@given(st.lists(messages, min_size=1, max_size=12), layouts)
@settings(max_examples=examples(60), deadline=None)
def test_a_body_in_chunks_is_read_as_one_that_is_read_whole(
    given: list[dict[str, Any]], layout: dict[str, Any]
) -> None:
    small = [{**each, "value": "a"} for each in given]
    for each in given:
        each["value"] = each["value"] and each["value"].replace("LONG", "x" * 40_000)
    filler = [{"value": "f" * 30_000}] * 5
    whole = decode_publish(json.dumps({"messages": small}).encode(), HORIZON)
    large = decode_publish(json.dumps({"messages": [*filler, *given]}, **layout).encode(), HORIZON)

    assert large.count == whole.count + 5
    assert {index - 5: each.code for index, each in large.refused.items()} == {
        index: each.code for index, each in whole.refused.items()
    }
    taken = [each for index, each in enumerate(given) if index not in whole.refused]
    texts = [None if each["value"] is None else each["value"].encode() for each in taken]
    assert values_of(large)[5:] == texts
    if whole.dues is not None:
        assert large.dues is not None
        assert large.dues[5:] == whole.dues


def test_ten_thousand_messages_take_many_steps_and_keep_their_order() -> None:
    body = msgspec.json.encode({"messages": [{"value": f"{n:0100}"} for n in range(10_000)]})

    count, intake = steps_of(body)

    assert count > len(body) // (64 * 1024)
    assert values_of(intake) == [b"%0100d" % number for number in range(10_000)]


def test_messages_that_must_be_read_for_themselves_take_more_steps() -> None:
    wrong = [{"value": "", f"dealy{number}": 1} for number in range(10_000)]
    count, intake = steps_of(msgspec.json.encode({"messages": wrong}))
    assert len(intake.refused) == 10_000
    assert count > 20


def test_a_message_as_large_as_the_body_is_taken() -> None:
    value = '},{"' * (BODY_BYTES // 8)
    count, intake = steps_of(msgspec.json.encode({"messages": [{"value": value}]}))
    assert values_of(intake) == [value.encode()]
    assert count > 100


HOSTILE = {
    "headers": (b'{"messages":[{"value":"","headers":{"a":""', b',"a":""', b"}}]}"),
    "fields": (b'{"messages":[{"value":""', b',"value":""', b"}]}"),
    "messages without a value": (b'{"messages":[{}', b",{}", b"]}"),
    "messages": (b'{"messages":[{"value":""}', b',{"value":""}', b"]}"),
    "numbers": (b'{"messages":[1', b",1", b"]}"),
    "texts": (b'{"messages":[""', b',""', b"]}"),
    "lists": (b'{"messages":[[]', b",[]", b"]}"),
    "numbers in a field": (b'{"messages":[{"value":"","x":[1', b",1", b"]}]}"),
    "objects in a field": (b'{"messages":[{"value":"","x":[{}', b",{}", b"]}]}"),
    "quotes": (b'{"messages":[{"value":""', b'""', b"}]}"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_sixteen_mebibytes_of_tiny_things_are_refused_after_a_few_pieces(name: str) -> None:
    """Before, all of them were made, or taken apart, before their number was looked at."""
    steps = intake_steps(filled(*HOSTILE[name]), HORIZON)
    with pytest.raises(Refused, match="request_invalid"):
        list(itertools.islice(steps, 5))


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_deep_body_is_refused(opening: bytes) -> None:
    body = filled(b'{"messages":[{"value":"","x":', opening, b"}]}")
    with pytest.raises(Refused):
        finished(intake_steps(body, HORIZON))


@pytest.mark.parametrize(
    "body",
    [
        filled(b'{"mesages":[{"value":"', b"x", b'"}]}', 200_000),
        filled(b'{"messages":[{"value":"', b"x", b'"}],"x":1}', 200_000),
        filled(b'{"messages":[{"value":"', b"x", b'"}]', 200_000),
        filled(b'{"messages":[{"value":"', b"x", b'"},]}', 200_000),
        filled(b'{"messages":[{"value":"', b"x", b'"},,{"value":""}]}', 200_000),
        filled(b'{"messages":[{"value":"', b"x", b"}]}", 200_000),
        filled(b'{"messages":[', b" ", b"]}", 200_000),
        filled(b'{"messages":{"value":"', b"x", b'"}}', 200_000),
        filled(b'["messages",[{"value":"', b"x", b'"}]]', 200_000),
        b" " * 200_000,
        b"\\" * 200_000,
    ],
    ids=lambda body: f"{body[:12]!r} to {body[-12:]!r}",
)
def test_a_large_body_that_is_no_list_of_messages_is_refused(body: bytes) -> None:
    response = Client().send("POST", "/topics/t/messages", body)
    assert (response.status, code_of(response)) == (400, "request_invalid")


@pytest.mark.parametrize("headers", [b',"a":""', b',"x":[1]'])
def test_one_message_of_a_producer_with_a_million_values_is_refused(headers: bytes) -> None:
    head = b'{"producer_id":1,"epoch":0,"topic":"t","value":"","headers":{"a":""'
    response = Client().send("POST", "/transactions/publish", filled(head, headers, b"}}"))
    assert (response.status, code_of(response)) == (400, "request_invalid")
