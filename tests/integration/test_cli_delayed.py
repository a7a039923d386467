"""`goqueue delayed` and `goqueue produce --delay` against a real node."""

import datetime as dt
import re

import httpx
import msgspec
import pytest

from tests.integration.program import Program
from tests.integration.server_process import ServerProcess


def produce(program: Program, topic: str, *flags: str) -> str:
    """Publish to partition 1; what is printed."""
    return program.do("produce", topic, "-p", "1", "-m", "x", *flags).text


def waiting(program: Program, topic: str) -> list[str]:
    """The lines of those that wait."""
    listed = program.do("delayed", "list", topic).lines
    return [line for line in listed if re.match(r" *\d+:\d+ ", line)]


def test_what_is_produced_with_a_delay_is_listed_shown_and_cancelled(
    program: Program, topic: str
) -> None:
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    at = f"{tomorrow:%Y-%m-%dT%H:%M:%SZ}"
    assert produce(program, topic, "--deliver-at", at) == f"{topic} 1:0, due {at[:-1]}.000Z\n"
    assert produce(program, topic, "-d", "1h30m", "--priority", "low").startswith(f"{topic} 1:1")
    listed = waiting(program, topic)
    assert [line.split()[0] for line in listed] == ["1:1", "1:0"]
    assert re.search(r" 1h29m +low", listed[0])
    assert program.do("delayed", "list", topic, "-n", "1").lines[-1] == "1 more: --skip 1"
    assert "1:0" in program.do("delayed", "list", topic, "--skip", "1").text
    beyond = program.do("delayed", "list", topic, "--skip", "9").text
    assert beyond == f"no delayed messages in {topic} beyond these 2\n"

    assert "pending" in program.do("delayed", "get", topic, "1:1").text
    cancelled = program.do("delayed", "cancel", topic, "1:1", "-f").text
    assert cancelled == f"cancelled {topic} 1:1\n"
    assert "cancelled" in program.do("delayed", "get", topic, "1:1").text
    again = program.do("delayed", "cancel", topic, "1:1", "-f", "-o", "json").json()
    assert again == {"cancelled": True, "topic": topic, "partition": 1, "offset": 1}
    assert topic in program.do("delayed", "stats").text


def test_json_and_yaml_are_the_body_of_the_api(
    program: Program, node: ServerProcess, topic: str
) -> None:
    produce(program, topic, "--deliver-at", "2020-01-01T00:00:00Z")
    for words, path in (
        (("list", topic), f"/topics/{topic}/delayed"),
        (("stats",), "/delay/stats"),
    ):
        expected = httpx.get(f"{node.url}{path}").json()
        assert program.do("delayed", *words, "-o", "json").json() == expected
        assert msgspec.yaml.decode(program.do("delayed", *words, "-o", "yaml").out) == expected
    assert program.do("delayed", "list", topic).text == f"no delayed messages in {topic}\n"


def test_too_late_unknown_and_unasked_are_told_apart(program: Program, topic: str) -> None:
    produce(program, topic, "-d", "1ms")
    program.do("consume", topic, "-p", "1", "-n", "1", "--follow")
    late = program.run("delayed", "cancel", topic, "1:0", "-f")
    assert late.code == 1
    assert "(already_delivered)" in late.err
    assert "delivered as  1:1" in re.sub(
        " {2,}", "  ", program.do("delayed", "get", topic, "1:0").text
    )
    unknown = program.run("delayed", "get", topic, "1:7")
    assert unknown.code == 1
    assert "(message_not_found)" in unknown.err
    unasked = program.run("delayed", "cancel", topic, "1:0")
    assert unasked.code == 2
    assert "add --yes" in unasked.err
    for words in (("get", topic, "-1"), ("get", topic, "x"), ("cancel", topic, "0", "-f")):
        assert program.run("delayed", *words).code == 2, words


@pytest.mark.parametrize("output", ["table", "json"])
def test_lines_of_a_file_may_be_delayed_and_fail_for_themselves(
    program: Program, topic: str, output: str
) -> None:
    lines = [
        b'{"value": "a", "delay": "5 minutes", "partition": 0}',
        b'{"value": "b", "delay": 3600, "partition": 0}',
        b'{"value": "c", "deliverAt": "9999-01-01T00:00:00Z"}',
        b'{"value": "d", "partition": 0}',
    ]
    done = program.run("produce", topic, "--format", "json", "-o", output, typed=b"\n".join(lines))
    assert done.code == 1
    assert "line 1: " in done.err
    assert "line 3: " in done.err
    assert "(delay_too_long)" in done.err
    assert len(waiting(program, topic)) == 1
    (message,) = msgspec.json.decode(program.do("consume", topic, "-o", "json").out)["messages"]
    assert message["value"] == "d"


def test_what_was_delivered_late_may_be_produced_again(program: Program, topic: str) -> None:
    produce(program, topic, "-d", "1ms")
    first = program.do("consume", topic, "-p", "1", "-n", "1", "--follow", "-o", "json").out
    assert b"gq.delayed-from" in first
    program.do("produce", topic, "--format", "json", "-p", "1", typed=first)
    again = msgspec.json.decode(program.do("consume", topic, "-p", "1", "-o", "json").out)
    assert [message["value"] for message in again["messages"]] == ["x", "x"]
