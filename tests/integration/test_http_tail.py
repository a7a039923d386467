"""The tail of a topic as server-sent events."""

import contextlib
import http.client
import json
import urllib.parse
from collections.abc import Callable, Iterator

import msgspec
import pytest

from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess, serving

Name = Callable[[], str]


class Event(msgspec.Struct, frozen=True):
    """One event as a browser dispatches it."""

    kind: str
    data: str
    last_id: str

    @property
    def value(self) -> str:
        return str(json.loads(self.data)["value"])

    @property
    def code(self) -> str:
        return str(json.loads(self.data)["code"])


class EventSource:
    """Reads a stream of events by the rules of browsers."""

    def __init__(self, url: str, path: str, last_id: str = "", **query: object) -> None:
        self.last_id = last_id
        self._client = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=60)
        headers = {"Last-Event-ID": last_id} if last_id else {}
        text = urllib.parse.urlencode(query)
        self._client.request("GET", f"{path}?{text}", headers=headers)
        self._response = self._client.getresponse()
        self.status = self._response.status
        assert self.status == 200, self._response.read()
        assert self._response.headers["Content-Type"] == "text/event-stream"

    def close(self) -> None:
        self._client.close()

    def __iter__(self) -> Iterator[Event]:
        kind, data = "message", list[str]()
        for raw in self._response:
            line = raw.decode().rstrip("\n")
            field, _, value = line.partition(": ")
            if field == "id":
                self.last_id = value
            elif field == "event":
                kind = value
            elif field == "data":
                data.append(value)
            elif not line and data:
                yield Event(kind, "\n".join(data), self.last_id)
                kind, data = "message", []
            elif not line:
                kind = "message"


Tail = Callable[..., EventSource]


@pytest.fixture
def tail(node: ServerProcess) -> Iterator[Tail]:
    with contextlib.ExitStack() as stack:

        def begin(topic: str, last_id: str = "", **query: object) -> EventSource:
            source = EventSource(node.url, f"/topics/{topic}/tail", last_id, **query)
            stack.callback(source.close)
            return source

        yield begin


def _values(events: list[Event]) -> list[str]:
    return [event.value for event in events if event.kind == "message"]


def test_what_is_published_comes_in_order_with_all_that_a_read_shows(
    api: Api, name: Name, tail: Tail
) -> None:
    topic = api.create(name())
    api.publish(topic, "before")
    events = iter(tail(topic, limit=2))
    api.publish(
        topic, {"value": "a\nb", "key": "k", "headers": {"h": "1"}}, {"value": "\x00\u2028"}
    )

    first, second = next(events), next(events)
    (read, other) = api.read(topic)[1:]
    assert json.loads(first.data) == read
    assert json.loads(second.data) == other
    assert next(events).code == "limit"
    assert next(events, None) is None


def test_a_tail_follows_all_partitions_and_resumes_each_where_the_last_event_left_it(
    api: Api, name: Name, tail: Tail
) -> None:
    topic = api.create(name(), partitions=3)
    for number in range(9):
        api.publish(topic, {"value": str(number), "partition": number % 3})

    first = list(tail(topic, **{"from": "earliest"}, limit=4))[:-1]
    rest = list(tail(topic, first[-1].last_id, **{"from": "latest"}, limit=5))[:-1]
    assert sorted(_values(first + rest)) == list("012345678")


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"from": "earliest", "limit": 4}, ["0", "1", "2", "3"]),
        ({"partition": 0, "offset": 2, "limit": 2}, ["2", "3"]),
        ({"last": 1, "limit": 1}, ["3"]),
        ({"last": 100_000, "limit": 4}, ["0", "1", "2", "3"]),
        ({"since": "1h", "limit": 4}, ["0", "1", "2", "3"]),
        ({"since": "2020-01-01T00:00:00+01:00", "limit": 1}, ["0"]),
        ({"from": "earliest", "key": "odd", "limit": 2}, ["1", "3"]),
        ({"from": "earliest", "header": "n:2", "limit": 1}, ["2"]),
        ({"from": "earliest", "header": "odd", "limit": 2}, ["1", "3"]),
        ({"from": "earliest", "key": "odd", "header": "n:3", "limit": 1}, ["3"]),
        ({"from": "earliest", "key": "none", "timeout": "50ms"}, []),
    ],
)
def test_a_tail_begins_where_it_is_told_to_and_shows_what_it_is_asked_for(
    api: Api, name: Name, tail: Tail, query: dict[str, object], wanted: list[str]
) -> None:
    topic = api.create(name())
    for number in range(4):
        headers = {"n": str(number)} | ({"odd": "yes"} if number % 2 else {})
        key = "odd" if number % 2 else "even"
        api.publish(topic, {"value": str(number), "key": key, "headers": headers})

    *messages, end = tail(topic, **query)
    assert _values(messages) == wanted
    assert end.kind == "end"


def test_messages_of_open_and_aborted_transactions_are_not_shown(
    api: Api, name: Name, tail: Tail
) -> None:
    topic = api.create(name())
    named = name()
    producer = api.post("/producers/init", {"transactional_id": named})
    begun = api.post("/transactions/begin", {**producer, "transactional_id": named})
    authored = {**producer, "topic": topic, "value": "aborted"}
    api.post("/transactions/publish", authored)
    api.publish(topic, "after")
    *shown, _ = tail(topic, **{"from": "earliest"}, timeout="50ms")
    assert _values(shown) == []

    api.post("/transactions/abort", {**begun, **producer, "transactional_id": named})
    *shown, _ = tail(topic, **{"from": "earliest"}, limit=1)
    assert _values(shown) == ["after"]
    *shown, _ = tail(topic, **{"from": "earliest"}, isolation="read_uncommitted", limit=2)
    assert _values(shown) == ["aborted", "after"]


def test_a_tail_ends_with_its_topic(api: Api, name: Name, tail: Tail) -> None:
    topic = api.create(name())
    events = iter(tail(topic, **{"from": "earliest"}))
    api.publish(topic, "a")
    assert next(events).value == "a"
    api.do("DELETE", f"/topics/{topic}")

    end = next(events)
    assert (end.kind, end.code) == ("end", "topic_not_found")
    assert next(events, None) is None


def test_a_tail_ends_with_the_node(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving(tmp_path_factory.mktemp("tail")) as node:
        with contextlib.closing(Api(node.url)) as api:
            api.create("orders")
        events = iter(EventSource(node.url, "/topics/orders/tail"))
        node.stop()
        end = next(events)
    assert (end.kind, end.code) == ("end", "broker_unavailable")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("last=1&since=1m", "since"),
        ("offset=1", "offset"),
        ("since=soon", "since"),
        ("header=:x", "header"),
        ("from=now", "from"),
        ("limit=0", "limit"),
        ("filter=x", "filter"),
    ],
)
def test_a_tail_that_makes_no_sense_is_refused_before_it_begins(
    api: Api, name: Name, query: str, field: str
) -> None:
    topic = api.create(name())
    refused = api.send("GET", f"/topics/{topic}/tail?{query}")
    assert (refused.status, refused.body["details"]["field"]) == (400, field)


@pytest.mark.parametrize(
    "last_id", ["x", "-1", "1,", "9" * 30, "9" * 19, "99999999999999999999", "1" * 5000]
)
def test_an_id_of_no_event_is_refused(
    node: ServerProcess, api: Api, name: Name, last_id: str
) -> None:
    topic = api.create(name())
    client = http.client.HTTPConnection(urllib.parse.urlsplit(node.url).netloc, timeout=60)
    client.request("GET", f"/topics/{topic}/tail", headers={"Last-Event-ID": last_id})
    refused = client.getresponse()
    assert (refused.status, json.loads(refused.read())["code"]) == (400, "request_invalid")
    client.close()


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_client_of_a_topic_that_was_created_again_gets_its_messages(
    api: Api, name: Name, tail: Tail, partitions: int
) -> None:
    topic = api.create(name())
    api.publish(topic, "a", "b", "c")
    seen = list(tail(topic, **{"from": "earliest"}, limit=3))[-1].last_id
    api.send("DELETE", f"/topics/{topic}")
    api.create(topic, partitions=partitions)
    api.publish(topic, {"value": "new", "partition": 0})

    events = list(tail(topic, seen, limit=1))
    assert [event.kind for event in events] == ["reset"] * partitions + ["message", "end"]
    assert _values(events) == ["new"]
    again = iter(tail(topic, events[-1].last_id, limit=1))
    api.publish(topic, {"value": "newer", "partition": 0})
    assert next(again).value == "newer"


def test_topics_and_partitions_that_do_not_exist_are_refused(api: Api, name: Name) -> None:
    assert api.send("GET", f"/topics/{name()}/tail").code == "topic_not_found"
    topic = api.create(name())
    assert api.send("GET", f"/topics/{topic}/tail?partition=7").code == "partition_not_found"


def test_a_topic_of_many_partitions_is_followed_one_at_a_time(
    api: Api, name: Name, tail: Tail
) -> None:
    topic = api.create(name(), partitions=101)
    assert api.send("GET", f"/topics/{topic}/tail").body["details"]["field"] == "partition"
    api.publish(topic, {"value": "a", "partition": 100})
    assert _values(list(tail(topic, partition=100, offset=0, limit=1))) == ["a"]


def test_a_head_begins_no_tail(api: Api, name: Name) -> None:
    answer = api.send("HEAD", f"/topics/{api.create(name())}/tail")
    assert answer.status == 200
