"""Publish requests: each message stands for itself, and what is taken becomes exact records."""

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.gateways.http.delay_limits import DelayLimits
from goqueue.gateways.http.publish import answer_results
from goqueue.gateways.http.publish_decoder import PublishBatch, decode_plain, decode_publish
from goqueue.model import HOUR, Code, Offset, Refused, Timestamp
from goqueue.model.requests import Placed, Publish, Published
from goqueue.records import Unroutable, decode, verify, walk
from tests.unit.gateways.http.answering_broker import AnsweringBroker, send
from tests.unit.gateways.http.refusing_broker import NOW, Client, code_of, read

HORIZON = DelayLimits(NOW, HOUR)


def take(*messages: object) -> PublishBatch:
    return decode_publish(msgspec.json.encode({"messages": messages}), HORIZON)


def only_record(message: object) -> object:
    intake = take(message)
    assert not intake.refused
    return decode(intake.batch)


def refusal(message: object) -> tuple[str, str]:
    """Code and sentence of a message that is refused while its neighbours are taken."""
    intake = take({"value": "before"}, message, {"value": "after"})
    assert list(intake.refused) == [1]
    values = [decode(intake.batch, at).value for at in walk(intake.batch).positions]
    assert values == [b"before", b"after"]
    return intake.refused[1].code, intake.refused[1].error


# Messages as clients send them, and with anything about them that is not plain, or wrong.
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "value": st.none() | st.text(max_size=20) | st.just(7),
        "key": st.none() | st.text(max_size=5) | st.sampled_from(["gq.a", "k"]),
        "partition": st.none() | st.integers(-1, 3),
        "headers": st.none() | st.just({}) | st.just({"a": "b"}),
        "priority": st.none() | st.sampled_from(["low", 1, "no"]),
        "encoding": st.none() | st.just("base64"),
        "delay": st.none() | st.just("5s"),
        "deliver_at": st.none() | st.just("2030-01-01T00:00:00Z"),
        "unknown": st.just(1),
    },
)


@example([{"value": "hello"}])
@example([{"value": None, "key": "k"}])
@example([{"value": "\u00e9" * 600}])
@given(st.lists(MESSAGES, max_size=2))
def test_a_plain_message_is_read_as_every_other_way_of_reading_would(
    messages: list[dict[str, object]],
) -> None:
    body = msgspec.json.encode({"messages": messages})
    plain = decode_plain(body)
    is_plain = len(messages) == 1 and all(
        text is None or (name in {"value", "key"} and isinstance(text, str) and text != "gq.a")
        for name, text in messages[0].items()
        if name != "unknown"
    )
    if not is_plain or "unknown" in messages[0] or "value" not in messages[0] or len(body) > 1024:
        # `deliver_at` is another name of a field, and is not looked for here.
        assert plain is None
    elif "deliver_at" not in messages[0]:
        assert plain == decode_publish(body, HORIZON)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"messages":[]}', b'{"messages":', b"\xff"])
def test_what_is_no_publish_request_is_no_plain_message(body: bytes) -> None:
    assert decode_plain(body) is None


def test_a_message_becomes_one_record_with_all_its_parts() -> None:
    record = decode(
        take(
            {
                "key": "user-é",
                "value": "hello",
                "priority": "HIGH",
                "headers": {"a": "1", "b": ""},
                "partition": 2,
            }
        ).batch
    )
    assert (record.key, record.value, record.priority) == ("user-é".encode(), b"hello", 1)
    assert record.headers == (("a", b"1"), ("b", b""))
    assert (record.offset, record.timestamp) == (0, 0)


@pytest.mark.parametrize("message", [{"value": None}, {"value": None, "key": None}])
def test_a_value_that_is_null_is_a_null_value(message: object) -> None:
    assert decode(take(message).batch).value is None


def test_an_empty_value_is_not_a_null_value() -> None:
    assert decode(take({"value": ""}).batch).value == b""


def test_base64_is_for_key_and_value_alike() -> None:
    encoded = {
        "key": base64.b64encode(b"\xff").decode(),
        "value": base64.b64encode(b"\x00\xfe").decode(),
        "encoding": "base64",
    }
    record = decode(take(encoded).batch)
    assert (record.key, record.value) == (b"\xff", b"\x00\xfe")


@pytest.mark.parametrize(("given", "number"), [("critical", 0), ("Low", 3), (4, 4), (None, 2)])
def test_a_priority_is_a_name_in_any_case_or_a_number(given: object, number: int) -> None:
    assert decode(take({"value": "a", "priority": given}).batch).priority == number


def test_headers_are_counted_before_any_of_them_is_looked_at() -> None:
    wrong = {"n" * 250: "x", "gq.codec": "zstd"}
    headers = {**wrong, **{f"n{number}": "" for number in range(500)}}
    code, reason = refusal({"value": "a", "headers": headers})
    assert code == "message_invalid"
    assert "at most 64 headers" in reason


def test_a_message_of_very_many_headers_is_refused_before_one_of_them_is_decoded() -> None:
    with pytest.raises(Refused) as refused:
        take({"value": "a", "headers": {f"n{number}": "" for number in range(100_000)}})
    assert refused.value.code is Code.REQUEST_INVALID
    assert refused.value.facts["reason"] == "a message holds more than 1000 values"


@pytest.mark.parametrize(
    "message",
    [
        {"value": 1},
        {"value": ["a"]},
        {"key": {}},
        {"value": "a", "priority": 5},
        {"value": "a", "priority": -1},
        {"value": "a", "priority": "urgent"},
        {"value": "a", "priority": 1.5},
        {"value": "a", "priority": True},
        {"value": "a", "encoding": "hex"},
        {"value": "a===", "encoding": "base64"},
        {"value": "YQ\n==", "encoding": "base64"},
        {"value": "YQ=", "encoding": "base64"},
        {"value": "é", "encoding": "base64"},
        {"value": "a", "headers": {"": "x"}},
        {"value": "a", "headers": {"n" * 250: "x"}},
        {"value": "a", "headers": {"é" * 125: "x"}},
        {"value": "a", "headers": {"n": "x" * 4097}},
        {"value": "a", "headers": {"n": 1}},
        {"value": "a", "headers": ["n"]},
        {"value": "a", "headers": {f"n{number}": "" for number in range(65)}},
        {"value": "a", "headers": {"gq.codec": "zstd"}},
        {"value": "a", "headers": {"gq.deliver-at": "1"}},
        {"value": "a", "key": "gq.control"},
        {"value": "a", "delay": "-1s"},
        {"value": "a", "delay": "soon"},
        {"value": "a", "delay": -1},
        {"value": "a", "delay": True},
        {"value": "a", "deliverAt": "tomorrow"},
        {"value": "a", "delay": "0s", "deliverAt": "2020-01-01T00:00:00Z"},
        {"value": "a", "partition": "1"},
        "text",
        17,
        None,
        ["value"],
    ],
    ids=repr,
)
def test_what_is_wrong_with_a_message_is_the_error_of_that_message_only(message: object) -> None:
    code, error = refusal(message)
    assert code == "message_invalid"
    assert error.startswith("The message is not valid: ")


def test_a_whole_float_is_a_partition() -> None:
    intake = take({"value": "a", "partition": 1.0}, {"value": "b"})
    assert not intake.refused
    assert intake.targets == [1, -1]


def test_partitions_are_checked_where_no_topic_can_have_them() -> None:
    assert refusal({"value": "a", "partition": -1})[0] == "partition_invalid"
    assert refusal({"value": "a", "partition": 2**31})[0] == "partition_not_found"


def test_a_key_that_no_record_can_hold_is_too_large() -> None:
    assert refusal({"value": "a", "key": "k" * 65_536})[0] == "message_too_large"


def test_targets_are_left_out_where_nobody_chose_one() -> None:
    assert take({"value": "a"}, {"value": "b"}).targets is None
    assert take({"value": "a"}, {"value": "b", "partition": 7}).targets == [-1, 7]


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"messages": None},
        {"messages": {}},
        {"messages": "a"},
        {"messages": []},
        {"messages": [{}] * 10_001},
        {"messages": [1] * 10_001},
    ],
    ids=lambda body: str(body)[:30],
)
def test_a_request_whose_messages_cannot_be_told_apart_is_refused_as_a_whole(body: object) -> None:
    with pytest.raises(Refused) as refused:
        decode_publish(msgspec.json.encode(body), HORIZON)
    assert refused.value.code is Code.REQUEST_INVALID


def test_ten_thousand_messages_are_taken() -> None:
    intake = take(*[{"value": "a"}] * 10_000)
    assert intake.count == verify(intake.batch) == 10_000


def test_the_broker_is_asked_even_if_no_message_could_be_taken() -> None:
    client = Client()
    client.post("/topics/t/messages", {"messages": [{"value": 1}]})
    command = client.asked()
    assert isinstance(command, Publish)
    assert not command.batch


# ---- results -------------------------------------------------------------------------------


def results(intake: PublishBatch, published: Published) -> list[dict[str, object]]:
    body: Any = read(answer_results(intake, published))
    listed: list[dict[str, object]] = body["results"]
    return listed


def test_results_come_in_request_order_with_consecutive_offsets_per_partition() -> None:
    intake = take({"value": "a"}, {"value": "b", "priority": 0}, {"value": 1}, {"value": "c"})
    published = Published(
        targets=[1, 0, 1],
        placed=(
            Placed(partition=0, first=Offset(7), count=1),
            Placed(partition=1, first=Offset(40), count=2),
        ),
        timestamp=Timestamp(NOW + 5),
    )
    at = "2023-11-14T22:13:20.000000005Z"
    first, second, failed, third = results(intake, published)
    assert first == {"partition": 1, "offset": 40, "timestamp": at, "priority": "normal"}
    assert second == {"partition": 0, "offset": 7, "timestamp": at, "priority": "critical"}
    assert set(failed) == {"error", "code"}
    assert third == {"partition": 1, "offset": 41, "timestamp": at, "priority": "normal"}


@pytest.mark.parametrize(
    ("why", "code"),
    [
        (Unroutable.TOO_LARGE, "message_too_large"),
        (Unroutable.NO_KEY, "message_invalid"),
        (Unroutable.NO_PARTITION, "partition_not_found"),
        (Unroutable.BAD_PARTITION, "partition_invalid"),
        (Unroutable.RESERVED, "message_invalid"),
    ],
)
def test_what_the_broker_cannot_place_has_its_error_and_nothing_else(
    why: Unroutable, code: str
) -> None:
    placed = (Placed(partition=0, first=Offset(0), count=1),)
    published = Published(targets=[why, 0], placed=placed, timestamp=NOW)
    failed, taken = results(take({"value": "a"}, {"value": "b"}), published)
    assert failed["code"] == code
    assert set(failed) == {"error", "code"}
    assert taken["offset"] == 0


def test_every_reason_of_the_broker_is_known() -> None:
    for why in Unroutable:
        published = Published(targets=[int(why)], placed=(), timestamp=NOW)
        assert results(take({"value": "a"}), published)[0]["code"]


def test_a_partition_that_took_nothing_fails_its_messages_only() -> None:
    placed = (
        Placed(partition=0, first=Offset(0), count=0, refused=Code.STORAGE_FULL),
        Placed(partition=1, first=Offset(5), count=1),
    )
    published = Published(targets=[0, 1], placed=placed, timestamp=NOW)
    failed, taken = results(take({"value": "a"}, {"value": "b"}), published)
    assert failed["code"] == "storage_full"
    assert taken["offset"] == 5


def test_a_wrong_topic_fails_the_request() -> None:
    response = Client().post("/topics/a%20b/messages", {"messages": [{"value": "a"}]})
    assert (response.status, code_of(response)) == (400, "name_invalid")
    assert read(response)["details"] == {"field": "topic"}


def full(*codes: Code | None) -> Published:
    """One message for each partition, stored or not."""
    return Published(
        targets=list(range(len(codes))),
        placed=tuple(
            Placed(partition=number, first=Offset(0), count=1, refused=code)
            for number, code in enumerate(codes)
        ),
        timestamp=NOW,
    )


def test_a_request_of_which_nothing_was_stored_has_the_status_of_its_first_error() -> None:
    broker = AnsweringBroker(full(Code.STORAGE_FULL, Code.STORAGE_FAILED))
    messages = {"messages": [{"value": "a"}, {"value": "b"}]}

    response = send(broker, "POST", "/topics/orders/messages", messages)

    body: Any = read(response)
    assert response.status == body["status"] == 507
    assert body["code"] == "storage_full"
    assert body["error"] == body["results"][0]["error"]
    assert [each["code"] for each in body["results"]] == ["storage_full", "storage_failed"]


def test_a_request_of_which_something_was_stored_succeeds() -> None:
    broker = AnsweringBroker(full(Code.STORAGE_FULL, None))
    messages = {"messages": [{"value": "a"}, {"value": "b"}]}

    response = send(broker, "POST", "/topics/orders/messages", messages)

    assert response.status == 200
    assert set(read(response)) == {"results"}


def test_a_request_without_a_message_that_can_be_taken_is_refused() -> None:
    broker = AnsweringBroker(Published(targets=[], placed=(), timestamp=NOW))

    response = send(broker, "POST", "/topics/orders/messages", {"messages": [{"value": 1}, 7]})

    assert response.status == 400
    assert read(response)["code"] == "message_invalid"


def test_the_broker_is_told_how_many_messages_were_refused_for_what() -> None:
    client = Client()
    wrong: list[object] = [{"value": 1}, {"key": "k"}, {"value": "a", "partition": -1}]
    client.post("/topics/t/messages", {"messages": [{"value": "a"}, *wrong]})
    asked = client.asked()
    assert isinstance(asked, Publish)
    assert asked.refused == {Code.MESSAGE_INVALID: 2, Code.PARTITION_INVALID: 1}
    client = Client()
    client.post("/topics/t/messages", {"messages": [{"value": "a"}]})
    asked = client.asked()
    assert isinstance(asked, Publish)
    assert asked.refused is None
