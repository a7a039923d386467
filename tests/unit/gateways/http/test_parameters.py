"""Parameters: limits that cut, limits that refuse, and how numbers and times are written."""

import pytest

from goqueue.gateways.http import ROUTES
from goqueue.gateways.http.read import shortened
from goqueue.model import SECOND, Timestamp
from goqueue.model.requests import DescribeOffsets, Poll, Read
from tests.unit.gateways.http.refusing_broker import Client, RefusingBroker, read

READ = "/topics/t/partitions/0/messages"
RAW = "/topics/t/partitions/0/records"
POLL = "/groups/g/poll?member_id=m"


def asked_read(query: str, path: str = READ) -> Read:
    client = Client()
    client.get(f"{path}?{query}")
    command = client.asked()
    assert isinstance(command, Read)
    return command


def asked_poll(query: str) -> Poll:
    client = Client()
    client.get(f"{POLL}&{query}")
    command = client.asked()
    assert isinstance(command, Poll)
    return command


def refused_field(target: str) -> object:
    client = Client()
    response = client.get(target)
    assert response.status == 400, response.body
    assert isinstance(client.broker, RefusingBroker)
    assert not client.broker.asked
    details = read(response)["details"]
    assert isinstance(details, dict)
    return details["field"]


def test_what_is_absent_has_the_default_of_the_contract() -> None:
    assert asked_read("") == Read(
        topic="t",
        partition=0,
        offset=asked_read("offset=0").offset,
        bytes_max=64 * 1024,
        messages_max=100,
    )
    poll = asked_poll("")
    assert (poll.messages_max, poll.generation, poll.visibility_ns) == (100, None, None)
    assert poll.wait_ns == 29 * SECOND


@pytest.mark.parametrize("given", ["1001", "99999999999999999999999999", "1000"])
def test_a_limit_above_its_maximum_is_cut(given: str) -> None:
    assert asked_poll(f"max_messages={given}").messages_max == 1000


@pytest.mark.parametrize("given", ["0", "-1", "", "1.5", "ten", "+5", "1_000", "%D9%A1", "0x10"])
def test_a_limit_below_its_minimum_or_unreadable_is_refused(given: str) -> None:
    assert refused_field(f"{POLL}&max_messages={given}") == "max_messages"
    assert refused_field(f"{READ}?limit={given}") == "limit"


@pytest.mark.parametrize(
    ("given", "ns"),
    [
        ("0", 0),
        ("0s", 0),
        ("10", 9 * SECOND),
        ("10s", 9 * SECOND),
        ("0.5", SECOND * 45 // 100),
        ("250ms", 225_000_000),
        ("1m", 59 * SECOND),
        ("1h30m", 59 * SECOND),
        ("999999999999h", 59 * SECOND),
        ("100%C2%B5s", 90_000),
    ],
)
def test_a_waiting_time_is_cut_to_its_maximum_and_answered_a_little_earlier(
    given: str, ns: int
) -> None:
    assert asked_read(f"wait={given}").wait_ns == ns
    assert asked_poll(f"timeout={given}").wait_ns == ns


@pytest.mark.parametrize("given", ["-1s", "-1", "NaN", "inf", "s", "", "1e3", "1 s", "5s5"])
def test_a_waiting_time_that_is_none_is_refused(given: str) -> None:
    assert refused_field(f"{READ}?wait={given}") == "wait"
    assert refused_field(f"{POLL}&timeout={given}") == "timeout"


@pytest.mark.parametrize(
    ("wait_ns", "expected"), [(0, 0), (5, 5), (100, 90), (60 * SECOND, 59 * SECOND)]
)
def test_an_answer_comes_earlier_by_a_tenth_but_at_most_a_second(
    wait_ns: int, expected: int
) -> None:
    assert shortened(wait_ns) == expected


@pytest.mark.parametrize(
    ("given", "ok"), [("100ms", True), ("12h", True), ("99ms", False), ("12h1ns", False)]
)
def test_a_lease_outside_its_limits_is_refused_not_cut(given: str, ok: bool) -> None:
    if ok:
        assert asked_poll(f"visibility_timeout={given}").visibility_ns is not None
    else:
        target = f"{POLL}&visibility_timeout={given}"
        assert refused_field(target) == "visibility_timeout"


@pytest.mark.parametrize("given", ["-2", "9223372036854775808", "1e3", "two"])
def test_an_offset_that_is_no_int64_is_refused(given: str) -> None:
    assert refused_field(f"{READ}?offset={given}") == "offset"
    assert refused_field(f"{RAW}?offset={given}") == "offset"


def test_an_offset_of_minus_one_asks_for_the_earliest() -> None:
    assert asked_read("offset=-1").offset == -1
    assert asked_read("offset=-1", RAW).offset == -1


@pytest.mark.parametrize("text", ["2023-11-14T22:13:20Z", "2023-11-15T00:13:20%2B02:00"])
def test_a_time_may_have_an_offset(text: str) -> None:
    assert asked_read(f"timestamp={text}").timestamp == Timestamp(1_700_000_000 * SECOND)


def test_a_plus_that_was_not_encoded_is_still_an_offset() -> None:
    command = asked_read("timestamp=2023-11-15T00:13:20+02:00")
    assert command.timestamp == Timestamp(1_700_000_000 * SECOND)


def test_a_start_is_an_offset_or_a_time_not_both() -> None:
    assert refused_field(f"{READ}?offset=0&timestamp=2023-11-14T22:13:20Z") == "timestamp"


@pytest.mark.parametrize("text", ["yesterday", "2023-11-14", "2023-02-30T00:00:00Z", "1700000000"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    assert refused_field(f"{READ}?timestamp={text}") == "timestamp"


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_both_isolations_are_taken(isolation: str) -> None:
    assert asked_read(f"isolation={isolation}").partition == 0
    assert asked_poll(f"isolation={isolation}").group == "g"


def test_an_unknown_isolation_is_refused() -> None:
    assert refused_field(f"{READ}?isolation=serializable") == "isolation"


def test_a_negative_partition_has_a_code_of_its_own() -> None:
    response = Client().get("/topics/t/partitions/-1/messages")
    assert (response.status, read(response)["code"]) == (400, "partition_invalid")
    assert refused_field("/topics/t/partitions/2147483648/messages") == "partition"
    assert refused_field("/topics/t/partitions/x/messages") == "partition"


def test_a_parameter_given_twice_and_an_unknown_one_are_refused() -> None:
    assert refused_field(f"{READ}?limit=1&limit=2") == "limit"
    assert refused_field(f"{READ}?limit=1&colour=blue") == "colour"
    assert refused_field(f"{READ}?topic=t") == "topic"
    assert refused_field(f"{READ}?=x") == ""
    assert asked_read("limit=5&&").partition == 0


@pytest.mark.parametrize("query", ["limit=%ff", "%zz=1", "limit=%", "&".join(["a=1"] * 101)])
def test_a_query_that_is_not_percent_encoded_text_is_refused(query: str) -> None:
    response = Client().get(f"{READ}?{query}")
    assert (response.status, read(response)["code"]) == (400, "request_invalid")


def test_a_required_parameter_is_named_when_it_is_missing() -> None:
    assert refused_field("/groups/g/poll") == "member_id"


def test_a_topic_may_narrow_the_positions() -> None:
    client = Client()
    client.get("/groups/g/offsets?topic=t")
    assert client.asked() == DescribeOffsets(group="g", topic="t")
    assert refused_field("/groups/g/offsets?topic=") == "topic"


def test_defaults_are_within_their_own_limits() -> None:
    for route in ROUTES:
        for parameter in route.parameters:
            if parameter.default not in {None, "", False} and "default" in parameter.schema:
                assert parameter.read(str(parameter.schema["default"])) == parameter.default
