"""`goqueue worker` as a person uses it: what it runs, what it refuses, and reload."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from goqueue.client.connection import Connection
from tests.integration.sdk_scenes import Name, play
from tests.integration.server_process import ServerProcess
from tests.integration.worker_scenes import offer

PROGRAM = [sys.executable, "-m", "goqueue.cli"]
SECONDS_MAX = 60
APP = """
import goqueue

worker = goqueue.Worker({group!r})


@worker.handler({topic!r})
async def work(job: dict[str, int]) -> None:
    print({word!r}, job["id"], flush=True)


class Settings:
    empty = goqueue.Worker("empty")
    names = []
"""


def run(*arguments: str, cwd: Path, server: str = "http://127.0.0.1:1") -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    ran = subprocess.run(
        [*PROGRAM, *arguments],
        cwd=cwd,
        env={**os.environ, "GOQUEUE_SERVER": server},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


def write_app(folder: Path, topic: str, word: str = "job") -> None:
    """Replaced as editors do it: never seen half written."""
    new = folder / "app.new"
    new.write_text(APP.format(group=topic, topic=topic, word=word))
    new.replace(folder / "app.py")


def test_a_worker_of_the_current_directory_runs_until_nothing_is_left(
    node: ServerProcess, name: Name, tmp_path: Path
) -> None:
    topic = name()
    play(node, lambda q: offer(q, topic, 3))
    write_app(tmp_path, topic)
    code, out, err = run("worker", "app:worker", "--until-idle", cwd=tmp_path, server=node.url)
    assert (code, sorted(out.split("\n"))) == (0, ["", "job 0", "job 1", "job 2"])
    assert f"handling {topic} by work (10 tasks)" in err
    assert "3 acked" in err


def test_every_line_that_a_handler_logs_is_in_the_log(
    node: ServerProcess, name: Name, tmp_path: Path
) -> None:
    topic = name()
    play(node, lambda q: offer(q, topic, 100))
    write_app(tmp_path, topic)
    app = tmp_path / "app.py"
    app.write_text(app.read_text().replace("print(", "logging.getLogger('shop').info('%s %s', "))
    app.write_text("import logging\n" + app.read_text().replace(", flush=True", ""))
    command = ("worker", "app:worker", "--until-idle", "--log-format", "json")
    code, _, err = run(*command, cwd=tmp_path, server=node.url)
    assert code == 0
    lines = [msgspec.json.decode(line) for line in err.splitlines()]
    said = {line["message"] for line in lines if line["logger"] == "shop"}
    assert said == {f"job {number}" for number in range(100)}
    assert lines[-1]["message"].endswith(
        "stopped; 100 acked, 0 retried, 0 dead-lettered, 0 released, 0 lost"
    )


def test_flags_name_the_server(node: ServerProcess, name: Name, tmp_path: Path) -> None:
    topic = name()
    play(node, lambda q: offer(q, topic, 1))
    write_app(tmp_path, topic)
    code, out, _ = run("worker", "app:worker", "--until-idle", "-s", node.url, cwd=tmp_path)
    assert (code, out) == (0, "job 0\n")


@pytest.mark.parametrize(
    ("app", "words", "code"),
    [
        ("app", "'app' is not MODULE:WORKER, such as app:worker", 2),
        ("app.py:worker", "name the module, not its file", 2),
        ("./app:worker", "name the module, not its file", 2),
        ("app:", "is not MODULE:WORKER", 2),
        ("ap:worker", "there is no module 'ap' in", 2),
        ("app.sub:worker", "there is no module 'app.sub' in", 2),
        ("app:woker", "app has no 'woker'; did you mean 'worker'?", 2),
        ("app:work", "app.work is a function, not a goqueue.Worker", 2),
        ("app:Settings.names", "app.Settings.names is a list, not a goqueue.Worker", 2),
        ("app:Settings.empty", "app.Settings.empty has no handler", 2),
        ("needy:worker", "needy.py, line 2: ModuleNotFoundError: No module named 'nowhere'", 1),
        ("wrong:worker", "wrong.py, line 1: SyntaxError", 1),
        ("untyped:worker", "untyped.py, line 3: TypeError: work: job has no annotation", 1),
    ],
)
def test_what_is_wrong_with_the_name_or_the_module_is_one_line(
    tmp_path: Path, app: str, words: str, code: int
) -> None:
    write_app(tmp_path, "orders")
    (tmp_path / "needy.py").write_text("import os\nimport nowhere\n")
    (tmp_path / "wrong.py").write_text("def work(:\n")
    untyped = (
        "import goqueue\nworker = goqueue.Worker('g')\n@worker.handler('t')\ndef work(job): ...\n"
    )
    (tmp_path / "untyped.py").write_text(untyped)
    ended, out, err = run("worker", app, cwd=tmp_path)
    assert (ended, out) == (code, "")
    assert err.count("\n") == 1, err
    assert words in err


def test_a_topic_that_does_not_exist_is_one_line(
    node: ServerProcess, name: Name, tmp_path: Path
) -> None:
    topic = name()
    write_app(tmp_path, topic)
    code, out, err = run(
        "worker", "app:worker", "--log-level", "error", cwd=tmp_path, server=node.url
    )
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "topic_not_found" in err


class Lines:
    """The lines of a process, as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._process = process
        threading.Thread(target=self._listen, daemon=True).start()

    def wait_for(self, words: str) -> None:
        while words not in self._lines.get(timeout=SECONDS_MAX):
            pass

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)


@contextmanager
def reloading(folder: Path, server: str) -> Iterator[tuple[subprocess.Popen[str], Lines]]:
    # A shell starts what it runs in the background with interrupts ignored, which is inherited.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [*PROGRAM, "worker", "--reload", "app:worker", "--log-level", "info"],
            cwd=folder,
            env={**os.environ, "GOQUEUE_SERVER": server},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        try:
            yield process, Lines(process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(SECONDS_MAX)


def test_a_change_of_a_source_starts_the_worker_again(
    node: ServerProcess, name: Name, tmp_path: Path
) -> None:
    topic = name()

    def publish() -> None:
        async def scene(q: Connection) -> None:
            await q.publish(topic, {"id": 7})

        play(node, scene)

    play(node, lambda q: offer(q, topic, 0))
    write_app(tmp_path, topic, "first")
    with reloading(tmp_path, node.url) as (process, lines):
        publish()
        lines.wait_for("first 7")
        write_app(tmp_path, topic, "second")
        lines.wait_for("app.py has changed: starting again")
        publish()
        lines.wait_for("second 7")
        (tmp_path / "app.py").write_text("def work(:\n")
        lines.wait_for("SyntaxError")
        lines.wait_for("it starts again when a file changes")
        write_app(tmp_path, topic, "third")
        publish()
        lines.wait_for("third 7")
        process.send_signal(signal.SIGINT)
        lines.wait_for("stopped;")
        assert process.wait(SECONDS_MAX) == 0


def test_reload_does_not_go_with_an_end(tmp_path: Path) -> None:
    code, _, err = run("worker", "app:worker", "--reload", "--until-idle", cwd=tmp_path)
    assert code == 2
    assert "exclude each other" in err
