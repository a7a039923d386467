"""The real `goqueue` program as a process: pipes, signals, terminals, a lock that another holds."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from goqueue.model import LogId, LogSettings, Message
from goqueue.records import build
from goqueue.runtime import LocalLog

PROGRAM = [sys.executable, "-m", "goqueue.cli"]
ORDERS = LogId("orders", 0)
HEAVY = ("rich", "msgspec", "cramjam", "goqueue.storage", "goqueue.records", "asyncio")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log of 20,000 messages, far more than a pipe holds."""
    with LocalLog(str(tmp_path), ORDERS, LogSettings(segment_bytes=1 << 20)) as log:
        for _ in range(20):
            log.append(build([Message(value=b"v" * 100)] * 1000))
        log.wait_for_commit(log.log.end)
    return tmp_path


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_log_made_by_the_engine_is_sound_and_dumped_in_full(root: Path) -> None:
    verified = run("log", "verify", root, "-o", "json")
    assert verified.returncode == 0
    assert msgspec.json.decode(verified.stdout)["records"] == 20_000
    dumped = msgspec.json.decode(run("log", "dump", root, "-o", "json").stdout)
    assert [message["offset"] for message in dumped] == list(range(20_000))


def test_a_log_is_verified_while_a_process_writes_to_it(root: Path) -> None:
    with LocalLog(str(root), ORDERS) as log:
        log.append(build([Message(value=b"more")] * 10))
        log.wait_for_commit(log.log.end)
        verified = run("log", "verify", root, "-o", "json")
        assert verified.returncode == 0, verified.stdout
        assert msgspec.json.decode(verified.stdout)["records"] == 20_010
        refused = run("log", "rebuild-index", root)
    assert refused.returncode == 1
    assert refused.stderr.endswith(f"is in use by another process (pid {os.getpid()})\n")


def test_damage_exits_with_1(root: Path) -> None:
    first = root / "logs" / "orders" / "0" / "00000000000000000000.log"
    with first.open("r+b") as file:
        file.seek(1000)
        file.write(b"\xff" * 10)
    verified = run("log", "verify", root, "-o", "json")
    assert verified.returncode == 1
    document = msgspec.json.decode(verified.stdout)
    assert [problem["kind"] for problem in document["problems"]] == ["damage"]
    assert document["records"] == 19_999
    assert run("log", "dump", root).returncode == 1
    assert run("log", "rebuild-index", root).returncode == 1


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_a_reader_that_goes_away_ends_the_program_quietly(root: Path, output: str) -> None:
    command = [*PROGRAM, "log", "dump", str(root), "-o", output]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


def test_an_interrupt_ends_the_program_with_130_and_no_traceback(root: Path) -> None:
    command = [*PROGRAM, "log", "dump", str(root), "-o", "json"]
    # A shell starts what it runs in the background with interrupts ignored, which is inherited.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        assert process.stdout is not None
        # It has begun, and now waits for a reader of the full pipe.
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip() == b""


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from goqueue.cli.program import run; run(['--help']);"
        f"sys.exit(','.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == "\n"
    assert "Usage:" in done.stdout


def test_a_terminal_that_knows_only_ascii_gets_escapes(tmp_path: Path) -> None:
    with LocalLog(str(tmp_path), ORDERS) as log:
        log.append(build([Message(key="é".encode(), value="ü".encode() * 200)]))
        log.wait_for_commit(log.log.end)
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for command in ("dump", "stats", "verify"):
        done = subprocess.run(
            [*PROGRAM, "log", command, str(tmp_path)],
            capture_output=True,
            check=False,
            env=environment,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii()


@pytest.mark.parametrize("command", ["verify", "rebuild-index"])
def test_a_bar_shows_progress_on_a_terminal_and_only_there(root: Path, command: str) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    done = subprocess.run(
        [*PROGRAM, "log", command, str(root), "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=False,
        env=environment,
        timeout=60,
    )
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert b"verifying" in shown or b"indexing" in shown
    assert msgspec.json.decode(done.stdout)["problems"] == []
    assert run("log", command, root).stderr == ""


def test_a_file_system_that_is_read_only_for_us_can_be_verified(root: Path) -> None:
    for path in [*root.rglob("*"), root]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        for command in ("verify", "stats"):
            assert run("log", command, root).returncode == 0
    finally:
        for path in [root, *root.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
