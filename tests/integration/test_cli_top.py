"""`goqueue top` on a real terminal, of two sizes, and without one, against a real node."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.program import PROGRAM, SECONDS_MAX, Program
from tests.integration.server_process import ServerProcess, serving
from tests.integration.terminal import Terminal, terminal
from tests.integration.vt_screen import VtScreen

QUICK = ("--interval", "0.3")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A node with topics, a group that is behind, a delayed message and a dead letter."""
    with serving(tmp_path_factory.mktemp("node")) as process:
        with httpx.Client(base_url=process.url) as api:
            for name in ("orders", "clicks"):
                api.post("/topics", json={"name": name, "num_partitions": 2}).raise_for_status()
            publish(api, "orders", 20)
            delayed = {"messages": [{"value": "later", "delay": "1h"}]}
            api.post("/topics/clicks/messages", json=delayed).raise_for_status()
            member = join(api, "triage", "orders")
            taken = poll(api, "triage", member, 1)
            api.post("/messages/reject", json={"receipt_handle": taken[0]}).raise_for_status()
        yield process


@pytest.fixture
def api(node: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=node.url) as client:
        yield client


def publish(api: httpx.Client, topic: str, count: int) -> None:
    messages = [{"value": str(number)} for number in range(count)]
    api.post(f"/topics/{topic}/messages", json={"messages": messages}).raise_for_status()


def join(api: httpx.Client, group: str, topic: str) -> str:
    body = {"client_id": "test", "topics": [topic], "session_timeout": "10m"}
    joined = api.post(f"/groups/{group}/join", json=body).raise_for_status().json()
    return str(joined["member_id"])


def poll(api: httpx.Client, group: str, member: str, count: int) -> list[str]:
    query = f"member_id={member}&max_messages={count}&timeout=5s"
    answer = api.get(f"/groups/{group}/poll?{query}").raise_for_status().json()
    return [message["receipt_handle"] for message in answer["messages"]]


def settle(api: httpx.Client, receipts: list[str]) -> None:
    body = {"receipt_handles": receipts}
    api.post("/messages/ack/batch", json=body).raise_for_status()


def row(screen: VtScreen, name: str) -> list[str]:
    """The cells of the row that begins with a name."""
    found = [line.split() for line in screen.lines if line.split()[:1] == [name]]
    return found[0] if found else []


def lag_shown(screen: VtScreen, group: str) -> int:
    """From the columns group, state, members, lag; -1 if it is not there yet."""
    cells = row(screen, group)
    return int(cells[3].replace(",", "")) if len(cells) > 3 and cells[3] != "-" else -1


def is_stopped(shown: Terminal) -> bool:
    stat = Path(f"/proc/{shown.process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


def quit_top(shown: Terminal) -> None:
    shown.press("q")
    assert shown.finish() == 0
    assert shown.screen.overflows == 0


def test_topics_appear_with_their_rates_as_messages_come(
    program: Program, api: httpx.Client
) -> None:
    with terminal(program, "top", *QUICK) as shown:
        shown.wait_for_text("orders", "clicks", "ready", "1 topics", "q quit")

        def is_moving(screen: VtScreen) -> bool:
            publish(api, "clicks", 5)
            cells = row(screen, "clicks")
            return bool(cells) and re.search(r"in [1-9]", screen.text) is not None

        shown.wait_for(is_moving)
        assert re.search(r"clicks .*[▂▃▄▅▆▇█]", shown.wait_for(is_moving))
        quit_top(shown)


def test_the_lag_of_a_group_rises_and_falls(program: Program, api: httpx.Client) -> None:
    api.post("/topics", json={"name": "work", "num_partitions": 1}).raise_for_status()
    member = join(api, "workers", "work")
    with terminal(program, "top", *QUICK, "--view", "groups") as shown:
        shown.wait_for(lambda screen: lag_shown(screen, "workers") == 0)
        publish(api, "work", 700)
        shown.wait_for(lambda screen: lag_shown(screen, "workers") == 700)
        settle(api, poll(api, "workers", member, 300))
        shown.wait_for(lambda screen: lag_shown(screen, "workers") == 400)
        settle(api, poll(api, "workers", member, 400))
        shown.wait_for(lambda screen: lag_shown(screen, "workers") == 0)
        quit_top(shown)


def test_every_key_does_what_the_help_says(program: Program) -> None:
    with terminal(program, "top", *QUICK) as shown:
        shown.wait_for_text("orders", "TOPIC")
        shown.press("2")
        shown.wait_for_text("GROUP", "triage")
        shown.press("\t")
        shown.wait_for_text("critical", "background", "1 pending", "clicks", "59m")
        shown.press("4")
        shown.wait_for_text("orders.dlq", "1 rejected")
        shown.press("5")
        shown.wait_for_text("storage", "this node stands alone", "transactions  0 open")
        shown.press("?")
        shown.wait_for_text("Keys", "any key goes back")
        shown.press("x")
        shown.press("1")
        shown.wait_for_text("s sort: IN/s")
        shown.press("s")
        shown.wait_for_text("s sort: PART")
        shown.press("/click")
        shown.wait_for(lambda s: "/click_" in s.text and not row(s, "orders"))
        shown.press("\r")
        shown.wait_for_text("clicks", "q quit", "/click")
        shown.press("\x1b")
        shown.wait_for(lambda screen: bool(row(screen, "orders")))
        shown.press("p")
        shown.wait_for_text("paused")
        shown.press("p")
        shown.wait_for(lambda screen: "paused" not in screen.text)
        quit_top(shown)


def test_a_topic_and_a_group_are_opened_and_left(program: Program) -> None:
    with terminal(program, "top", *QUICK, "--filter", "orders") as shown:
        shown.wait_for_text("orders", "enter open", "disk ", "errors ")
        shown.press("s\x1b[B\x1b[B\x1b[A\x1b[A")
        shown.press("\r")
        shown.wait_for_text("escape goes back", "PARTITION", "FIRST")
        shown.press("\x1b")
        shown.wait_for_text("TOPIC", "enter open")
        shown.press("2")
        shown.press("/\x15triage\r")
        shown.wait_for(lambda screen: bool(row(screen, "triage")))
        shown.press("\r")
        shown.wait_for_text("group triage", "MEMBER", "COMMITTED", "escape back")
        quit_top(shown)


def test_dead_letters_are_opened_with_their_reasons(program: Program, api: httpx.Client) -> None:
    api.post("/topics", json={"name": "doomed", "num_partitions": 1})
    api.post("/topics/doomed/messages", json={"messages": [{"value": "{broken", "key": "k-9"}]})
    received = api.post("/queues/undertaker/receive", json={"topics": ["doomed"]}).json()
    handle = received["messages"][0]["receipt_handle"]
    api.post("/messages/reject", json={"receipt_handle": handle, "reason": "not JSON"})
    with terminal(program, "top", *QUICK, "--view", "letters", "--filter", "doomed") as shown:
        shown.wait_for_text("doomed.dlq", "enter open")
        shown.press("\r")
        shown.wait_for_text(
            "dead letters in doomed.dlq", "undertaker", "not JSON", "k-9", "{broken"
        )
        shown.wait_for_text("goqueue dlq show doomed 0:0")
        quit_top(shown)
    # Other tests count the topics and the dead letters of the node.
    for topic in ("doomed", "doomed.dlq"):
        assert api.delete(f"/topics/{topic}").is_success


def test_it_can_be_read_on_forty_columns_and_ten_lines(program: Program) -> None:
    with terminal(program, "top", *QUICK, width=40, height=10) as shown:
        text = shown.wait_for_text("orders", "clicks", "IN/s", "q quit", "dead 1")
        assert "1 topics  2  3  4  5" in text
        shown.press("2")
        shown.wait_for_text("triage", "LAG")
        shown.press("5")
        shown.wait_for_text("no transaction is open")
        quit_top(shown)


def test_a_new_size_is_a_new_picture(program: Program) -> None:
    with terminal(program, "top", *QUICK, width=40, height=10) as shown:
        shown.wait_for_text("orders")
        shown.resize(120, 30)
        text = shown.wait_for_text("MESSAGES", "SIZE", "5 node")
        assert len(text.splitlines()[-1]) > 40
        shown.resize(30, 6)
        shown.wait_for(lambda screen: "TOPIC" in screen.lines[1])
        quit_top(shown)


def test_a_node_that_goes_away_and_comes_back_is_followed(
    mortal: ServerProcess, tmp_path: Path
) -> None:
    program = Program(mortal.url, tmp_path)
    with httpx.Client(base_url=mortal.url) as api:
        api.post("/topics", json={"name": "lasting"}).raise_for_status()
    with terminal(program, "top", *QUICK) as shown:
        shown.wait_for_text("lasting", "ready")
        mortal.kill()
        shown.wait_for(lambda s: re.search(r"not reached since \d\d:\d\d:\d\d", s.text) is not None)
        assert row(shown.screen, "lasting")
        shown.press("5")
        shown.wait_for_text("5 node", "storage")
        mortal.start()
        shown.wait_for(lambda s: "not reached" not in s.text and "ready" in s.lines[0])
        shown.press("1")
        shown.wait_for_text("lasting")
        quit_top(shown)


def test_a_node_that_hangs_holds_up_neither_keys_nor_the_end(
    mortal: ServerProcess, tmp_path: Path
) -> None:
    program = Program(mortal.url, tmp_path)
    with terminal(program, "top", *QUICK, "--timeout", "1") as shown:
        shown.wait_for_text("there are no topics yet")
        mortal.signal(signal.SIGSTOP)
        try:
            shown.press("2")
            shown.wait_for_text("there are no groups yet")
            shown.wait_for_text("not reached since")
            quit_top(shown)
        finally:
            mortal.signal(signal.SIGCONT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_it_and_the_terminal_is_as_it_was(
    program: Program, number: signal.Signals
) -> None:
    with terminal(program, "top", *QUICK) as shown:
        shown.wait_for_text("orders")
        assert shown.screen.is_alternate
        shown.process.send_signal(number)
        assert shown.finish() == 0


def test_ctrl_c_is_a_way_to_quit(program: Program) -> None:
    with terminal(program, "top", *QUICK, is_controlling=True) as shown:
        shown.wait_for_text("orders")
        shown.press("\x03")
        assert shown.finish() == 0


def test_a_bug_leaves_the_terminal_as_it_was(program: Program, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import goqueue.cli.top.frame as frame\n"
        "def broken(*_): raise ZeroDivisionError('planted')\n"
        "frame._keys = broken\n"
    )
    with terminal(program, "top", *QUICK, PYTHONPATH=str(tmp_path)) as shown:
        assert shown.finish() == 1
        assert "planted" in shown.screen.text


def test_while_it_is_suspended_the_shell_has_its_terminal(program: Program) -> None:
    with terminal(program, "top", *QUICK) as shown:
        shown.wait_for_text("orders")
        shown.process.send_signal(signal.SIGTSTP)
        shown.wait_for(lambda screen: not screen.is_alternate and is_stopped(shown))
        shown.process.send_signal(signal.SIGCONT)
        shown.wait_for(lambda screen: screen.is_alternate)
        shown.wait_for_text("orders")
        quit_top(shown)


def test_colours_are_for_terminals_whose_owner_wants_them(program: Program) -> None:
    with terminal(program, "top", *QUICK) as shown:
        shown.wait_for_text("ready")
        assert shown.screen.colours
        quit_top(shown)
    with terminal(program, "top", *QUICK, NO_COLOR="1") as plain:
        plain.wait_for_text("ready")
        assert not plain.screen.colours
        quit_top(plain)


def test_without_utf_8_the_bars_are_ascii(program: Program, api: httpx.Client) -> None:
    with terminal(program, "top", *QUICK, PYTHONIOENCODING="ascii", PYTHONUTF8="0") as shown:

        def has_bars(screen: VtScreen) -> bool:
            publish(api, "orders", 1)
            return re.search(r"orders .*#", screen.text) is not None

        shown.wait_for(has_bars)
        assert shown.screen.text.isascii()
        quit_top(shown)


def test_one_picture_needs_no_terminal(program: Program) -> None:
    done = program.do("top", "--once", *QUICK)
    for words in ("orders", "triage", "orders.dlq", "critical", "this node stands alone"):
        assert words in done.text
    assert "\x1b" not in done.text
    assert all(len(line) <= 100 for line in done.lines)


def test_one_picture_of_one_view_shows_no_other(program: Program) -> None:
    shown = program.do("top", "--once", *QUICK, "--view", "groups").text
    assert "triage" in shown
    assert "TOPICS" not in shown


def test_what_groups_and_readers_take_is_a_rate_of_the_topic(
    program: Program, api: httpx.Client
) -> None:
    with terminal(program, "top", *QUICK, "--filter", "orders") as shown:

        def is_read(screen: VtScreen) -> bool:
            api.get("/topics/orders/partitions/0/messages?offset=0&limit=5").raise_for_status()
            return re.search(r"out [1-9]", screen.text) is not None

        text = shown.wait_for(is_read)
        assert "clicks" not in text
        quit_top(shown)
    stats = api.get("/stats").json()["topic_stats"]["orders"]
    assert stats["consumed_total"] >= 5
    assert stats["published_total"] >= 20


def test_one_picture_as_a_document(program: Program, node: ServerProcess) -> None:
    document = program.do("top", "-o", "json", *QUICK).json()
    assert document["server"] == node.url
    topics = {topic["name"]: topic for topic in listed(document["topics"])}
    assert topics["orders"]["publish_rate"] == 0.0
    assert topics["orders"]["partitions"] == 2
    groups = {group["name"]: group for group in listed(document["groups"])}
    assert isinstance(groups["triage"]["lag"], int)
    assert listed(document["lanes"])[0]["priority"] == "critical"
    assert "triage" in program.do("top", "-o", "yaml", *QUICK).text


def listed(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


def test_a_live_view_without_a_terminal_is_wrong_usage(program: Program) -> None:
    done = program.run("top")
    assert done.code == 2
    assert "--once" in done.err


@pytest.mark.parametrize("interval", ["0", "-1", "nan", "soon"])
def test_an_interval_that_is_none_is_wrong_usage(program: Program, interval: str) -> None:
    assert program.run("top", "--once", "--interval", interval).code == 2


@pytest.mark.parametrize("flags", [("--once",), ("-o", "json")])
def test_no_server_is_told_as_everywhere(program: Program, flags: tuple[str, ...]) -> None:
    done = program.run("top", *flags, "-s", "http://127.0.0.1:1")
    assert done.code == 3
    assert "127.0.0.1:1" in done.err


def test_no_server_at_the_start_does_not_take_the_terminal(program: Program) -> None:
    with terminal(program, "top", "-s", "http://127.0.0.1:1") as shown:
        assert shown.finish() == 3
        assert "cannot connect" in shown.screen.text


def test_a_reader_that_goes_away_is_no_failure_of_ours(program: Program) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [*PROGRAM, "top", "--once", *QUICK],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=program.environment,
    ) as process:
        os.close(writing)
        _, said = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 141
    assert said == b""
