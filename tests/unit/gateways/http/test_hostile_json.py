"""Bodies that nobody sends by accident: each is a clean refusal, or read as the contract says."""

import msgspec
import pytest

from goqueue.model.requests import CreateTopic, LaneSettings, Publish, Redrive, TopicConfig
from tests.unit.gateways.http.refusing_broker import Client, RefusingBroker, code_of, read

DIGITS = b"1" + b"0" * 1_000_000
REFUSED = {
    "nothing in it": b" ",
    "no JSON": b"name=orders",
    "two values": b'{"name":"a"}{"name":"b"}',
    "cut off": b'{"name":"a"',
    "a list": b"[]",
    "a number": b"1",
    "null": b"null",
    "a byte order mark": b'\xef\xbb\xbf{"name":"a"}',
    "another encoding": '{"name":"a"}'.encode("utf-16"),
    "bytes that are no text": b'{"name":"\xff"}',
    "NaN": b'{"name":"a","retention_hours":NaN}',
    "infinity": b'{"name":"a","retention_hours":-Infinity}',
    "an unknown field that is no JSON": b'{"name":"a","x":NaN}',
    "a huge exponent": b'{"name":"a","retention_hours":1e999999}',
    "a million digits": b'{"name":"a","retention_hours":' + DIGITS + b"}",
    "a fraction for a whole number": b'{"name":"a","retention_hours":1.5}',
    "a truth for a number": b'{"name":"a","retention_hours":true}',
    "a text for a number": b'{"name":"a","retention_hours":"1"}',
    "a lone surrogate": b'{"name":"\\ud800"}',
    "a lone low surrogate": b'{"name":"\\udc00x"}',
    "a control character": b'{"name":"a\x00b"}',
    "no name": b'{"Name":"a"}',
    "a name that is null": b'{"name":null}',
    "a comment": b'{"name":"a"/**/}',
    "unknown fields": b'{"name":"a","colour":"blue","x":[{"y":[]}]}',
    "an unknown field that is null": b'{"name":"a","colour":null}',
    "a million digits that nobody reads": b'{"name":"a","x":' + DIGITS + b"}",
    "50,000 unknown keys": msgspec.json.encode(
        {"name": "a", **{f"k{n}": n for n in range(50_000)}}
    ),
    "a huge key": b'{"name":"a","' + b"k" * 500_000 + b'":1}',
    "brackets within text": b'{"name":"a","x":"' + b"[{" * 10_000 + b'"}',
    "quotes and backslashes within text": b'{"name":"a","x":"' + b'\\\\\\"[[' * 10_000 + b'"}',
    "100,000 levels of lists": b'{"name":"a","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "100,000 levels of objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "100,000 levels never closed": b"[" * 100_000,
}
TAKEN = {
    "a name given twice: the last": b'{"name":"b","name":"a"}',
    "nulls for what is absent": b'{"name":"a","retention_hours":null,"flush_policy":null}',
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_a_hostile_body_is_refused(body: bytes) -> None:
    client = Client()
    response = client.send("POST", "/topics", body)
    assert response.status == 400
    assert code_of(response) == "request_invalid"
    assert isinstance(client.broker, RefusingBroker)
    assert not client.broker.asked


@pytest.mark.parametrize("body", TAKEN.values(), ids=TAKEN.keys())
def test_an_odd_but_valid_body_is_read(body: bytes) -> None:
    client = Client()
    client.send("POST", "/topics", body)
    assert client.asked() == CreateTopic(name="a", chosen=())


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_a_hostile_publish_is_refused(body: bytes) -> None:
    response = Client().send("POST", "/topics/t/messages", body)
    assert response.status == 400
    assert code_of(response) == "request_invalid"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"name":"a","num_partitions":"3"}', "num_partitions"),
        (b'{"name":7}', "name"),
        (b"{}", "name"),
        (b'{"name":"a","visibility_timeout":{}}', "visibility_timeout"),
        (b'{"name":"a","visibility_timeout":-1}', "visibility_timeout"),
        (b'{"name":"a","visibility_timeout":"1 fortnight"}', "visibility_timeout"),
        (b'{"name":"a","cleanup_policy":"burn"}', "cleanup_policy"),
        (b'{"name":"a","num_partitions":0}', "num_partitions"),
        (b'{"name":"a","num_partitions":10001}', "num_partitions"),
    ],
)
def test_the_field_that_is_wrong_is_named(body: bytes, field: str) -> None:
    details = read(Client().send("POST", "/topics", body))["details"]
    assert isinstance(details, dict)
    assert details["field"] == field


def test_an_empty_body_stands_for_an_object_only_where_nothing_is_required() -> None:
    client = Client()
    client.send("POST", "/topics/t/dlq/redrive")
    assert client.asked() == Redrive(topic="t")
    assert Client().send("POST", "/topics").status == 400


def test_a_whole_number_may_be_written_as_a_float() -> None:
    client = Client()
    client.send(
        "POST", "/topics", b'{"name":"a","num_partitions":3.0,"priority_weights":[5.0,4,3,2,1e0]}'
    )
    lanes = LaneSettings(weights=(5, 4, 3, 2, 1))
    assert client.asked() == CreateTopic(
        name="a", config=TopicConfig(lanes=lanes), chosen=("priority_weights",)
    )


@pytest.mark.parametrize("number", [b"3.5", b"1e300", b"9007199254740993.0", b"-3.0"])
def test_a_float_that_is_no_whole_number_in_the_limits_is_refused(number: bytes) -> None:
    body = b'{"name":"a","num_partitions":' + number + b"}"
    response = Client().send("POST", "/topics", body)
    assert response.status == 400
    details = read(response)["details"]
    assert isinstance(details, dict)
    assert details["field"] == "num_partitions"


def test_text_that_looks_like_json_is_no_nesting() -> None:
    nested = "[" * 1000 + '{"a\\":"'
    client = Client()
    client.post("/topics/t/messages", {"messages": [{"value": nested}] * 3})
    assert isinstance(client.asked(), Publish)


@pytest.mark.parametrize("path", ["/groups/g/offsets", "/transactions/offsets"])
def test_a_commit_names_at_most_ten_thousand_positions(path: str) -> None:
    """A mebibyte of positions is looked up in one turn of the node."""
    owner = {"producer_id": 1, "epoch": 0, "transactional_id": "a", "group": "g"}
    more = owner if path.startswith("/transactions") else {}
    for count in (10_000, 10_001):
        positions = {f"t{n % 2}": {str(n): 1 for n in range(n % 2, count, 2)} for n in range(2)}
        response = Client().post(path, {**more, "offsets": positions})
        assert response.status == (503 if count == 10_000 else 400)
