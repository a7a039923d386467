"""`goqueue trace` against a real node: where did my message go?"""

import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import httpx
import msgspec
import pytest

import goqueue
from tests.integration.http_api import Api
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess

STORY = [
    "publish.received",
    "publish.partitioned",
    "publish.persisted",
    "delay.scheduled",
    "delay.fired",
    "consume.fetched",
    "consume.nacked",
    "consume.fetched",
    "consume.nacked",
    "dlq.routed",
    "dlq.redriven",
    "consume.fetched",
    "consume.acked",
]


@pytest.fixture(scope="module")
def story(node: ServerProcess) -> str:
    """A message that is delayed, delivered, fails twice, dies, is redriven and acked: its trace."""
    with goqueue.connect_sync(node.url) as q:
        q.topics.create("orders", partitions=1, max_deliveries=2)
        q.publish("orders", {"id": 1}, key="customer-7", delay=2)
        with q.consume("orders", group="billing") as consumer:
            for reason in ("no money", "still\x1b[31m none"):
                message = next(consumer)
                message.nack(delay_s=0, reason=reason)
            assert q.dead_letters.redrive("orders") == 1
            message = next(consumer)
            message.ack()
        return message.trace_id


def test_one_command_tells_the_whole_trace(program: Program, api: Api, story: str) -> None:
    found = api.get(f"/traces/{story}")
    assert [event["event_type"] for event in found["events"]] == STORY
    assert found["status"] == "completed"
    shown = program.do("trace", "message", "orders", "0:0").lines
    assert shown[0] == f"trace    {story}"
    assert re.fullmatch(r"status   completed in \d+\.\d (ms)|.* s, 13 events", shown[3])
    body = shown[5:]
    names = [re.sub(r"^[ \d.ms]+", "", line).lstrip("├─└│ ").split()[0] for line in body]
    assert names == STORY
    text = "\n".join(body)
    assert re.search(r"├─ delay\.fired +orders 0:1", text)
    assert re.search(r"│  ├─ consume\.fetched +billing, attempt 1, python-", text)
    assert re.search(r"│  │  └─ consume\.nacked +no money", text)
    assert re.search(r"├─ dlq\.routed +orders\.dlq 0:0, billing, attempt 2, still", text)
    assert re.search(r"└─ dlq\.redriven +orders 0:2", text)
    assert r"still\x1b[31m none" in text


@pytest.mark.parametrize("place", [("orders", "0:1"), ("orders.dlq", "0:0"), ("orders", "0:2")])
def test_every_place_that_the_message_had_leads_to_the_same_trace(
    program: Program, story: str, place: tuple[str, str]
) -> None:
    assert program.do("trace", "message", *place).out == program.do("trace", "get", story).out


def test_json_and_yaml_are_the_body_of_the_api(
    program: Program, node: ServerProcess, story: str
) -> None:
    for words, path in (
        (("list", "--all", "-n", "2"), "/traces?limit=2"),
        (("get", story), f"/traces/{story}"),
        (("message", "orders", "0:0"), f"/traces/{story}"),
        (
            ("search", "--topic", "orders", "--status", "error"),
            "/traces/search?topic=orders&status=error",
        ),
        (("stats",), "/traces/stats"),
    ):
        expected = httpx.get(f"{node.url}{path}").json()
        assert program.do("trace", *words, "-o", "json").json() == expected
        assert msgspec.yaml.decode(program.do("trace", *words, "-o", "yaml").out) == expected


@pytest.mark.parametrize(
    ("flags", "is_found"),
    [
        (("--topic", "orders"), True),
        (("--topic", "orders.dlq"), True),
        (("--topic", "orders", "--partition", "0", "--offset", "0"), True),
        (("--topic", "orders", "--offset", "99"), False),
        (("--key", "customer-7"), True),
        (("--key", "customer-8"), False),
        (("--group", "billing"), True),
        (("--consumer", "nobody"), False),
        (("--status", "completed", "--start", "10m"), True),
        (("--end", "10m"), False),
        (("--start", "2026-01-31T12:00:00Z", "--end", "2020-01-31T12:00:00Z"), None),
    ],
)
def test_a_search_by_every_flag(
    program: Program, story: str, flags: tuple[str, ...], is_found: bool | None
) -> None:
    done = program.run("trace", "search", *flags)
    if is_found is None:
        assert (done.code, "request_invalid" in done.err) == (1, True)
    else:
        assert done.code == 0, done.err
        assert (story in done.text) is is_found
        assert is_found or done.text == "no matching traces\n"


def test_the_list_and_the_counts_are_tables(program: Program, story: str) -> None:
    lines = program.do("trace", "list").lines
    assert any(re.search(rf"{story}  20\S+Z  completed  .*  orders 0:0", each) for each in lines)
    # Rebalances have no message, and are shown on request only.
    assert not any(each.endswith(" -") or each.rstrip().endswith(" -") for each in lines)
    every = program.do("trace", "list", "--all").lines
    assert len(every) > len(lines)
    assert re.search(r"spans kept +\d+ of 10000", program.do("trace", "stats").text)
    assert "more: use -n N" in program.do("trace", "list", "--all", "-n", "1").text


def test_a_message_of_which_nothing_is_kept_is_told_in_one_sentence(
    program: Program, story: str
) -> None:
    done = program.run("trace", "message", "orders", "0:99")
    assert (done.code, done.out) == (1, b"")
    (sentence,) = done.err.splitlines()
    assert sentence.startswith("goqueue: no trace of orders 0:99: the server keeps the last 10,000")
    assert "older ones are only where it exports them" in sentence
    assert program.do("trace", "get", story).code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("get", "0" * 31), 1, "32 hexadecimal digits"),
        (("get", "0" * 31 + "1"), 1, "(trace_not_found); only the newest traces are kept"),
        (("get", "../topics"), 1, "(request_invalid)"),
        (("message", "orders"), 2, "Missing argument 'PARTITION:OFFSET'"),
        (("message", "orders", "0"), 2, "is not PARTITION:OFFSET"),
        (("message", "orders", "x:0"), 2, "is not PARTITION:OFFSET"),
        (("search", "--start", "yesterday"), 2, "--start is neither a time"),
        (("search", "--status", "lost"), 2, "--status"),
        (("list", "-n", "0"), 2, "--limit"),
    ],
)
def test_what_is_wrong_is_told(
    program: Program, words: tuple[str, ...], code: int, said: str
) -> None:
    done = program.run("trace", *words)
    assert done.code == code, done.err
    assert said in done.err


def test_it_fits_a_terminal_of_eighty_columns(node: ServerProcess, story: str) -> None:
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 80))
    environment = {**os.environ, "GOQUEUE_SERVER": node.url, "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    for words in (("list",), ("get", story)):
        command = [sys.executable, "-m", "goqueue.cli", "trace", *words]
        subprocess.run(command, stdout=follower, check=True, env=environment, timeout=60)
        shown = os.read(leader, 65_536).decode()
        lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
        assert max(map(len, lines)) <= 80
        assert story in shown
    os.close(leader)
    os.close(follower)


def test_the_shell_completes_traces(node: ServerProcess, tmp_path: Path, story: str) -> None:
    asking = Program(node.url, tmp_path)
    asking.environment |= {
        "_GOQUEUE_COMPLETE": "bash_complete",
        "COMP_WORDS": f"goqueue trace get {story[:4]}",
        "COMP_CWORD": "3",
    }
    assert f"plain,{story}" in asking.run().lines
