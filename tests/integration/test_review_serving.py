"""A node and the process around it: streams that nobody reads, and ends that are not clean."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

SERVE = [sys.executable, "-m", "goqueue.cli", "serve", "--http", "127.0.0.1:0", "--data-dir"]
PATIENCE_S = 30.0
_ADDRESS = re.compile(r"http://[^\s,]+")

# The real program, but the sync of a file waits until `held` is gone, and fails then.
_FAILING_SYNC = """
import errno, os, sys, time
really, held = os.fdatasync, sys.argv.pop(1)
def sync(descriptor):
    if os.path.exists(held):
        while os.path.exists(held):
            time.sleep(0.01)
        raise OSError(errno.EIO, "planted")
    really(descriptor)
os.fdatasync = sync
from goqueue.cli.program import main
main()
"""


def post(url: str, path: str, body: object) -> None:
    request = urllib.request.Request(url + path, data=json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        response.read()


def test_a_node_serves_although_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    log = tmp_path / "log"
    with log.open("w") as said:
        process = subprocess.Popen(
            [*SERVE, str(tmp_path / "data"), "--log-level", "debug"], stdout=writing, stderr=said
        )
    os.close(writing)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text()


def test_a_node_whose_standard_streams_are_closed_serves_and_stops_cleanly(tmp_path: Path) -> None:
    command = " ".join([*SERVE, str(tmp_path / "data")])
    process = subprocess.Popen(["bash", "-c", f"exec {command} <&- >&- 2>&-"])
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
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
        url = found[0]
        held.touch()
        asking = threading.Thread(target=_ask_in_vain, args=(url,), daemon=True)
        asking.start()
        _wait_until_asked(url)
        process.send_signal(signal.SIGTERM)
        _wait_until_stopping(url)
        held.unlink()
        _, said = process.communicate(timeout=PATIENCE_S)
        asking.join(PATIENCE_S)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 1
    assert said.splitlines()[-1].startswith("goqueue: the node cannot go on: ")
    assert "planted" in said.splitlines()[-1]


def _ask_in_vain(url: str) -> None:
    with pytest.raises(OSError):
        post(url, "/topics", {"name": "orders"})


def _wait_until_asked(url: str) -> None:
    """The topic is in the making: a second request for it is refused."""
    while True:
        try:
            post(url, "/topics", {"name": "orders"})
        except urllib.error.HTTPError as refused:
            assert refused.code == 409
            return


def _wait_until_stopping(url: str) -> None:
    while True:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=PATIENCE_S):
                pass
        except urllib.error.HTTPError as refused:
            assert refused.code == 503
            return
