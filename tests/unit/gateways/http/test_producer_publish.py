"""One message published by a producer: how it is read, refused and answered."""

import msgspec
import pytest

from goqueue.model import SECOND, Code, LogId, Message, Offset, Refused, Timestamp, format_time
from goqueue.model.requests import (
    Isolation,
    Placed,
    ProducerStamp,
    Publish,
    Published,
    Read,
    Records,
)
from goqueue.records import Flag, build, decode, stamp
from tests.unit.gateways.http.answering_broker import AnsweringBroker, send
from tests.unit.gateways.http.refusing_broker import NOW, Client, RefusingBroker, code_of, read

MINUTE = 60 * SECOND
MESSAGE = {"producer_id": 7, "epoch": 2, "topic": "t", "value": "v"}


def publish(fields: dict[str, object]) -> Publish:
    client = Client()
    response = client.post("/transactions/publish", {**MESSAGE, **fields})
    assert response.status == 503, response.body
    command = client.asked()
    assert isinstance(command, Publish)
    return command


def test_one_message_is_published_with_all_its_parts_and_its_producer() -> None:
    command = publish(
        {
            "key": "aw==",
            "value": "AAH/",
            "encoding": "base64",
            "headers": {"a": "b"},
            "priority": "HIGH",
            "partition": 4,
            "sequence": 9,
        }
    )
    assert command.producer == ProducerStamp(producer_id=7, epoch=2, sequence=9)
    assert (command.topic, command.targets, command.is_whole) == ("t", [4], True)
    assert command.dues is None
    record = decode(command.batch)
    assert (record.key, record.value, record.priority) == (b"k", b"\x00\x01\xff", 1)
    assert record.headers == (("a", b"b"),)


def test_without_a_partition_the_key_decides_and_nothing_is_deduplicated() -> None:
    command = publish({"value": None, "partition": None, "sequence": None})
    assert command.targets is None
    assert command.producer == ProducerStamp(producer_id=7, epoch=2)
    assert decode(command.batch).value is None


def test_a_delayed_message_is_flagged_and_its_time_is_told() -> None:
    command = publish({"value": "later", "delay": "1m"})
    assert command.dues == [NOW + MINUTE]
    assert decode(command.batch).flags & Flag.DELAYED


@pytest.mark.parametrize(
    ("fields", "code", "status"),
    [
        ({"value": 5}, "message_invalid", 400),
        ({"key": ["k"]}, "message_invalid", 400),
        ({"partition": "0"}, "message_invalid", 400),
        ({"partition": True}, "message_invalid", 400),
        ({"partition": 2**31}, "partition_not_found", 404),
        ({"priority": "urgent"}, "message_invalid", 400),
        ({"priority": 5}, "message_invalid", 400),
        ({"encoding": "hex", "value": "00"}, "message_invalid", 400),
        ({"encoding": "base64", "value": "%"}, "message_invalid", 400),
        ({"headers": {"gq.batch": "1,0,0,1,1"}}, "message_invalid", 400),
        ({"headers": {str(number): "" for number in range(65)}}, "message_invalid", 400),
        ({"key": "gq.txn"}, "message_invalid", 400),
        ({"delay": "1m", "deliverAt": "2030-01-01T00:00:00Z"}, "message_invalid", 400),
        ({"delay": "-1s"}, "message_invalid", 400),
        ({"delay": "9999h"}, "delay_too_long", 400),
    ],
)
def test_what_is_wrong_with_the_message_is_the_answer_and_counted(
    fields: dict[str, object], code: str, status: int
) -> None:
    client = Client()
    response = client.post("/transactions/publish", {**MESSAGE, **fields})
    assert (response.status, code_of(response)) == (status, code)
    assert isinstance(client.broker, RefusingBroker)
    assert client.broker.asked == [Publish(topic="t", batch=bytearray(), refused={Code(code): 1})]


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'{"a":1}{}', b"[" * 100])
def test_what_is_no_object_is_refused_as_a_request(body: bytes) -> None:
    response = Client().send("POST", "/transactions/publish", body)
    assert (response.status, code_of(response)) == (400, "request_invalid")


def test_a_body_may_be_as_large_as_those_of_the_publish_routes() -> None:
    api = Client().api
    assert api.resolve("POST", b"/transactions/publish").body_bytes_max == 16 * 1024 * 1024
    assert api.resolve("POST", b"/transactions/begin").body_bytes_max == 1024 * 1024


def placed(**fields: object) -> Published:
    whole = {"partition": 3, "first": Offset(12), "count": 1, **fields}
    return Published(
        targets=[3], placed=(msgspec.convert(whole, Placed),), timestamp=Timestamp(NOW)
    )


PLACE = {"partition": 3, "offset": 12}


def test_a_message_is_told_where_it_went() -> None:
    answer = read(send(AnsweringBroker(placed()), "POST", "/transactions/publish", MESSAGE))
    assert answer == {**PLACE, "timestamp": format_time(NOW), "duplicate": False}


def test_a_delayed_message_is_told_when_it_is_due() -> None:
    body = {**MESSAGE, "delay": 60}
    answer = read(send(AnsweringBroker(placed()), "POST", "/transactions/publish", body))
    assert answer == {
        **PLACE,
        "timestamp": format_time(NOW),
        "duplicate": False,
        "delayed": True,
        "deliverAt": format_time(NOW + MINUTE),
    }


def test_a_refusal_of_the_partition_is_the_answer() -> None:
    broker = AnsweringBroker(placed(refused=Code.STORAGE_FULL))
    response = send(broker, "POST", "/transactions/publish", MESSAGE)
    assert (response.status, code_of(response)) == (507, "storage_full")


def stored(message: Message, at: int) -> Records:
    batch = build([message])
    stamp(batch, 12, at)
    return Records(
        log=LogId("t", 3),
        offset=Offset(12),
        high_watermark=Offset(99),
        stable=Offset(0),
        start=Offset(0),
        upto=Offset(13),
        data=(memoryview(batch).toreadonly(),),
    )


def test_a_duplicate_is_told_what_the_first_one_was_told() -> None:
    due = NOW + 30 * SECOND
    headers = (("gq.batch", b"7,2,0,1,1"), ("gq.deliver-at", b"%d" % due))
    first = stored(Message(value=b"v", headers=headers, is_delayed=True), NOW - MINUTE)
    broker = AnsweringBroker(placed(is_duplicate=True), first)
    body = {**MESSAGE, "delay": "90s", "partition": 3, "sequence": 0}
    answer = read(send(broker, "POST", "/transactions/publish", body))
    assert answer == {
        **PLACE,
        "timestamp": format_time(NOW - MINUTE),
        "duplicate": True,
        "delayed": True,
        "deliverAt": format_time(due),
    }
    reading = broker.asked[1]
    assert isinstance(reading, Read)
    assert reading.isolation is Isolation.READ_UNCOMMITTED


@pytest.mark.parametrize("code", [Code.RECORDS_DAMAGED, Code.TOPIC_NOT_FOUND])
def test_a_duplicate_whose_record_is_gone_is_still_told_its_place(code: Code) -> None:
    broker = AnsweringBroker(placed(is_duplicate=True), Refused(code))
    answer = read(send(broker, "POST", "/transactions/publish", MESSAGE))
    assert answer == {**PLACE, "timestamp": format_time(NOW), "duplicate": True}


@pytest.mark.parametrize("is_duplicate", [False, True])
def test_records_are_told_that_they_are_duplicates_only_if_they_are(*, is_duplicate: bool) -> None:
    broker = AnsweringBroker(placed(is_duplicate=is_duplicate))
    target = "/topics/t/records?partition=3&producer_id=1&epoch=0"
    records = msgspec.Raw(build([Message(value=b"v")]))
    expected = {"partition": 3, "count": 1, "base_offset": 12}
    if is_duplicate:
        expected["duplicate"] = True
    assert read(send(broker, "POST", target, records))["results"] == [expected]
