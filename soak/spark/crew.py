"""The driver and its executors, and what is done to them.

Owns every process of the sessions that it started. A killed driver takes nobody along: its
executors find out by themselves, and until then they are zombies.
"""

import os
import queue
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from soak.spark.driver import DONE, READY, Job
from tests.integration.spark.sessions import ROOT

__all__ = ["Crew", "Failed"]

START_S_MAX = 180
_MACHINE = b"org.apache.spark.deploy.SparkSubmit"
_EXECUTOR = b"CoarseGrainedExecutorBackend"


class Failed(Exception):
    """The driver ended by itself; with what it said."""


class Crew:
    """One driver at a time."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._hired = 0
        self._sessions: list[int] = []
        self._driver: subprocess.Popen[str] | None = None
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()

    def copy(self, job: Job) -> None:
        """Let the driver begin a copy; one is started if there is none."""
        driver = self._driver or self._hire()
        assert driver.stdin is not None
        driver.stdin.write(msgspec.json.encode(job).decode() + "\n")
        driver.stdin.flush()

    def is_done(self, wait_s: float) -> bool:
        """Whether the copy came to its end within this time; raises if the driver did."""
        try:
            word = self._heard.get(timeout=wait_s)
        except queue.Empty:
            return False
        if word == DONE:
            return True
        raise Failed(self._errors().read_text(errors="replace")[-4000:])

    def kill_driver(self) -> None:
        """Program and virtual machine, at once; its executors are left alone."""
        assert self._driver is not None
        session = self._sessions[-1]
        machines = [each for each in _members(session) if _says(each, _MACHINE)]
        for process in (self._driver.pid, *machines):
            _kill(process)
        self._driver.wait()
        self._driver = None

    def kill_executor(self) -> bool:
        """One of them; False if there was none just now."""
        executors = [each for each in _members(self._sessions[-1]) if _says(each, _EXECUTOR)]
        if not executors:
            return False
        _kill(self._chance.choice(sorted(executors)))
        return True

    def end(self) -> None:
        """Kill whoever is left of all that were started."""
        for session in self._sessions:
            for process in _members(session):
                _kill(process)
        if self._driver is not None:
            self._driver.wait()
            self._driver = None

    def _hire(self) -> subprocess.Popen[str]:
        self._hired += 1
        folder = self._folder / f"driver-{self._hired:03}"
        folder.mkdir(parents=True)
        with self._errors().open("wb") as errors:
            driver = subprocess.Popen(
                [sys.executable, "-m", "soak.spark.driver", str(folder)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._sessions.append(driver.pid)
        self._driver = driver
        self._heard = queue.SimpleQueue()
        threading.Thread(target=_listen, args=(driver, self._heard), daemon=True).start()
        if self._heard.get(timeout=START_S_MAX) != READY:
            raise Failed(self._errors().read_text(errors="replace")[-4000:])
        return driver

    def _errors(self) -> Path:
        return self._folder / f"driver-{self._hired:03}" / "errors"


def _listen(driver: subprocess.Popen[str], heard: "queue.SimpleQueue[str]") -> None:
    """Read what a driver says, in a thread, because a pipe knows no time limit."""
    assert driver.stdout is not None
    for line in driver.stdout:
        if line.strip() in (READY, DONE):
            heard.put(line.strip())
    heard.put("")


def _members(session: int) -> Iterator[int]:
    """The processes of a session of the system."""
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                stat = (place / "stat").read_text(encoding="ascii", errors="replace")
            except OSError:
                continue
            if int(stat.rsplit(")", 1)[1].split()[3]) == session:
                yield int(place.name)


def _says(process: int, word: bytes) -> bool:
    """Whether the word is in its command."""
    try:
        return word in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return
