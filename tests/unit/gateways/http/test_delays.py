"""Delayed messages at the edge: when each is due, what the broker is asked, what is answered."""

import asyncio
from typing import Any

import msgspec
import pytest

from goqueue.gateways import NodeFacts
from goqueue.gateways.http import ApiLimits, HttpApi
from goqueue.gateways.http.delay_limits import DelayLimits
from goqueue.gateways.http.publish import answer_results
from goqueue.gateways.http.publish_decoder import PublishBatch, decode_publish
from goqueue.gateways.http.server.application import HttpRequest
from goqueue.model import (
    HOUR,
    MILLISECOND,
    SECOND,
    Caller,
    Code,
    Facts,
    LogId,
    Message,
    Offset,
    Timestamp,
)
from goqueue.model.requests import (
    CancelDelayed,
    Command,
    DelayedDescription,
    DelayedList,
    DelayState,
    DelayStatistics,
    DescribeDelays,
    Done,
    FindDelayed,
    ListDelayed,
    Placed,
    Publish,
    Published,
    Reply,
)
from goqueue.records import Flag, build, decode, verify, walk
from tests.unit.gateways.http.refusing_broker import (
    LOCAL,
    NOW,
    Client,
    RefusingBroker,
    code_of,
    read,
)

HORIZON = DelayLimits(NOW, HOUR)
MINUTE = 60 * SECOND
MINUTE_LATER = "2023-11-14T22:14:20Z"


def take(*messages: object) -> PublishBatch:
    return decode_publish(msgspec.json.encode({"messages": messages}), HORIZON)


def refusal(message: object) -> tuple[str, str]:
    """Code and sentence of a message that is refused while its neighbours are taken."""
    intake = take({"value": "before"}, message, {"value": "after"})
    assert list(intake.refused) == [1]
    values = [decode(intake.batch, at).value for at in walk(intake.batch).positions]
    assert values == [b"before", b"after"]
    assert intake.dues is None
    return intake.refused[1].code, intake.refused[1].error


# Messages in JSON


@pytest.mark.parametrize(
    ("fields", "delay_ns"),
    [
        ({"delay": "1ns"}, 1),
        ({"delay": "1.5s"}, 1500 * MILLISECOND),
        ({"delay": "1h"}, HOUR),
        ({"delay": 5}, 5 * SECOND),
        ({"delay": 0.25}, 250 * MILLISECOND),
        ({"delay": 3600}, HOUR),
        ({"deliverAt": MINUTE_LATER}, MINUTE),
        ({"deliverAt": "2023-11-15T00:14:20+02:00"}, MINUTE),
        ({"deliverAt": "2023-11-14T22:13:20.000000001Z"}, 1),
        ({"deliverAt": "2023-11-14T23:13:20Z"}, HOUR),
        # A client whose clock is ahead of the node's, or that asked it for the time.
        ({"deliverAt": "2023-11-14T23:14:20Z"}, HOUR + MINUTE),
    ],
)
def test_a_delayed_message_is_a_flagged_record_that_names_its_time(
    fields: dict[str, object], delay_ns: int
) -> None:
    intake = take({"value": "a", "key": "k", "headers": {"x": "y"}, "priority": 1, **fields})
    assert not intake.refused
    assert intake.dues == [NOW + delay_ns]
    assert verify(intake.batch) == 1
    record = decode(intake.batch)
    assert record.flags & Flag.DELAYED
    assert (record.key, record.value, record.priority) == (b"k", b"a", 1)
    assert record.headers == (("x", b"y"), ("gq.deliver-at", b"%d" % (NOW + delay_ns)))


@pytest.mark.parametrize(
    "fields",
    [
        {"delay": "0s"},
        {"delay": 0},
        {"delay": None, "deliverAt": None},
        {"deliverAt": "2023-11-14T22:13:20Z"},
        {"deliverAt": "1970-01-01T00:00:00Z"},
        {"deliverAt": "0001-01-01T00:00:00Z"},
    ],
)
def test_a_message_that_is_due_already_is_an_ordinary_one(fields: dict[str, object]) -> None:
    intake = take({"value": "a", **fields})
    assert not intake.refused
    assert intake.dues is None
    assert decode(intake.batch) == decode(take({"value": "a"}).batch)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"delay": "1s", "deliverAt": MINUTE_LATER}, "not both"),
        ({"delay": "0s", "deliverAt": "1970-01-01T00:00:00Z"}, "not both"),
        ({"delay": "-1s"}, "`delay`: must not be negative"),
        ({"delay": -0.5}, "not be negative"),
        ({"delay": "NaN"}, "`delay`: must be a duration"),
        ({"delay": "inf"}, "`delay`: must be a duration"),
        ({"delay": "5 minutes"}, "`delay`: must be a duration"),
        ({"delay": "5"}, "`delay`: must be a duration"),
        ({"delay": ""}, "`delay`: must be a duration"),
        ({"delay": "9999999999h"}, "292 years"),
        ({"delay": True}, "not true or false"),
        ({"delay": ["5s"]}, "not a list"),
        ({"delay": {"seconds": 5}}, "object"),
        ({"deliverAt": "tomorrow"}, "`deliverAt`: not a time"),
        ({"deliverAt": "2023-11-14T22:14:20"}, "`deliverAt`: not a time"),
        ({"deliverAt": "2023-02-30T00:00:00Z"}, "no such day"),
        ({"deliverAt": "99999-01-01T00:00:00Z"}, "`deliverAt`: not a time"),
        ({"deliverAt": "\u0661\u0662\u0663\u0664-01-01T00:00:00Z"}, "`deliverAt`: not a time"),
        ({"deliverAt": 1_700_000_060}, "must be text, not a whole number"),
        ({"deliverAt": True}, "not true or false"),
        ({"delay": "1s", "priority": 9}, "`priority` must be"),
        ({"delay": "1s", "priority": "urgent"}, "`priority` must be"),
        ({"delay": "1s", "priority": True}, "not true or false"),
        ({"delay": "1s", "headers": {"gq.deliver-at": "1"}}, "reserved"),
        ({"delay": "1s", "encoding": ""}, "must be `base64`"),
        ({"delay": "1s", "key": "gq.k"}, "reserved"),
        ({"headers": {"gq.delayed-from": "1"}}, "reserved"),
    ],
)
def test_a_time_that_cannot_be_meant_is_the_error_of_that_message(
    fields: dict[str, object], words: str
) -> None:
    code, error = refusal({"value": "a", **fields})
    assert code == "message_invalid"
    assert words in error


@pytest.mark.parametrize(
    "fields",
    [
        {"delay": "1h0m0.000000001s"},
        {"delay": "192h"},
        {"delay": 3601},
        {"delay": 1e300},
        {"deliverAt": "2023-11-14T23:14:20.000000001Z"},
        {"deliverAt": "2262-01-01T00:00:00Z"},
        {"deliverAt": "9999-12-31T23:59:59Z"},
        {"deliverAt": "9996-02-29T00:00:00Z"},
    ],
)
def test_a_delay_beyond_the_limit_is_the_error_of_that_message(fields: dict[str, object]) -> None:
    code, error = refusal({"value": "a", **fields})
    assert code == "delay_too_long"
    assert "1h0m0s" in error


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_a_number_that_json_does_not_have_delays_nothing(number: bytes) -> None:
    body = b'{"messages":[{"value":"a","delay":%s}]}' % number
    client = Client()
    client.send("POST", "/topics/t/messages", body)
    assert isinstance(client.broker, RefusingBroker)
    assert all(isinstance(each, Publish) and not each.batch for each in client.broker.asked)


def test_dues_stand_beside_the_messages_that_were_taken() -> None:
    intake = take(
        {"value": "a"},
        {"value": "b", "delay": "8d"},
        {"value": "c", "delay": "1s", "partition": 1},
        {"value": "d", "delay": "0s"},
        {"value": "e", "deliverAt": MINUTE_LATER},
    )
    assert list(intake.refused) == [1]
    assert intake.dues == [0, NOW + SECOND, 0, NOW + MINUTE]
    assert intake.targets == [-1, 1, -1, -1]


def test_the_result_of_a_delayed_message_says_when() -> None:
    intake = take({"value": "a"}, {"value": "b", "delay": "1m"}, {"value": "c", "delay": "1m"})
    published = Published(
        targets=[0, 0, -4],
        placed=(Placed(partition=0, first=Offset(7), count=2),),
        timestamp=NOW,
    )
    listed: Any = read(answer_results(intake, published))["results"]
    plain = {"partition": 0, "offset": 7, "timestamp": "2023-11-14T22:13:20Z", "priority": "normal"}
    assert listed[0] == plain
    assert listed[1] == {**plain, "offset": 8, "delayed": True, "deliverAt": MINUTE_LATER}
    assert listed[2]["code"] == "partition_not_found"
    assert "delayed" not in listed[2]


def test_the_limit_of_the_node_is_the_one_that_counts() -> None:
    for limit_ns, is_taken in ((SECOND, True), (SECOND - 1, False), (0, False)):
        client = Client(limits=ApiLimits(delay_ns_max=limit_ns))
        client.post("/topics/t/messages", {"messages": [{"value": "a", "delay": "1s"}]})
        command = client.asked()
        assert isinstance(command, Publish)
        assert command.dues == ([NOW + SECOND] if is_taken else None)
        assert bool(command.batch) is is_taken


# Records in their stored bytes


def later(due: int | bytes, *headers: tuple[str, bytes]) -> bytes:
    value = due if isinstance(due, bytes) else b"%d" % due
    return bytes(build([Message(value=b"v", headers=(*headers, ("gq.deliver-at", value)))]))


def asked(body: bytes) -> Publish:
    client = Client(limits=ApiLimits(delay_ns_max=HOUR))
    client.send("POST", "/topics/t/records", body)
    command = client.asked()
    assert isinstance(command, Publish)
    return command


PLAIN = bytes(build([Message(value=b"gq.", key=b"k")]))


def test_a_record_with_the_header_becomes_delayed_and_stays_valid() -> None:
    command = asked(PLAIN + later(NOW + MINUTE, ("a", b"b")) + PLAIN + later(NOW + HOUR) + PLAIN)
    assert command.dues == [0, NOW + MINUTE, 0, NOW + HOUR, 0]
    assert verify(command.batch) == 5
    delayed = [bool(flags & Flag.DELAYED) for flags in walk(command.batch).flags]
    assert delayed == [False, True, False, True, False]


@pytest.mark.parametrize("due", [0, 1, int(NOW) - 1, int(NOW), b"0000"])
def test_a_record_that_is_due_already_is_published_as_it_is(due: int | bytes) -> None:
    command = asked(later(due) + PLAIN)
    assert command.dues is None
    assert command.batch == later(due) + PLAIN


@pytest.mark.parametrize(
    "record",
    [
        later(b""),
        later(b"soon"),
        later(b"-1"),
        later(b"+5"),
        later(b" 5"),
        later(b"1.5"),
        later(b"1e18"),
        later("\u0661".encode()),
        later(b"9" * 5000),
        later(NOW + HOUR + MINUTE + 1),
        later(b"9" * 19),
        later(NOW + MINUTE, ("gq.deliver-at", b"1")),
        later(NOW + MINUTE, ("gq.delayed-from", b"1")),
    ],
)
def test_a_body_with_a_time_that_cannot_be_meant_is_refused_as_a_whole(record: bytes) -> None:
    client = Client(limits=ApiLimits(delay_ns_max=HOUR))
    response = client.send("POST", "/topics/t/records", PLAIN + later(NOW + 1) + record + PLAIN)
    assert (response.status, code_of(response)) == (400, "request_invalid")
    details = read(response)["details"]
    assert isinstance(details, dict)
    assert details["position"] == len(PLAIN) + len(later(NOW + 1))
    assert details["reason"]
    assert isinstance(client.broker, RefusingBroker)
    # The node counts what was refused, and is given nothing to store.
    assert [command.batch for command in client.broker.asked if isinstance(command, Publish)] == [
        b""
    ]


def test_of_several_bad_records_the_first_is_named() -> None:
    bad = [later(b"soon"), later(NOW + HOUR + MINUTE + 1), later(NOW + 1, ("gq.x", b""))]
    for worst in (bad, bad[::-1]):
        client = Client(limits=ApiLimits(delay_ns_max=HOUR))
        body = PLAIN + later(NOW + MINUTE) + b"".join(worst)
        details = read(client.send("POST", "/topics/t/records", body))["details"]
        alone = read(client.send("POST", "/topics/t/records", worst[0]))["details"]
        assert isinstance(details, dict)
        assert isinstance(alone, dict)
        assert details["position"] == len(PLAIN) + len(later(NOW + MINUTE))
        assert details["reason"] == alone["reason"]


# Asking about them


@pytest.mark.parametrize(
    ("method", "target", "command"),
    [
        ("GET", "/topics/t/delayed", ListDelayed(topic="t", limit=100, skip=0)),
        (
            "GET",
            "/v1/topics/t/delayed?limit=7&skip=9",
            ListDelayed(topic="t", limit=7, skip=9),
        ),
        ("GET", "/topics/t/delayed?limit=5000", ListDelayed(topic="t", limit=1000, skip=0)),
        ("GET", "/topics/t/delayed/5", FindDelayed(topic="t", offset=Offset(5), partition=None)),
        (
            "GET",
            "/topics/t/delayed/5?partition=2",
            FindDelayed(topic="t", offset=Offset(5), partition=2),
        ),
        (
            "DELETE",
            "/topics/t/delayed/2/5",
            CancelDelayed(topic="t", partition=2, offset=Offset(5)),
        ),
        ("GET", "/delay/stats", DescribeDelays()),
    ],
)
def test_a_route_asks_the_broker(method: str, target: str, command: Command) -> None:
    client = Client()
    client.send(method, target)
    assert client.asked() == command


@pytest.mark.parametrize(
    ("method", "target", "code"),
    [
        ("GET", "/topics/t/delayed?limit=0", "request_invalid"),
        ("GET", "/topics/t/delayed?skip=-1", "request_invalid"),
        ("GET", f"/topics/t/delayed?skip={2**53 + 1}", "request_invalid"),
        ("GET", "/topics/t/delayed/x", "request_invalid"),
        ("GET", "/topics/t/delayed/-1", "request_invalid"),
        ("GET", f"/topics/t/delayed/{2**63}", "request_invalid"),
        ("GET", "/topics/t/delayed/5?partition=-1", "partition_invalid"),
        ("DELETE", "/topics/t/delayed/-1/5", "partition_invalid"),
        ("DELETE", "/topics/t/delayed/0/x", "request_invalid"),
        ("DELETE", "/topics/a%20b/delayed/0/1", "name_invalid"),
    ],
)
def test_a_place_that_cannot_be_is_refused(method: str, target: str, code: str) -> None:
    client = Client()
    response = client.send(method, target)
    assert (response.status, code_of(response)) == (400, code)
    assert isinstance(client.broker, RefusingBroker)
    assert not client.broker.asked


@pytest.mark.parametrize(
    ("code", "status", "facts"),
    [
        (Code.MESSAGE_NOT_FOUND, 404, {}),
        (Code.ALREADY_DELIVERED, 409, {"delivered_offset": 12}),
    ],
)
def test_a_refused_cancellation_has_a_code_of_its_own(
    code: Code, status: int, facts: Facts
) -> None:
    broker = RefusingBroker(code, **facts)
    response = Client(broker).send("DELETE", "/topics/t/delayed/0/5")
    body = read(response)
    assert (response.status, body["code"]) == (status, code.value)
    assert body.get("details", {}) == facts


class Answering:
    """Answers every command with one reply."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    async def ask(self, _: Command, __: Caller) -> Reply:
        return self._reply


def answer(reply: Reply, method: str, target: str) -> dict[str, object]:
    facts = NodeFacts(version="1.2.3", started_at=NOW)
    api = HttpApi(Answering(reply), facts, clock=lambda: NOW)
    path, _, query = target.encode().partition(b"?")
    found = api.resolve(method, path)
    request = HttpRequest(method, path, query, LOCAL, bytearray(), "127.0.0.1", found)
    response = asyncio.run(api.answer(request))
    assert response.status == 200, response.body
    return read(response)


def described(state: DelayState, delivered: int | None = None) -> DelayedDescription:
    return DelayedDescription(
        log=LogId("t", 1),
        offset=Offset(5),
        due=Timestamp(NOW + MINUTE),
        time_remaining_ns=MINUTE if state is DelayState.PENDING else 0,
        priority=0,
        state=state,
        delivered_offset=None if delivered is None else Offset(delivered),
    )


PENDING = {
    "topic": "t",
    "partition": 1,
    "offset": 5,
    "deliver_at": MINUTE_LATER,
    "time_remaining": "1m0s",
    "priority": "critical",
    "state": "pending",
}


def test_a_delayed_message_is_told_with_its_state() -> None:
    path = "/topics/t/delayed/5"
    assert answer(described(DelayState.PENDING), "GET", path) == PENDING
    ended = {**PENDING, "time_remaining": "0s"}
    delivered = answer(described(DelayState.DELIVERED, 0), "GET", path)
    assert delivered == {**ended, "state": "delivered", "delivered_offset": 0}
    for state in (DelayState.CANCELLED, DelayState.EXPIRED):
        assert answer(described(state), "GET", path) == {**ended, "state": state.value}


def test_a_page_tells_how_much_it_is_and_how_much_there_is() -> None:
    found = DelayedList(topic="t", messages=(described(DelayState.PENDING),), total=30)
    told = answer(found, "GET", "/topics/t/delayed?limit=1&skip=4")
    assert told == {
        "topic": "t",
        "messages": [PENDING],
        "count": 1,
        "total": 30,
        "limit": 1,
        "skip": 4,
    }


def test_a_cancellation_names_the_message() -> None:
    told = answer(Done(), "DELETE", "/topics/t/delayed/1/5")
    assert told == {"cancelled": True, "topic": "t", "partition": 1, "offset": 5}


def test_statistics_leave_out_the_next_due_time_when_nothing_waits() -> None:
    counts = DelayStatistics(
        pending=1,
        delivered=2,
        cancelled=3,
        average_delay_ns=MINUTE,
        by_topic={"t": 1},
        next_due=Timestamp(NOW + MINUTE),
    )
    told = {
        "pending_count": 1,
        "delivered_count": 2,
        "cancelled_count": 3,
        "avg_delay": "1m0s",
        "by_topic": {"t": 1},
        "next_due_at": MINUTE_LATER,
    }
    assert answer(counts, "GET", "/delay/stats") == told
    idle = msgspec.structs.replace(counts, pending=0, by_topic={}, next_due=None)
    told.pop("next_due_at")
    assert answer(idle, "GET", "/delay/stats") == {**told, "pending_count": 0, "by_topic": {}}
