"""`goqueue produce`, `consume` and `bench` against a real node: files, pipes, signals, restarts."""

import base64
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.program import PROGRAM, Finished, Program
from tests.integration.server_process import serving


def values(finished: Finished) -> list[bytes]:
    """The values that `--values` printed."""
    return finished.out.splitlines()


def messages(program: Program, topic: str, *flags: str) -> list[dict[str, Any]]:
    document = program.do("consume", topic, "-n", "0", "-o", "json", *flags).json()
    found = document["messages"]
    assert isinstance(found, list)
    return found


# Produce


def test_one_message_is_published_with_all_that_was_said_of_it(
    program: Program, topic: str
) -> None:
    flags = ("-k", "key", "-p", "1", "-H", "a=1", "-H", "b=2=3", "--priority", "High")
    assert program.do("produce", topic, "-m", "hello", *flags).text == f"{topic} 1:0\n"
    (message,) = messages(program, topic)
    del message["timestamp"]
    assert len(str(message.pop("trace_id"))) == 32
    assert message == {
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "key": "key",
        "value": "hello",
        "priority": "high",
        "headers": {"a": "1", "b": "2=3"},
    }


def test_the_answer_of_the_api_is_printed_unchanged(program: Program, topic: str) -> None:
    (result,) = msgspec.json.decode(program.do("produce", topic, "-m", "x", "-o", "json").out)[
        "results"
    ]
    assert sorted(result) == ["offset", "partition", "priority", "timestamp"]


def test_octets_go_in_as_base64_and_come_out_as_they_were(program: Program, topic: str) -> None:
    octets = bytes(range(256)).replace(b"\n", b"")
    encoded = base64.b64encode(octets).decode()
    program.do("produce", topic, "-m", encoded, "-k", encoded, "--base64")
    (message,) = messages(program, topic)
    assert (message["value"], message["key"], message["encoding"]) == (encoded, encoded, "base64")
    assert program.do("consume", topic, "--values").out == octets + b"\n"


LINES = b"""# a comment

{"value": "spelled out", "key": "k", "headers": {"own": "1"}}
{"value": null, "key": "gone"}
"""


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_file_holds_a_message_per_line(
    program: Program, topic: str, tmp_path: Path, output: str
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(LINES + b'{"value": "last without an end"}')
    flags = ("--format", "json", "-p", "0", "-H", "all=1", "-o", output)
    program.do("produce", topic, "-f", file, *flags)
    found = messages(program, topic)
    values = [message["value"] for message in found]
    assert values == ["spelled out", None, "last without an end"]
    assert found[0]["headers"] == {"all": "1", "own": "1"}
    assert found[1]["headers"] == {"all": "1"}
    assert [message.get("key") for message in found] == ["k", "gone", None]


def test_a_line_is_a_value_whatever_is_in_it(program: Program, topic: str) -> None:
    said = program.do("produce", topic, "-p", "1", typed=LINES).text
    assert said.startswith(f"sent 4 messages to {topic}, in ")
    assert values(program.do("consume", topic, "--values")) == LINES.splitlines()


@pytest.mark.parametrize("output", ["table", "json"])
def test_lines_that_fail_are_named_and_do_not_stop_the_others(
    program: Program, topic: str, output: str
) -> None:
    wrong = [
        '{"user": 1}',
        '{"value": 3}',
        '{"value": "x", "priority": "urgent"}',
        '{"value": "x", "partition": 7}',
        '{"value": "?", "encoding": "base64"}',
        '{"value": "x", "headers": {"a": 1}}',
    ]
    typed = "\n".join(['{"value": "first"}', *wrong, '{"value": "last"}']).encode()
    done = program.run("produce", topic, "--format", "json", "-o", output, typed=typed)
    assert done.code == 1
    told = [line.split(":")[1].strip() for line in done.err.splitlines()]
    assert told == ["line 2", "line 3", "line 4", "line 5", "line 6", "and 1 more"]
    assert sorted(str(message["value"]) for message in messages(program, topic)) == [
        "first",
        "last",
    ]
    if output == "json":
        results = done.json()["results"]
        assert isinstance(results, list)
        assert ["code" in result for result in results] == [False, *[True] * 6, False]
    else:
        assert done.text.startswith(f"sent 2 messages to {topic}, 6 failed, in ")


def test_a_delayed_message_is_never_sent_as_if_it_were_not(program: Program, topic: str) -> None:
    later = program.run("produce", topic, "-m", "x", "-d", "1h")
    line = b'{"value": "x", "delay": "1h"}\n'
    file = program.run("produce", topic, "--format", "json", typed=line)
    assert messages(program, topic) == []
    assert later.code == file.code == 0
    assert ", due " in later.text
    both = program.run(
        "produce", topic, "-m", "x", "-d", "1s", "--deliver-at", "2030-01-01T00:00:00Z"
    )
    assert both.code == 2


@pytest.mark.parametrize(
    "flags",
    [
        ("-m", "x", "-f", "y"),
        ("-m", "x", "-H", "nothing"),
        ("-m", "x", "--priority", "urgent"),
        ("-m", "!", "--base64"),
        ("-f", "/nowhere"),
    ],
)
def test_flags_that_make_no_sense_are_misuse(
    program: Program, topic: str, flags: tuple[str, ...]
) -> None:
    refused = program.run("produce", topic, *flags)
    assert refused.code == 2
    assert refused.err.startswith("goqueue: ")
    assert refused.err.count("\n") == 1


def test_many_messages_arrive_in_order_within_their_keys(program: Program, topic: str) -> None:
    lines = [f'{{"key": "{number % 7}", "value": "{number}"}}' for number in range(20_000)]
    typed = "\n".join(lines).encode()
    said = program.do("produce", topic, "--format", "json", typed=typed).text
    assert said.startswith("sent 20000 messages")
    by_key: dict[str, list[int]] = {}
    for message in messages(program, topic):
        by_key.setdefault(message["key"], []).append(int(message["value"]))
    assert sum(map(len, by_key.values())) == 20_000
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_ctrl_c_sends_what_was_read_and_tells_how_much(program: Program, topic: str) -> None:
    with program.talk("consume", topic, "--follow", "--values") as reader:
        with program.talk("produce", topic, "-f", "-") as writer:
            writer.write(b"one\ntwo\nhalf a li")
            assert sorted((reader.read_line(), reader.read_line())) == ["one", "two"]
            ended = writer.stop()
        assert ended.code == 130
        assert ended.err == "goqueue: stopped: sent 2 messages\n"
        assert reader.stop().code == 0
    assert len(messages(program, topic)) == 2


def test_producing_goes_on_through_a_restart(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving(tmp_path) as node:
        program = Program(node.url, tmp_path_factory.mktemp("home"))
        program.do("topic", "create", "t")
        with program.talk("produce", "t", "-f", "-") as writer:
            writer.write(b"before\n")
            assert len(program.do("consume", "t", "-f", "-n", "1").lines) == 1
            node.restart()
            writer.write(b"after\n")
            assert writer.process.stdin is not None
            writer.process.stdin.close()
            ended = writer.finish()
        assert ended.code == 0, ended.err
        assert ended.text.startswith("sent 2 messages to t")
        assert {message["value"] for message in messages(program, "t")} == {"before", "after"}


def test_a_bar_is_shown_on_a_terminal(program: Program, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"x\n" * 1000)
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*PROGRAM, "produce", topic, "-f", str(file)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=False,
        env={**program.environment, "TERM": "xterm"},
        timeout=60,
    )
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert done.returncode == 0
    assert f"to {topic}".encode() in shown


# Consume as a stream


def test_messages_of_all_partitions_come_oldest_first(program: Program, topic: str) -> None:
    for number in range(6):
        program.do("produce", topic, "-m", str(number), "-p", str(number % 2))
    assert values(program.do("consume", topic, "--values")) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert values(program.do("consume", topic, "--values", "-n", "4")) == [b"0", b"1", b"2", b"3"]
    assert values(program.do("consume", topic, "--values", "-p", "1")) == [b"1", b"3", b"5"]
    assert values(program.do("consume", topic, "--values", "--offset", "2")) == [b"4", b"5"]
    assert values(program.do("consume", topic, "--values", "--offset", "1:1")) == [b"3", b"5"]
    assert values(program.do("consume", topic, "--values", "--since", "1h", "-p1")) == [
        b"1",
        b"3",
        b"5",
    ]
    assert values(program.do("consume", topic, "--values", "--from-time", "1h", "-n", "1")) == [
        b"0"
    ]
    for flags in (("--from-latest",), ("--offset", "99"), ("--from-time", "2100-01-01T00:00:00Z")):
        assert program.do("consume", topic, *flags).out == b""
    fourth = messages(program, topic)[4]["timestamp"]
    later = program.do("consume", topic, "--values", "--from-time", fourth)
    assert values(later) == [b"4", b"5"]


def test_a_page_says_where_to_go_on(program: Program, topic: str) -> None:
    program.do("produce", topic, "-p", "0", typed=b"a\nb\nc\n")
    document = program.do("consume", topic, "-p", "0", "-n", "2", "-o", "json").json()
    assert sorted(document) == ["messages", "next_offset"]
    assert document["next_offset"] == 2
    both = program.do("consume", topic, "-n", "2", "-o", "json").json()
    assert both["next_offsets"] == {"0": 2, "1": 0}
    assert msgspec.yaml.decode(program.do("consume", topic, "-n", "2", "-o", "yaml").out) == both


def test_ten_messages_are_shown_unless_more_are_asked_for(program: Program, topic: str) -> None:
    program.do("produce", topic, typed=b"x\n" * 2500)
    assert len(program.do("consume", topic).lines) == 10
    assert len(program.do("consume", topic, "-n", "2000").lines) == 2000
    assert len(program.do("consume", topic, "-n", "0").lines) == 2500


def test_nothing_in_a_message_takes_over_the_terminal(program: Program, topic: str) -> None:
    hostile = b"\x1b[2J\x07\r\nline\x9b\xff"
    encoded = base64.b64encode(hostile).decode()
    program.do("produce", topic, "-m", encoded, "-k", encoded, "--base64")
    (line,) = program.do("consume", topic).lines
    assert line.isprintable()
    assert "\\x1b[2J" in line
    assert program.do("consume", topic, "-o", "json").out.isascii()


@pytest.mark.parametrize(
    "flags",
    [
        ("--offset", "1", "--from-latest"),
        ("--from-time", "yesterday"),
        ("--offset", "-1"),
        ("--offset", "x"),
        ("--offset", "0:x"),
        ("-p", "1", "--offset", "0:1"),
        ("--mode", "shared"),
        ("--no-ack",),
        ("-g", "g", "--offset", "1"),
        ("-g", "g", "-p", "1"),
        ("--isolation", "none"),
    ],
)
def test_places_that_contradict_each_other_are_misuse(
    program: Program, topic: str, flags: tuple[str, ...]
) -> None:
    refused = program.run("consume", topic, *flags)
    assert refused.code == 2
    assert refused.err.count("\n") == 1


def test_following_prints_what_comes_and_outlives_a_restart(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving(tmp_path) as node:
        program = Program(node.url, tmp_path_factory.mktemp("home"))
        program.do("topic", "create", "t", "-p", "2")
        program.do("produce", "t", "-m", "before")
        with program.talk("consume", "t", "-f", "-o", "json") as reader:
            assert msgspec.json.decode(reader.read_line())["value"] == "before"
            node.kill()
            reader.wait_for_words("retrying")
            node.start()
            program.do("produce", "t", "-m", "after")
            assert msgspec.json.decode(reader.read_line())["value"] == "after"
            reader.wait_for_words("the server is reachable again")
            ended = reader.stop()
        assert (ended.code, ended.out) == (0, b"")
        assert "Traceback" not in ended.err


def test_following_ends_after_so_many_or_when_the_topic_goes(program: Program, topic: str) -> None:
    program.do("produce", topic, typed=b"a\nb\nc\n")
    assert len(program.do("consume", topic, "--follow", "-n", "2").lines) == 2
    with program.talk("consume", topic, "--follow", "--values") as reader:
        assert sorted(reader.read_line() for _ in range(3)) == ["a", "b", "c"]
        program.do("produce", topic, "-m", "seen")
        assert reader.read_line() == "seen"
        program.do("topic", "delete", topic, "-f")
        ended = reader.finish()
    assert ended.code == 1
    assert "(topic_not_found)" in ended.err


def test_term_ends_following_as_ctrl_c_does(program: Program, topic: str) -> None:
    program.do("produce", topic, "-m", "x")
    with program.talk("consume", topic, "-f", "-o", "yaml") as reader:
        assert reader.read_line() == "---"
        assert reader.stop(signal.SIGTERM).code == 0


def test_a_reader_that_goes_away_ends_following_quietly(program: Program, topic: str) -> None:
    program.do("produce", topic, typed=b"x\n" * 100)
    with program.talk("consume", topic, "-f") as reader:
        reader.read_line()
        assert reader.process.stdout is not None
        reader.process.stdout.close()
        # One line may still fit into what is between us.
        program.do("produce", topic, typed=b"x\n" * 10)
        assert reader.process.wait(60) == 141
        assert reader.said == ""


# Consume as a queue


def test_a_group_gets_each_message_once(program: Program, topic: str) -> None:
    program.do("produce", topic, typed=b"a\nb\nc\n")
    consume = ("consume", topic, "-g", topic, "--values")
    first = values(program.do(*consume, "-n", "2"))
    second = values(program.do(*consume))
    assert sorted(first + second) == [b"a", b"b", b"c"]
    assert len(first) == 2
    assert program.do(*consume).out == b""
    # Another group has its own place.
    other = ("consume", topic, "-g", f"{topic}.2", "-o", "json", "--mode", "shared")
    assert len(msgspec.json.decode(program.do(*other).out)["messages"]) == 3
    late = ("consume", topic, "-g", f"{topic}.3", "--from-latest")
    assert program.do(*late).out == b""


def test_what_is_not_acknowledged_comes_again(program: Program, topic: str) -> None:
    program.do("produce", topic, "-m", "x")
    look = ("consume", topic, "-g", topic, "--no-ack")
    (first,) = program.do(*look).lines
    (second,) = program.do(*look).lines
    assert first.endswith("x")
    assert second.endswith("x  (delivery 2)")


def test_a_group_is_followed_through_a_restart_and_left_at_the_end(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving(tmp_path) as node:
        program = Program(node.url, tmp_path_factory.mktemp("home"))
        program.do("topic", "create", "t")
        program.do("produce", "t", "-m", "before")
        with program.talk("consume", "t", "-g", "g", "-f", "--values") as reader:
            assert reader.read_line() == "before"
            # Printed is not yet acknowledged.
            assert any("total lag 0" in program.do("group", "lag", "g").text for _ in range(20))
            node.restart()
            program.do("produce", "t", "-m", "after")
            assert reader.read_line() == "after"
            ended = reader.stop()
        assert (ended.code, ended.out) == (0, b"")
        assert "no members" in program.do("group", "describe", "g").text
        assert "total lag 0" in program.do("group", "lag", "g").text


# Bench


@pytest.mark.parametrize("name", ["produce", "consume", "roundtrip"])
def test_a_measurement_reports_rates_latencies_and_failures(
    program: Program, topic: str, name: str
) -> None:
    program.do("produce", topic, typed=b"x\n" * 500)
    flags = ("--topic", topic, "--duration", "0.3", "--size", "100", "--batch", "10")
    report: dict[str, Any] = program.do("bench", name, *flags, "-o", "json").json()
    assert report["messages"] > 0
    assert report["messages_per_second"] > 0
    assert report["failures"] == 0
    assert list(report["latency_ms"]) == ["p50", "p90", "p99", "p999", "max"]
    assert "messages/s" in program.do("bench", name, *flags).text


def test_failures_of_a_measurement_are_failures(program: Program, topic: str) -> None:
    program.do("topic", "alter", topic, "--set", "max_message_bytes=1024")
    flags = ("--topic", topic, "--duration", "0.2", "--size", "2000", "-o", "json")
    for name in ("produce", "roundtrip"):
        failed = program.run("bench", name, *flags, "--timeout", "1")
        assert failed.code == 1, failed
        report: dict[str, Any] = failed.json()
        assert report["messages"] == 0
        assert report["failures"] > 0
        (reason,) = report["failure_reasons"]
        assert reason.startswith("message_too_large")


def test_there_is_nothing_to_measure_in_an_empty_topic(program: Program, topic: str) -> None:
    refused = program.run("bench", "consume", "--topic", topic)
    assert refused.code == 1
    assert "fill it with: goqueue bench produce" in refused.err


def test_messages_are_filtered_and_shown_in_a_format(program: Program, topic: str) -> None:
    lines = [
        b'{"value": "{\\"n\\": %d}", "key": "k%d", "partition": 0, "headers": {"h": "%d"}}\n'
        % (number, number % 2, number)
        for number in range(30)
    ]
    program.do("produce", topic, "--format", "json", typed=b"".join(lines))
    shown = program.do("consume", topic, "--format", r"%p:%o %k %v %{h}\0").out
    assert shown.split(b"\0")[0] == b'0:0 k0 {"n": 0} 0'
    found = program.do("consume", topic, "-k", "k1", "--json", "$.n > 25", "--format", "%o")
    assert found.lines == ["27", "29"]
    assert program.do("consume", topic, "-H", "h=2[0-9]", "-n", "1", "--format", "%o").lines == [
        "20"
    ]
    (line,) = program.do("consume", topic, "--grep", ": 13}", "-o", "jsonl").lines
    assert msgspec.json.decode(line)["offset"] == 13
    document = program.do("consume", topic, "-p", "0", "--grep", ": 3}", "-o", "json").json()
    assert document["next_offset"] == 30


def test_what_was_left_out_is_said_on_standard_error(program: Program, topic: str) -> None:
    program.do("produce", topic, typed=b"x\n" * 40)
    for flags in ((), ("--values",), ("-o", "jsonl")):
        cut = program.do("consume", topic, *flags)
        assert len(cut.lines) == 10
        assert cut.err == "30 more: -n 0\n"
        assert program.do("consume", topic, *flags, "-n", "0").err == ""
    searched = program.do("consume", topic, "--grep", "x", "-n", "1")
    assert searched.err == "39 more to search: -n 0\n"


@pytest.mark.parametrize(
    "flags",
    [
        ("--values", "--format", "%v"),
        ("--format", "%v", "-o", "json"),
        ("--format", "%q"),
        ("--grep", "("),
        ("--json", "a..b"),
        ("-g", "g", "--grep", "x"),
        ("-g", "g", "-k", "x"),
    ],
)
def test_flags_that_make_no_sense_together_are_2(
    program: Program, topic: str, flags: tuple[str, ...]
) -> None:
    refused = program.run("consume", topic, *flags)
    assert (refused.code, refused.out) == (2, b"")
    assert refused.err.count("\n") == 1 or "json" in flags


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_message_that_could_not_be_printed_as_a_whole_is_not_acked(
    program: Program, topic: str, tmp_path: Path, unbuffered: str
) -> None:
    assert program.run("produce", topic, "-p", "0", typed=b"x" * 300_000).code == 0
    command = [*PROGRAM, "consume", topic, "-g", topic, "-n", "1", "--values"]
    limited = ["bash", "-c", 'ulimit -f 100; exec "$@"', "bash", *command]
    with open(tmp_path / "out", "wb") as out:
        finished = subprocess.run(
            limited,
            stdout=out,
            stderr=subprocess.PIPE,
            env={**program.environment, "PYTHONUNBUFFERED": unbuffered},
            check=False,
        )

    assert finished.returncode == 1
    assert b"File too large" in finished.stderr
    assert "total lag 1" in program.do("group", "lag", topic).text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_output_that_takes_nothing_is_one_line_and_a_failure(program: Program) -> None:
    command = ["bash", "-c", '"$@" >/dev/full', "bash", *PROGRAM, "topic", "list"]
    environment = program.environment
    done = subprocess.run(command, stderr=subprocess.PIPE, env=environment, check=False)
    assert done.returncode == 1
    assert done.stderr == b"goqueue: No space left on device\n"


def test_a_closed_output_is_no_crash(program: Program) -> None:
    command = ["bash", "-c", '"$@" >&-', "bash", *PROGRAM, "topic", "list"]
    assert subprocess.run(command, env=program.environment, check=False).returncode == 0


@pytest.mark.parametrize("flags", [("-n", "0"), ("--follow",)])
def test_a_search_that_would_take_years_ends_and_names_the_message(
    program: Program, topic: str, flags: tuple[str, ...]
) -> None:
    program.do("produce", topic, "-p", "1", "-m", "a" * 64 + "b")
    done = program.run("consume", topic, "--grep", "(a+)+$", *flags)
    assert done.code == 1
    assert "need more than 1 s for message 1:0" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_slow_search_of_many_messages_ends_with_a_signal(
    program: Program, topic: str, number: signal.Signals
) -> None:
    program.do("produce", topic, "-p", "0", "-m", "first")
    with program.talk("consume", topic, "--grep", "first|(a+)+$", "--follow") as search:
        assert search.read_line().endswith("first")
        # Minutes of work, of which no message has more than its share.
        slow = (b"a" * 22 + b"b\n") * 400
        program.do("produce", topic, "-p", "0", typed=slow)
        done = search.stop(number)
    assert done.code == 0, done.err
