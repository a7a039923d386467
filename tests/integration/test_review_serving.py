"""A node and the process around it: streams that nobody reads, and ends that are not clean."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.free_ports import free_ports

SERVE = [sys.executable, "-m", "goqueue.cli", "serve", "--http", "127.0.0.1:0", "--data-dir"]
# Of one that cannot say where it listens.
SERVE_AT = [*SERVE[:4], "--data-dir"]
PATIENCE_S = 60.0
_ADDRESS = re.compile(r"http://([^\s,]+)")

# The real program, but the sync of a file waits until `held` is gone, and fails then.
_FAILING_SYNC = """
import errno, os, sys, time
really, held = os.fdatasync, sys.argv.pop(1)
def sync(descriptor):
    if os.path.exists(held):
        open(held + ".reached", "w").close()
        while os.path.exists(held):
            time.sleep(0.01)
        raise OSError(errno.EIO, "planted")
    really(descriptor)
os.fdatasync = sync
# A group commit is one compiled call, which does not ask the module os; the sync of a file does.
from goqueue.runtime import OsFileSystem
from goqueue.storage import commit_in_turn
OsFileSystem.commit = lambda files, commits: commit_in_turn(commits)
from goqueue.cli.program import main
main()
"""


def ask(address: str, method: str, path: str, body: str | None = None) -> int:
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    try:
        connection.request(method, path, body)
        return connection.getresponse().status
    finally:
        connection.close()


def is_serving(address: str) -> bool:
    try:
        return ask(address, "GET", "/readyz") == 200
    except OSError:
        return False


def test_a_node_serves_although_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    log = tmp_path / "log"
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = [*SERVE_AT, str(tmp_path / "data"), "--http", address, "--log-level", "debug"]
    with log.open("w") as said:
        process = subprocess.Popen(command, stdout=writing, stderr=said)
    os.close(writing)
    try:
        _wait_for(lambda: is_serving(address))
        process.terminate()
        assert process.wait(PATIENCE_S) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text()


def test_a_node_whose_standard_streams_are_closed_serves_and_stops_cleanly(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = " ".join([*SERVE_AT, str(tmp_path / "data"), "--http", address])
    process = subprocess.Popen(["bash", "-c", f"exec {command} <&- >&- 2>&-"])
    try:
        _wait_for(lambda: is_serving(address))
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()


def test_a_journal_that_fails_while_the_node_stops_is_no_clean_stop(tmp_path: Path) -> None:
    held = tmp_path / "held"
    command = [sys.executable, "-c", _FAILING_SYNC, str(held), *SERVE[3:], str(tmp_path / "data")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = _ADDRESS.search(process.stdout.readline())
        assert found is not None
        held.touch()
        asking = threading.Thread(target=_ask_in_vain, args=(found[1],), daemon=True)
        asking.start()
        _wait_for(lambda: tmp_path.joinpath("held.reached").exists())
        process.send_signal(signal.SIGTERM)
        _wait_for(lambda: ask(found[1], "GET", "/readyz") == 503)
        held.unlink()
        _, said = process.communicate(timeout=PATIENCE_S)
        asking.join(PATIENCE_S)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 1
    assert said.splitlines()[-1].startswith("goqueue: the node cannot continue: ")
    assert "planted" in said.splitlines()[-1]


def _ask_in_vain(address: str) -> None:
    with suppress(OSError, http.client.HTTPException):
        ask(address, "POST", "/topics", '{"name": "orders"}')


def _wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_connections_leave_enough_descriptors_for_files(tmp_path: Path) -> None:
    command = " ".join([*SERVE, str(tmp_path / "data")])
    process = subprocess.Popen(
        ["bash", "-c", f"ulimit -n 512; exec {command}"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    idle: list[socket.socket] = []
    try:
        found = _ADDRESS.search(process.stdout.readline())
        assert found is not None
        host, _, port = found[1].rpartition(":")
        asking = http.client.HTTPConnection(found[1], timeout=PATIENCE_S)
        asking.request("GET", "/version")
        asking.getresponse().read()
        idle += [socket.create_connection((host, int(port)), PATIENCE_S) for _ in range(600)]

        asking.request("POST", "/topics", '{"name": "orders", "num_partitions": 20}')
        made = asking.getresponse()
        assert made.status == 201, made.read()
        asking.close()
    finally:
        for each in idle:
            each.close()
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
