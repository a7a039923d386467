"""`goqueue topic`, `group`, `dlq` and `version` against a real node; how every failure is told."""

import contextlib
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import httpx
import msgspec
import pytest

import goqueue
from tests.integration.http_api import Api
from tests.integration.odd_servers import OddReply, answering, speaking
from tests.integration.program import PROGRAM, Program
from tests.integration.server_process import ServerProcess

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def topic(node: ServerProcess, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions for one test."""
    name = re.sub(r"[^A-Za-z0-9._-]", ".", request.node.name)[:100]
    with contextlib.closing(Api(node.url)) as api:
        return api.create(name, partitions=2, max_deliveries=2)


def body(node: ServerProcess, path: str) -> object:
    return httpx.get(f"{node.url}{path}").json()


# Topics


def test_a_topic_is_made_described_changed_and_deleted(program: Program, topic: str) -> None:
    assert topic in program.do("topic", "list").text
    described = program.do("topic", "describe", topic).text
    assert re.search(r"max_deliveries +2\b", described)
    assert re.search(r"segment_bytes +64MiB", described)
    assert re.search(r"retention_bytes +unlimited", described)
    assert "schema_validation" in described
    program.do("topic", "alter", topic, "--set", "visibility_timeout=1m", "-r", "7d")
    changed = program.do("topic", "describe", topic, "-o", "json").json()["config"]
    assert isinstance(changed, dict)
    assert (changed["visibility_timeout"], changed["retention_hours"]) == ("1m0s", 168)
    assert re.search(r"retention_hours +7d", program.do("topic", "describe", topic).text)
    assert program.do("topic", "delete", topic, "-f").text == f"deleted topic {topic}\n"
    assert program.run("topic", "describe", topic).code == 1


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (("topic", "partitions", "{topic}"), "/topics/{topic}/partitions"),
        (("delayed", "list", "{topic}"), "/topics/{topic}/delayed"),
    ],
)
def test_json_and_yaml_are_the_body_of_the_api(
    program: Program, node: ServerProcess, topic: str, command: tuple[str, ...], path: str
) -> None:
    expected = body(node, path.format(topic=topic))
    arguments = [word.format(topic=topic) for word in command]
    assert program.do(*arguments, "-o", "json").json() == expected
    assert msgspec.yaml.decode(program.do(*arguments, "-o", "yaml").out) == expected


def test_json_holds_what_the_table_shows(program: Program, node: ServerProcess, topic: str) -> None:
    program.do("produce", topic, "-m", "x", "-p", "0")
    program.do("consume", topic, "-g", topic, "-n", "1")
    program.do("produce", topic, "-m", "y", "-p", "1")
    listed = program.do("topic", "list", "-o", "json").json()
    assert isinstance(listed["topic_stats"], dict)
    assert {"topics": listed["topics"]} == body(node, "/topics")
    assert listed["topic_stats"][topic]["total_messages"] == 2
    lines = [msgspec.json.decode(line) for line in program.do("topic", "list", "-o", "jsonl").lines]
    (line,) = [each for each in lines if each["name"] == topic]
    assert (line["partitions"], line["total_messages"]) == (2, 2)
    described = program.do("topic", "describe", topic, "-o", "json").json()
    assert described.pop("lanes") is not None
    assert described == body(node, f"/topics/{topic}")
    groups = program.do("group", "list", "-o", "jsonl").lines
    (group,) = [each for each in map(msgspec.json.decode, groups) if each["group_id"] == topic]
    assert group["total_lag"] == 1
    assert program.do("group", "describe", topic, "-o", "json").json()["total_lag"] == 1
    assert "PROTOCOL" in program.do("group", "list", "-o", "wide").text
    assert "PUBLISHED" in program.do("topic", "list", "-o", "wide").text


def test_a_name_that_does_not_exist_is_answered_with_the_nearest_ones(
    program: Program, topic: str
) -> None:
    missed = program.run("topic", "describe", topic[:-1])
    assert (missed.code, missed.out) == (1, b"")
    assert f'topic "{topic[:-1]}" does not exist (topic_not_found)' in missed.err
    assert f"did you mean {topic}" in missed.err
    program.do("produce", topic, "-m", "x")
    program.do("consume", topic, "-g", f"{topic}.group", "-n", "1")
    missed = program.run("group", "lag", f"{topic}.grup")
    assert f"did you mean {topic}.group?" in missed.err
    document = msgspec.json.decode(program.run("topic", "describe", "xyzzy", "-o", "json").err)
    assert document["code"] == "topic_not_found"
    assert document["hint"].endswith("goqueue topic create xyzzy")


def test_a_context_is_checked(node: ServerProcess, tmp_path: Path) -> None:
    program = Program("", tmp_path)
    program.do("context", "set", "here", "--server", node.url.removeprefix("http://"))
    program.do("context", "set", "lost", "--server", NOWHERE)
    checked = program.do("context", "check", "here")
    assert f"here: {node.url} answered in " in checked.text
    assert checked.text.endswith(f"GoQueue {goqueue.__version__}, ready\n")
    program.do("context", "use", "here")
    assert program.do("context", "check", "-o", "json").json()["is_ready"] is True
    assert program.run("context", "check", "lost").code == 3


def test_times_may_be_local(program: Program, topic: str) -> None:
    program.do("produce", topic, "-m", "x")
    local = Program(program.environment["GOQUEUE_SERVER"], Path(program.environment["HOME"]))
    local.environment["TZ"] = "Asia/Tokyo"
    for command in (("consume", topic), ("topic", "describe", topic)):
        assert re.search(r"T\d\d:\d\d:\d\d\.\d{3}Z", local.do(*command).text)
        shown = local.do(*command, "--local-time").text
        assert re.search(r"T\d\d:\d\d:\d\d\.\d{3}\+09:00", shown)
    local.environment["GOQUEUE_LOCAL_TIME"] = "1"
    assert "+09:00" in local.do("consume", topic).text


def test_flags_that_choose_the_server_may_stand_anywhere(
    program: Program, node: ServerProcess, topic: str
) -> None:
    lost = Program(NOWHERE, Path(program.environment["HOME"]))
    for arguments in (
        ("-s", node.url, "-o", "json", "topic", "list"),
        ("topic", "-s", node.url, "-o", "json", "list"),
        ("topic", "list", "-o", "json", "-s", node.url),
        ("-s", NOWHERE, "topic", "list", "-o", "json", "-s", node.url),
    ):
        listed = lost.do(*arguments).json()["topics"]
        assert isinstance(listed, list)
        assert topic in listed


def test_a_context_names_the_server(node: ServerProcess, topic: str, tmp_path: Path) -> None:
    program = Program("", tmp_path)
    program.do("context", "set", "here", "--server", node.url)
    assert topic in program.do("topic", "list", "-c", "here").out.decode()
    program.do("context", "use", "here")
    assert topic in program.do("topic", "list").out.decode()


def test_a_setting_that_does_not_exist_is_named(program: Program, topic: str) -> None:
    for given in ("retention=1", "retention_hours", "retention_hours=soon"):
        refused = program.run("topic", "alter", topic, "--set", given)
        assert refused.code == 2
        assert "--set" in refused.err
    assert program.run("topic", "alter", topic).code == 2


# Failures


def assert_one_line(err: str) -> None:
    assert err.startswith("goqueue: ")
    assert err.count("\n") == 1


def test_what_the_server_refuses_is_one_line_with_its_code_and_a_hint(
    program: Program, topic: str
) -> None:
    for arguments, words in (
        (("topic", "describe", "xyzzy"), "(topic_not_found); see: goqueue topic list"),
        (("topic", "create", topic), "(topic_exists)"),
        (("topic", "create", "x", "-p", "0"), "`num_partitions` must be at least 1"),
        (("topic", "create", "x", "-p", "99999"), "`num_partitions` must be at most 10000"),
        (("group", "lag", "nobody"), "(group_not_found); see: goqueue group list"),
        (("consume", topic, "-p", "9"), f"see: goqueue topic partitions {topic}"),
        (("produce", topic, "-p", "9", "-m", "x"), "(partition_not_found)"),
        (("dlq", "show", topic, "0:0"), "there is no dead letter 0:0"),
    ):
        refused = program.run(*arguments)
        assert refused.code == 1, arguments
        assert_one_line(refused.err)
        assert words in refused.err
        assert not refused.out


@pytest.mark.parametrize(
    "command",
    [
        ("topic", "list"),
        ("topic", "delete", "x", "-f"),
        ("produce", "x", "-m", "y"),
        ("produce", "x"),
        ("consume", "x"),
        ("consume", "x", "--follow"),
        ("consume", "x", "-g", "g"),
        ("group", "list"),
        ("dlq", "list", "x"),
        ("bench", "produce"),
    ],
)
def test_a_server_that_is_not_there_is_3_and_a_hint(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    missed = Program(NOWHERE, tmp_path).run(*command)
    assert missed.code == 3
    assert_one_line(missed.err)
    assert "is a server running? start one with: goqueue dev" in missed.err


def test_a_server_that_does_not_answer_in_time_is_3(program: Program, node: ServerProcess) -> None:
    node.signal(signal.SIGSTOP)
    try:
        missed = program.run("topic", "list", "--timeout", "0.2")
    finally:
        node.signal(signal.SIGCONT)
    assert missed.code == 3
    assert "no answer within 0.2 s" in missed.err


def test_an_argument_that_is_no_text_is_misuse(program: Program, topic: str) -> None:
    no_text = b"\xff".decode(errors="surrogateescape")
    for arguments in (
        ("trace", "get", no_text),
        ("produce", topic, "-m", "x", "-H", f"a={no_text}"),
    ):
        refused = program.run(*arguments)
        assert refused.code == 2
        assert refused.err == "goqueue: an argument is not UTF-8\n"
    assert program.run("topic", "describe", no_text).code == 2


def test_settings_that_make_no_sense_are_2(program: Program) -> None:
    for flag, value in (("-s", "non sense"), ("--timeout", "soon"), ("-c", "nobody")):
        refused = program.run("topic", "list", flag, value)
        assert refused.code == 2
        assert_one_line(refused.err)


@pytest.mark.parametrize(
    "command",
    [
        ("topic", "delete", "{topic}"),
        ("group", "delete", "g"),
        ("group", "reset-offsets", "g", "--topic", "{topic}", "--to-earliest"),
        ("dlq", "redrive", "{topic}"),
    ],
)
def test_nothing_is_destroyed_unasked_when_nobody_can_be_asked(
    program: Program, topic: str, command: tuple[str, ...]
) -> None:
    refused = program.run(*(word.format(topic=topic) for word in command))
    assert refused.code == 2
    assert "add --yes" in refused.err
    program.do("topic", "describe", topic)


@pytest.mark.parametrize(("answer", "code"), [(b"yes\n", 0), (b"y\n", 0), (b"\n", 1)])
def test_only_yes_on_a_terminal_deletes(
    program: Program, topic: str, answer: bytes, code: int
) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    done = subprocess.run(
        [*PROGRAM, "topic", "delete", topic],
        stdin=theirs,
        capture_output=True,
        check=False,
        env=program.environment,
        timeout=60,
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == code
    assert b"[y/N]" in done.stderr
    assert program.run("topic", "describe", topic).code == (1 if code == 0 else 0)


# Groups


def test_a_group_is_shown_moved_and_deleted(program: Program, topic: str) -> None:
    lines = [b'{"value": "%d", "partition": %d}\n' % (number, number % 2) for number in range(4)]
    program.do("produce", topic, "--format", "json", typed=b"".join(lines))
    assert len(program.do("consume", topic, "-g", topic, "-n", "3").lines) == 3
    assert topic in program.do("group", "list").text
    assert "no members" in program.do("group", "describe", topic).text
    assert "total lag 1" in program.do("group", "lag", topic).text
    to_earliest = ("group", "reset-offsets", topic, "--topic", topic, "--to-earliest")
    program.do(*to_earliest, "--dry-run")
    assert "total lag 1" in program.do("group", "lag", topic).text
    moved = program.do(*to_earliest, "-f", "-o", "json").json()
    assert moved["reset_count"] == 2
    assert "total lag 4" in program.do("group", "lag", topic).text
    offsets = program.do("group", "offsets", topic, "--topic", topic, "-o", "json").json()
    assert offsets["offsets"] == {topic: {"0": 0, "1": 0}}
    for goal, lag in (
        (("--to-latest",), 0),
        (("--to-offset", "1"), 2),
        (("--to-timestamp", "1h"), 4),
    ):
        program.do("group", "reset-offsets", topic, "--topic", topic, *goal, "-f")
        assert f"total lag {lag}\n" in program.do("group", "lag", topic).text
    program.do("group", "delete", topic, "-f")
    assert program.run("group", "describe", topic).code == 1


@pytest.mark.parametrize(
    "goal", [(), ("--to-earliest", "--to-latest"), ("--to-timestamp", "yesterday")]
)
def test_a_reset_needs_one_goal(program: Program, topic: str, goal: tuple[str, ...]) -> None:
    refused = program.run("group", "reset-offsets", "g", "--topic", topic, *goal, "-f")
    assert refused.code == 2
    assert_one_line(refused.err)


# Dead letters


def test_dead_letters_are_listed_shown_and_redriven(
    program: Program, node: ServerProcess, topic: str
) -> None:
    assert program.do("dlq", "list", topic).text == f"no dead letters of {topic}\n"
    program.do("produce", topic, "-m", "to die", "-k", "k", "-H", "h=\x1b[31m")
    with (
        goqueue.connect_sync(node.url) as connection,
        connection.consume(topic, group=topic) as consumer,
    ):
        next(consumer).reject("it is broken")
    listed = program.do("dlq", "list", topic).text
    for words in ("rejected", "it is broken", "to die"):
        assert words in listed
    (letter,) = msgspec.json.decode(program.do("dlq", "list", topic, "-o", "json").out)["messages"]
    place = f"{letter['partition']}:{letter['offset']}"
    shown = program.do("dlq", "show", topic, place).text
    assert "\\x1b[31m" in shown
    assert "goqueue.dlq.cause" in shown
    assert program.do("dlq", "show", topic, place, "-o", "json").json() == letter
    assert program.run("dlq", "show", topic, "7").code == 2
    assert program.run("dlq", "show", topic, f"{letter['partition']}:99").code == 1
    assert program.do("dlq", "redrive", topic, "-f").text == "moved 1 dead letter\n"
    assert program.do("dlq", "redrive", topic, "-f", "-o", "json").json() == {"moved": 0}
    (line,) = program.do("consume", topic, "-g", topic).lines
    assert line.endswith("to die")


# The program itself


def test_the_version_is_that_of_the_program_and_of_the_server(
    program: Program, node: ServerProcess, tmp_path: Path
) -> None:
    own, theirs = program.do("version").lines
    assert own.startswith(f"goqueue {goqueue.__version__},")
    assert theirs == f"server {goqueue.__version__} at {node.url}"
    document = program.do("version", "-o", "json").json()
    assert document["server"] == body(node, "/version")
    alone = Program(NOWHERE, tmp_path).do("version")
    assert alone.lines[0] == own
    assert alone.lines[1].startswith(f"server not reached at {NOWHERE}: ")


def test_a_shell_is_offered_commands_flags_and_names_that_the_server_knows(
    program: Program, topic: str
) -> None:
    assert "_GOQUEUE_COMPLETE=bash_complete" in program.do("completion", "bash").text
    for shell in ("zsh", "fish"):
        assert f"_GOQUEUE_COMPLETE={shell}_complete" in program.do("completion", shell).text
    asked = {
        "goqueue to": "plain,topic",
        "goqueue topic describe " + topic[:5]: f"plain,{topic}",
        "goqueue group reset-offsets g --topic " + topic[:5]: f"plain,{topic}",
        "goqueue consume --from-b": "plain,--from-beginning",
    }
    for words, offer in asked.items():
        variables = {
            "_GOQUEUE_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        environment = {**program.environment, **variables}
        done = subprocess.run(
            PROGRAM, capture_output=True, text=True, check=False, env=environment, timeout=60
        )
        assert offer in done.stdout.splitlines(), done


def test_groups_are_shown_with_their_lag_also_where_they_never_committed(
    program: Program,
) -> None:
    # Short names, so that no column of the table is cut.
    topic, group = "lagged", "lagging"
    program.do("topic", "create", topic)
    program.do("produce", topic, "-p", "0", typed=b"a\nb\nc\n")
    program.do("consume", topic, "-g", group, "-n", "1")
    program.do("produce", topic, "-p", "1", typed=b"d\ne\n")

    [row] = [each for each in program.do("group", "list").text.splitlines() if group in each]
    assert row.split()[-2:] == ["4", topic]
    described = program.do("group", "describe", group).text
    assert ["lag", "4"] in [line.split() for line in described.splitlines()]
    assert "total lag 4" in program.do("group", "lag", group).text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("topic", "create", "a b"), "TOPIC 'a b' is not a name"),
        (("topic", "describe", ""), "TOPIC '' is not a name"),
        (("topic", "describe", ".."), "TOPIC '..' is not a name"),
        (("topic", "create", "\u00fcn\u00ef"), "TOPIC '\\xfcn\\xef' is not a name"),
        (("group", "describe", ""), "GROUP '' is not a name"),
        (("consume", "{topic}", "-g", ""), "GROUP '' is not a name"),
        (("consume", "{topic}", "-n", "x"), "'x' is not a whole number"),
        (("consume", "{topic}", "--offset", "9" * 30), "is more than"),
        (("consume", "{topic}", "--from-time", "noon"), "nor a duration (15m, 7d): 'noon'"),
        (("produce", "{topic}", "-m", "a", "-p", "-1"), "-1 is less than 0"),
        (("produce", "{topic}", "-m", "a", "--deliver-at", "soon"), "--deliver-at 'soon'"),
        (("topic", "create", "x", "--set", "max_deliveries=" + "9" * 20), "is too large"),
        (("dlq", "redrive", "{topic}", "--max", "99999", "-y"), "99999 is more than 10000"),
        (("-s", "http://h:99999", "topic", "list"), "such as http://127.0.0.1:8080: 'http://h:9"),
    ],
)
def test_what_cannot_be_meant_is_one_line_before_a_server_is_asked(
    program: Program, topic: str, arguments: tuple[str, ...], words: str
) -> None:
    refused = program.run(*(each.replace("{topic}", topic) for each in arguments))
    assert (refused.code, refused.out) == (2, b"")
    assert_one_line(refused.err)
    assert words in refused.err


def test_a_number_of_seconds_is_a_duration_of_a_setting(program: Program, topic: str) -> None:
    shown = program.do("topic", "alter", topic, "--set", "visibility_timeout=90", "-o", "json")
    config = shown.json()["config"]
    assert isinstance(config, dict)
    assert config["visibility_timeout"] == "1m30s"


def test_an_offset_beyond_the_end_is_said(program: Program, topic: str) -> None:
    nothing = program.do("consume", topic, "--offset", "999")
    assert nothing.out == b""
    assert nothing.err == "nothing to read: offset 999 is beyond the end (0)\n"


HTML = b"<html><head><title>Oops</title></head><body>nginx\x1b[31m</body></html>"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (OddReply(502, HTML), "HTTP status 502 and is not one of a GoQueue node"),
        (OddReply(404, HTML), "HTTP status 404 and is not one of a GoQueue node"),
        (OddReply(302), "HTTP status 302 and is not one of a GoQueue node"),
        (OddReply(401, HTML), "HTTP status 401 and is not one of a GoQueue node"),
        (OddReply(500), "HTTP status 500 and is not one of a GoQueue node"),
        (OddReply(403, b'{"message": "no"}', "application/json"), "HTTP status 403"),
        (OddReply(200, HTML), "a GoQueue node, or is there a proxy in between?"),
        (OddReply(200, b'{"hello": 1}', "application/json"), "is there a proxy in between?"),
    ],
)
def test_what_is_no_node_is_said_in_one_line(tmp_path: Path, reply: OddReply, words: str) -> None:
    with answering(reply) as url:
        program = Program(url, tmp_path)
        for command in (("topic", "list"), ("produce", "x", "-m", "a")):
            refused = program.run(*command)
            assert (refused.code, refused.out) == (1, b""), command
            assert_one_line(refused.err)
            assert words in refused.err
            assert url in refused.err


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9\r\n", b"-ERR unknown command\r\n"])
def test_a_server_of_another_protocol_is_said_in_one_line(tmp_path: Path, said: bytes) -> None:
    with speaking(said) as url:
        missed = Program(url, tmp_path).run("topic", "list")
    assert missed.code == 3
    assert_one_line(missed.err)
    assert f"is {url} a GoQueue node?" in missed.err


def test_https_to_a_node_without_tls_is_said(node: ServerProcess, tmp_path: Path) -> None:
    url = node.url.replace("http://", "https://")
    missed = Program(url, tmp_path).run("topic", "list")
    assert missed.code == 3
    assert "does not speak TLS on this port: use http://" in missed.err
    assert "_ssl.c" not in missed.err
