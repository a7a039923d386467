"""Publishing and reading through the API, as JSON and as stored records."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from goqueue.model import Message
from goqueue.records import build, decode, scan
from tests.integration.http_api import Answer, Api, Json, values_of
from tests.integration.server_process import ServerProcess

Name = Callable[[], str]
Connect = Callable[[ServerProcess], Api]
PRODUCERS = 8
MESSAGES = 500


def test_concurrent_producers_lose_nothing_and_repeat_nothing(
    node: ServerProcess, api: Api, connect: Connect, name: Name
) -> None:
    topic = api.create(name(), partitions=4)

    def produce(number: int) -> dict[tuple[int, int], str]:
        client = clients[number]
        placed = {}
        for turn in range(MESSAGES):
            value = f"{number}-{turn}"
            (result,) = client.publish(topic, {"value": value, "key": str(turn % 7)})
            placed[result["partition"], result["offset"]] = value
        return placed

    clients = [connect(node) for _ in range(PRODUCERS)]
    with ThreadPoolExecutor(PRODUCERS) as threads:
        shares = list(threads.map(produce, range(PRODUCERS)))
    promised = {place: value for share in shares for place, value in share.items()}
    assert len(promised) == PRODUCERS * MESSAGES

    found = {
        (partition, message["offset"]): message["value"]
        for partition in range(4)
        for message in api.read(topic, partition)
    }
    assert found == promised
    described = api.get(f"/topics/{topic}")
    assert described["total_messages"] == PRODUCERS * MESSAGES
    for partition in range(4):
        offsets = sorted(offset for number, offset in found if number == partition)
        assert offsets == list(range(len(offsets)))


def test_each_failing_message_fails_alone(api: Api, name: Name) -> None:
    topic = api.create(name(), partitions=2, max_message_bytes=1024)
    cases: list[tuple[Json | int, str | None]] = [
        ({"value": "first", "partition": 0}, None),
        ({"value": "x", "partition": 2}, "partition_not_found"),
        ({"value": "x", "partition": -1}, "partition_invalid"),
        ({"value": "x", "priority": "urgent"}, "message_invalid"),
        ({"value": "x", "priority": 5}, "message_invalid"),
        ({"value": "not base64!", "encoding": "base64"}, "message_invalid"),
        ({"value": "x", "encoding": "rot13"}, "message_invalid"),
        ({"value": 7}, "message_invalid"),
        (7, "message_invalid"),
        ({"value": "x", "headers": {"a": 1}}, "message_invalid"),
        ({"value": "x", "headers": {str(i): "" for i in range(65)}}, "message_invalid"),
        ({"value": "x", "headers": {"n" * 250: ""}}, "message_invalid"),
        ({"value": "x" * 1025}, "message_too_large"),
        ({"value": "x" * 1000, "key": "k" * 25}, "message_too_large"),
        ({"value": "x", "delay": -1}, "message_invalid"),
        ({"value": "x", "deliverAt": "yesterday"}, "message_invalid"),
        ({"value": "x", "dealy": "10s"}, "message_invalid"),
        ({"key": "k", "payload": "x"}, "message_invalid"),
        ({"key": "k"}, "message_invalid"),
        ({"value": "last", "partition": 0, "delay": "0s"}, None),
    ]
    body = {"messages": [message for message, _ in cases]}
    results = api.post(f"/topics/{topic}/messages", body)["results"]
    assert [result.get("code") for result in results] == [code for _, code in cases]
    assert all(set(result) == {"error", "code"} for result in results if "code" in result)
    assert [results[0]["offset"], results[-1]["offset"]] == [0, 1]
    assert values_of(api.read(topic)) == ["first", "last"]


@pytest.mark.parametrize("body", [{}, {"messages": []}, {"messages": {}}, {"messages": None}])
def test_a_publish_without_messages_is_refused(api: Api, name: Name, body: Json) -> None:
    topic = api.create(name())
    refused = api.refusal("POST", f"/topics/{topic}/messages", body)
    assert refused == (400, "request_invalid")


def test_what_was_published_comes_back_as_it_was(api: Api, name: Name) -> None:
    topic = api.create(name())
    sent: list[Json] = [
        {"value": "", "headers": {"h": "ä"}},
        {"value": None, "key": "k"},
        {"value": "é\u0000\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")},
        {"value": "AP8=", "key": "/w==", "encoding": "base64", "priority": "CRITICAL"},
        {"value": "eA==", "encoding": "base64", "priority": 4},
    ]
    api.publish(topic, *sent)
    empty, null, text, binary, plain = api.read(topic)
    assert (empty["value"], empty["headers"]["h"], "key" in empty) == ("", "ä", False)
    assert (null["value"], null["key"]) == (None, "k")
    assert text["value"] == sent[2]["value"]
    assert (binary["value"], binary["key"], binary["encoding"]) == ("AP8=", "/w==", "base64")
    assert binary["priority"] == "critical"
    assert (plain["value"], "encoding" in plain, plain["priority"]) == ("x", False, "background")


@pytest.mark.parametrize(("key", "partition"), [("a", 2), ("user-100", 3), ("order-123", 1)])
def test_keys_go_where_the_hash_sends_them(api: Api, name: Name, key: str, partition: int) -> None:
    topic = api.create(name(), partitions=6)
    (result,) = api.publish(topic, {"value": "v", "key": key})
    assert result["partition"] == partition


def test_messages_without_a_key_take_turns(api: Api, name: Name) -> None:
    topic = api.create(name(), partitions=3)
    api.publish(topic, *["v"] * 4)
    api.publish(topic, *["v"] * 5)
    offsets = api.get(f"/topics/{topic}")["partition_offsets"]
    assert [offsets[str(number)]["latest"] for number in range(3)] == [2, 2, 2]


def test_next_offset_is_where_to_go_on(api: Api, name: Name) -> None:
    topic = api.create(name())
    path = f"/topics/{topic}/partitions/0/messages"
    assert api.get(path) == {"messages": [], "next_offset": 0}
    results = api.publish(topic, *map(str, range(5)))
    page = api.get(path, limit=2)
    assert (values_of(page["messages"]), page["next_offset"]) == (["0", "1"], 2)
    page = api.get(path, offset=2, limit=1000)
    assert (values_of(page["messages"]), page["next_offset"]) == (["2", "3", "4"], 5)
    assert api.get(path, offset=5) == {"messages": [], "next_offset": 5}
    assert api.get(path, offset=50) == {"messages": [], "next_offset": 50}
    timed = api.get(path, timestamp=results[0]["timestamp"], limit=1)
    assert values_of(timed["messages"]) == ["0"]
    assert api.get(path, timestamp="2200-01-01T00:00:00Z")["messages"] == []
    both = api.refusal("GET", path, None, offset=1, timestamp=results[0]["timestamp"])
    assert both == (400, "request_invalid")


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ({"offset": -2}, (400, "request_invalid")),
        ({"offset": 2**63}, (400, "request_invalid")),
        ({"limit": 0}, (400, "request_invalid")),
        ({"limit": "many"}, (400, "request_invalid")),
        ({"wait": "soon"}, (400, "request_invalid")),
        ({"wait": "-1s"}, (400, "request_invalid")),
        ({"isolation": "none"}, (400, "request_invalid")),
        ({"timestamp": "today"}, (400, "request_invalid")),
    ],
)
def test_a_read_with_impossible_parameters_is_refused(
    api: Api, name: Name, query: Json, refusal: tuple[int, str]
) -> None:
    topic = api.create(name())
    path = f"/topics/{topic}/partitions/0/messages"
    assert api.refusal("GET", path, None, **query) == refusal


def test_a_read_stops_near_four_mebibytes(api: Api, name: Name) -> None:
    topic = api.create(name())
    for _ in range(2):
        api.publish(topic, *["v" * 900_000] * 5)
    path = f"/topics/{topic}/partitions/0/messages"
    page = api.ask("GET", path)
    assert 1 <= len(page.body["messages"]) < 10
    assert page.body["next_offset"] == len(page.body["messages"])
    assert len(page.content) < 6_000_000
    assert len(api.read(topic)) == 10


# ---- stored records ------------------------------------------------------------------------


def post_records(api: Api, topic: str, data: bytes, query: str = "") -> Answer:
    return api.send("POST", f"/topics/{topic}/records{query}", data)


def batch(*values: str) -> bytes:
    return bytes(build([Message(key=b"", value=value.encode()) for value in values]))


def test_records_go_in_and_come_out_as_they_are(api: Api, name: Name) -> None:
    topic = api.create(name(), partitions=2)
    answer = post_records(api, topic, batch("a", "b", "c"), "?partition=1")
    assert (answer.status, answer.body["results"]) == (
        200,
        [{"partition": 1, "base_offset": 0, "count": 3}],
    )
    path = f"/topics/{topic}/partitions/1/records"
    got = api.send("GET", f"{path}?offset=1")
    assert got.headers["content-type"] == "application/vnd.goqueue.records"
    assert got.headers["goqueue-next-offset"] == "3"
    assert got.headers["goqueue-high-watermark"] == "3"
    assert got.headers["goqueue-last-stable-offset"] == "3"
    assert got.headers["goqueue-log-start"] == "0"
    columns = scan(got.content).columns
    records = [decode(got.content, position) for position in columns.positions]
    assert [record.value for record in records if record.offset >= 1] == [b"b", b"c"]
    assert all(record.timestamp > 0 for record in records)
    assert values_of(api.read(topic, 1)) == ["a", "b", "c"]

    nothing = api.send("GET", f"{path}?offset=3")
    assert (nothing.status, nothing.content) == (200, b"")
    assert nothing.headers["goqueue-next-offset"] == "3"
    one = api.send("GET", f"{path}?max_bytes=1")
    assert len(scan(one.content).columns.positions) == 1
    assert one.headers["goqueue-next-offset"] == "1"


def test_records_without_a_partition_are_routed_by_their_keys(api: Api, name: Name) -> None:
    topic = api.create(name(), partitions=6)
    keys = ["a", "user-100", "a", "order-123"]
    data = build([Message(key=key.encode(), value=b"v") for key in keys])
    answer = post_records(api, topic, bytes(data))
    placed = {entry["partition"]: entry["count"] for entry in answer.body["results"]}
    assert placed == {2: 2, 3: 1, 1: 1}


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def test_one_bad_record_refuses_all(api: Api, name: Name) -> None:
    topic = api.create(name())
    good = batch("a")
    bodies = {
        "cut": good[:-1],
        "flipped": flipped(good),
        "second flipped": good + flipped(good),
        "garbage behind": good + b"garbage",
        "not records": b"{}" * 40,
        "empty": b"",
    }
    for what, body in bodies.items():
        answer = post_records(api, topic, body)
        assert (answer.status, answer.code) == (400, "request_invalid"), what
    position = post_records(api, topic, good + flipped(good)).body["details"]["position"]
    assert position == len(good)
    assert api.read(topic) == []


@pytest.mark.parametrize(
    ("target", "refusal"),
    [
        ("partitions/0/records?offset=1", (400, "offset_out_of_range")),
        ("partitions/0/records?offset=-2", (400, "request_invalid")),
        ("partitions/0/records?max_bytes=0", (400, "request_invalid")),
        ("partitions/7/records", (404, "partition_not_found")),
        ("partitions/-1/records", (400, "partition_invalid")),
        ("partitions/x/records", (400, "request_invalid")),
    ],
)
def test_reading_records_that_are_not_there_is_refused(
    api: Api, name: Name, target: str, refusal: tuple[int, str]
) -> None:
    topic = api.create(name())
    answer = api.send("GET", f"/topics/{topic}/{target}")
    assert (answer.status, answer.code) == refusal


def test_records_for_a_partition_that_is_not_there_are_refused(api: Api, name: Name) -> None:
    topic = api.create(name())
    answer = post_records(api, topic, batch("a"), "?partition=1")
    assert (answer.status, answer.code) == (404, "partition_not_found")
    answer = post_records(api, name(), batch("a"))
    assert (answer.status, answer.code) == (404, "topic_not_found")
    assert api.read(topic) == []


def test_a_purge_with_conditions_is_refused(api: Api, name: Name) -> None:
    """There are none: whoever sends some does not mean all messages."""
    topic = api.create(name())
    api.publish(topic, "kept")
    refusal = api.refusal("DELETE", f"/topics/{topic}/messages", {"before": "7d"})

    assert refusal[1] == "request_invalid"
    assert len(api.read(topic)) == 1
