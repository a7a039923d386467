"""`acks` on every route that publishes: how it is read, refused and answered."""

import pytest

from goqueue.model import Code, Message, Offset, Refused, Timestamp
from goqueue.model.requests import Acks, Placed, Publish, Published
from goqueue.records import build
from tests.unit.gateways.http.answering_broker import AnsweringBroker, send
from tests.unit.gateways.http.refusing_broker import NOW, Client, RefusingBroker, read

ONE = {"messages": [{"value": "v"}]}
PRODUCER = {"producer_id": 7, "epoch": 2, "topic": "t", "value": "v"}
RECORDS = bytes(build([Message(value=b"v")]))


def asked(path: str, body: object) -> Publish:
    client = Client()
    response = (
        client.send("POST", path, body) if isinstance(body, bytes) else client.post(path, body)
    )
    assert response.status == 503, response.body
    command = client.asked()
    assert isinstance(command, Publish)
    return command


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/topics/t/messages", ONE),
        ("/topics/t/records", RECORDS),
        ("/transactions/publish", PRODUCER),
    ],
)
@pytest.mark.parametrize("acks", list(Acks))
def test_every_route_that_publishes_takes_acks_and_waits_for_all_without(
    path: str, body: object, acks: Acks
) -> None:
    assert asked(f"{path}?acks={acks.value}", body).acks is acks
    assert asked(path, body).acks is Acks.ALL


@pytest.mark.parametrize(
    "given",
    ["", "0", "1", "-1", "ALL", "quorum", "all,none", "none%00", "%F0%9F%92%A5", "all&acks=none"],
)
@pytest.mark.parametrize(
    ("path", "body"), [("/topics/t/messages", ONE), ("/topics/t/records", RECORDS)]
)
def test_any_other_word_is_refused_and_nothing_is_published(
    path: str, body: object, given: str
) -> None:
    client = Client()
    target = f"{path}?acks={given}"
    response = (
        client.send("POST", target, body) if isinstance(body, bytes) else client.post(target, body)
    )
    assert response.status == 400, response.body
    assert read(response)["code"] == "request_invalid"
    assert isinstance(client.broker, RefusingBroker)
    assert not client.broker.asked


def unconfirmed(targets: list[int], *placed: Placed) -> Published:
    return Published(targets=targets, placed=placed, timestamp=Timestamp(NOW), is_unconfirmed=True)


def test_without_acks_a_result_has_a_partition_and_no_offset() -> None:
    refused = Placed(partition=1, first=Offset(0), count=0, refused=Code.STORAGE_FULL)
    broker = AnsweringBroker(unconfirmed([0, 1, 0], refused))
    messages = [{"value": "a"}, {"value": "b"}, {"value": "c", "delay": "5s"}]
    response = send(broker, "POST", "/topics/t/messages?acks=none", {"messages": messages})

    assert response.status == 200
    results = read(response)["results"]
    assert isinstance(results, list)
    first, second, third = results
    assert set(first) == {"partition", "timestamp", "priority"}
    assert (first["partition"], second["code"]) == (0, "storage_full")
    assert set(third) == {"partition", "timestamp", "priority", "delayed", "deliverAt"}


def test_without_acks_raw_records_are_counted_by_partition_and_have_no_offset() -> None:
    refused = Placed(partition=1, first=Offset(0), count=1, refused=Code.STORAGE_FULL)
    broker = AnsweringBroker(unconfirmed([0, 1, 0], refused))
    body = bytes(build([Message(value=b"v")] * 3))
    results = read(send(broker, "POST", "/topics/t/records?acks=none", body))["results"]
    assert isinstance(results, list)
    assert results[0] == {"partition": 0, "count": 2}
    assert (results[1]["partition"], results[1]["code"]) == (1, "storage_full")


def test_a_producer_that_waits_for_nothing_is_refused_by_the_broker_in_words() -> None:
    reason = "must be `leader` or `all` for a producer with an id"
    refused = Refused(Code.REQUEST_INVALID, field="acks", reason=reason)
    response = send(AnsweringBroker(refused), "POST", "/transactions/publish?acks=none", PRODUCER)
    assert response.status == 400
    assert "acks" in str(read(response)["error"])
