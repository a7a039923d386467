"""What a real node writes to its log when it starts, dies, stops, fills up, or is abused."""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import goqueue
from goqueue.records import walk
from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess, serving
from tests.integration.small_disk import mounted

SECONDS_MAX = 60
Connect = Callable[[ServerProcess], Api]


def events(node: ServerProcess, name: str) -> list[dict[str, str]]:
    """The fields of the lines of one event, in order; values in quotes only up to a space."""
    found = []
    for line in node.said.splitlines():
        _, _, rest = line.partition(f" {name}: ")
        if rest:
            fields = (word.partition("=") for word in rest.split() if "=" in word)
            found.append({field: value for field, _, value in fields})
    return found


def wait_for(node: ServerProcess, name: str, count: int = 1) -> list[dict[str, str]]:
    deadline = time.monotonic() + SECONDS_MAX
    while len(found := events(node, name)) < count:
        assert time.monotonic() < deadline, f"no {name}:\n{node.said}"
        time.sleep(0.02)
    return found


def test_a_start_after_kill_nine_tells_of_the_crash_and_of_recovery(
    mortal: ServerProcess, connect: Connect
) -> None:
    [starting] = wait_for(mortal, "node_starting")
    assert starting["version"] == goqueue.__version__
    assert starting["previous_end"] == "none"
    assert starting["data_dir"] == str(mortal.directory)
    api = connect(mortal)
    api.create("orders", 2)
    api.publish("orders", *["message"] * 100)
    api.close()
    # The line of the first start is written after the node listens: do not kill it before.
    wait_for(mortal, "node_recovered")

    mortal.kill()
    # A torn write: the disk got a part of what the process wrote last.
    path = mortal.directory / "logs" / "orders" / "0" / f"{0:020d}.log"
    with path.open("ab") as file:
        file.write(b"\1" * 33)
    mortal.start()

    starting = wait_for(mortal, "node_starting", 2)[1]
    assert starting["previous_end"] == "crash"
    [torn] = wait_for(mortal, "torn_write_removed")
    assert (torn["log"], torn["removed_bytes"]) == ("orders-0", "33")
    recovered = wait_for(mortal, "node_recovered", 2)[1]
    assert recovered["previous_end"] == "crash"
    assert (recovered["topics"], recovered["partitions"]) == ("1", "2")
    # Both partitions and both journals.
    assert recovered["logs_opened"] == "5"
    assert int(recovered["removed_bytes"]) == 33
    assert int(recovered["data_bytes"]) > 100 * len("message")
    assert float(recovered["recovery_s"]) > 0


def test_a_stop_tells_why_and_how_long_it_took_and_the_next_start_that_it_was_clean(
    mortal: ServerProcess,
) -> None:
    wait_for(mortal, "node_recovered")
    assert mortal.stop() == 0
    [stopping] = wait_for(mortal, "node_stopping")
    assert stopping["reason"] == "SIGTERM"
    [stopped] = wait_for(mortal, "node_stopped")
    assert 0 <= float(stopped["stop_s"]) <= float(stopped["uptime_s"])
    mortal.start()
    assert wait_for(mortal, "node_starting", 2)[1]["previous_end"] == "clean"
    assert wait_for(mortal, "node_recovered", 2)[1]["scanned_bytes"] == "0"


def test_a_full_disk_is_told_when_it_begins_and_when_it_ends(
    tmp_path: Path, connect: Connect
) -> None:
    with (
        mounted(tmp_path / "disk", 8 << 20) as disk,
        serving(disk / "data") as node,
    ):
        api = connect(node)
        api.create("orders")
        ballast = disk / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        body = {"messages": [{"value": "x" * 100_000}]}
        assert api.ask("POST", "/topics/orders/messages", body).status == 507
        [full] = wait_for(node, "disk_full")
        assert full["logs"] == "orders-0"
        failed = wait_for(node, "request_failed")[0]
        assert (failed["status"], failed["code"]) == ("507", "storage_full")
        assert failed["reason"].startswith('"The')

        ballast.unlink()
        deadline = time.monotonic() + SECONDS_MAX
        while api.ask("POST", "/topics/orders/messages", body).status != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        [free] = wait_for(node, "disk_free")
        assert float(free["full_s"]) > 0
        assert len(events(node, "disk_full")) == 1


def test_damage_is_told_when_it_is_read(mortal: ServerProcess, connect: Connect) -> None:
    api = connect(mortal)
    api.create("orders")
    api.publish("orders", "a" * 50, "b" * 50, "c" * 50)
    api.close()
    mortal.stop()
    path = mortal.directory / "logs" / "orders" / "0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[walk(data).positions[1] + 40] ^= 1
    path.write_bytes(data)
    mortal.start()
    api = connect(mortal)
    for _ in range(3):
        answer = api.ask("GET", "/topics/orders/partitions/0/messages", offset=1)
        assert answer.code == "records_damaged"
    [damage] = wait_for(mortal, "records_damaged")
    assert (damage["log"], damage["first"], damage["next_offset"]) == ("orders-0", "1", "2")


def test_topics_members_and_dead_letters_are_told(mortal: ServerProcess, connect: Connect) -> None:
    api = connect(mortal)
    api.create("orders", max_deliveries=1)
    api.do("PATCH", "/topics/orders", {"max_deliveries": 2})
    api.publish("orders", "bad")
    member = api.join("workers", "orders", session_timeout="1s")
    [message] = member.take(1)
    reason = "no such customer\n2026-11-16T00:00:00.000Z ERROR node_halted: forged"
    api.post("/messages/reject", {"receipt_handle": message["receipt_handle"], "reason": reason})
    [dead] = wait_for(mortal, "messages_dead_lettered")
    assert (dead["topic"], dead["group"], dead["offset"]) == ("orders", "workers", "0")
    assert (dead["cause"], dead["dead_letter_topic"]) == ("rejected", "orders.dlq")
    # What a consumer said stays in its line, and forges no other.
    assert '"no such customer\\n2026' in mortal.said
    assert not any(line.startswith("2026-11-16T00:00") for line in mortal.said.splitlines())
    # It sends no heartbeat.
    [lost] = wait_for(mortal, "members_lost")
    assert (lost["group"], lost["remaining"]) == ("workers", "0")
    assert member.id in mortal.said
    assert [each["trigger"] for each in wait_for(mortal, "group_rebalanced", 2)] == [
        "join",
        "session_timeout",
    ]
    api.close()
    connect(mortal).do("DELETE", "/topics/orders")
    assert wait_for(mortal, "topic_deleted")[0]["topic"] == "orders"
    assert [each["topic"] for each in events(mortal, "topic_created")] == ["orders", "orders.dlq"]
    assert len(events(mortal, "topic_changed")) == 1


def test_refused_requests_are_sampled_and_counted_and_show_no_query(
    mortal: ServerProcess, connect: Connect
) -> None:
    api = connect(mortal)
    for number in range(50):
        assert api.ask("GET", f"/topics/none-{number}", api_key="hidden").status == 400
    refused = wait_for(mortal, "request_refused", 3)
    assert refused[0]["client"] == "127.0.0.1"
    assert (refused[0]["path"], refused[0]["code"]) == ("/topics/none-0", "request_invalid")
    api.close()
    mortal.stop()
    # Three lines, and one that counts the others.
    *_, last = events(mortal, "request_refused")
    assert len(events(mortal, "request_refused")) == 4
    assert (last["code"], last["repeated"]) == ("request_invalid", "47")
    assert "hidden" not in mortal.said


class JsonNode:
    """A node whose log a program reads."""

    def __init__(self, directory: Path, *flags: str) -> None:
        command = [sys.executable, "-m", "goqueue.cli", "serve", "--http", "127.0.0.1:0"]
        command += ["--log-format", "json", "--data-dir", str(directory), *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        self.lines: list[dict[str, Any]] = []
        starting = self.wait_for("node_starting")
        self.url = starting["address"][0]
        self.wait_for("node_recovered")

    def wait_for(self, event: str) -> dict[str, Any]:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(msgspec.json.decode(line))
            if self.lines[-1]["event"] == event:
                return self.lines[-1]
        raise AssertionError(f"no {event}: {self.lines}")


@pytest.fixture
def json_node(tmp_path: Path) -> Iterator[JsonNode]:
    node = JsonNode(tmp_path / "data", "--log-access")
    yield node
    node.process.kill()
    node.process.communicate()


def test_a_program_reads_the_whole_log_as_json_with_every_request(json_node: JsonNode) -> None:
    api = Api(json_node.url)
    api.send("GET", "/topics", headers={"X-Request-ID": "mine-1"})
    access = json_node.wait_for("access")
    assert access["time"].endswith("Z")
    assert (access["client"], access["method"], access["path"]) == ("127.0.0.1", "GET", "/topics")
    assert (access["status"], access["request_id"]) == (200, "mine-1")
    assert access["bytes"] > 0
    assert access["duration_ms"] > 0
    api.close()
    json_node.process.send_signal(signal.SIGINT)
    assert json_node.wait_for("node_stopping")["reason"] == "SIGINT"
    json_node.wait_for("node_stopped")
    out, _ = json_node.process.communicate(timeout=SECONDS_MAX)
    assert out == b""
    assert json_node.process.returncode == 0


def test_a_tail_is_in_the_access_log_when_it_ends(json_node: JsonNode) -> None:
    api = Api(json_node.url)
    api.create("orders")
    assert json_node.wait_for("access")["path"] == "/topics"
    address = urllib.parse.urlsplit(json_node.url).netloc
    tail = http.client.HTTPConnection(address, timeout=SECONDS_MAX)
    tail.request("GET", "/topics/orders/tail")
    assert tail.getresponse().readline() == b"retry: 1000\n"
    api.publish("orders", "a")
    # The tail began before this request, and its line comes behind it.
    assert json_node.wait_for("access")["path"] == "/topics/orders/messages"
    tail.close()
    ended = json_node.wait_for("access")
    assert (ended["path"], ended["status"]) == ("/topics/orders/tail", 200)
    assert ended["bytes"] > len("retry: 1000\n")
    api.close()


def test_a_long_poll_whose_client_left_is_in_the_access_log(json_node: JsonNode) -> None:
    api = Api(json_node.url)
    api.create("orders")
    json_node.wait_for("access")
    address = urllib.parse.urlsplit(json_node.url).netloc
    poll = http.client.HTTPConnection(address, timeout=SECONDS_MAX)
    body = '{"topic": "orders", "wait": "20s"}'
    poll.request("POST", "/queues/billing/receive", body, {"Content-Type": "application/json"})
    while api.send("GET", "/groups").body["groups"] == []:
        json_node.wait_for("access")
    poll.close()
    while (left := json_node.wait_for("access"))["path"] == "/groups":
        pass
    assert (left["path"], left["status"]) == ("/queues/billing/receive", 499)
    api.close()


def test_a_node_serves_on_while_nobody_reads_its_access_log(json_node: JsonNode) -> None:
    api = Api(json_node.url)
    # A pipe holds 64 KiB: a node that waited for its reader would answer some hundred requests.
    for _ in range(2_000):
        assert api.ask("GET", "/healthz").status == 200
    api.close()
    stop = threading.Timer(0, os.kill, (json_node.process.pid, signal.SIGTERM))
    stop.start()
    json_node.wait_for("node_stopped")
    stop.join()
