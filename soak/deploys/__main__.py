"""The program: `python -m soak.deploys --seconds 600 --deploy-every 5 --kill-every 30`.

Publishes all the time, and replaces every worker again and again: the new one is started, the old
one told to stop. Now and then one is killed instead. When everything is handled, the notes of all
workers are judged. Exit code 1 when a promise was broken.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import goqueue
from soak.deploys.verdict import GROUP, TOPICS, Verdict, judge, read_notes
from tests.integration.server_process import ServerProcess, serving

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "goqueue.cli", "worker", "soak.deploys.app:worker"]
STOP_S_MAX = 30
DRAIN_S_MAX = 120
VIOLATIONS_SHOWN = 20
KEYS = 100
LOOK_S = 0.1


class Fleet:
    """The workers that are deployed, and those that were."""

    def __init__(self, url: str, notes: Path) -> None:
        self._environment = {**os.environ, "GOQUEUE_SERVER": url, "SOAK_NOTES": str(notes)}
        self._notes = notes
        self._log = (notes / "workers.log").open("ab")
        self._running: list[subprocess.Popen[bytes]] = []
        self.killed: set[int] = set()
        self.deploys = 0

    def start(self) -> None:
        self._running.append(
            subprocess.Popen(
                [*COMMAND, "--log-level", "warning"],
                cwd=ROOT,
                env=self._environment,
                stderr=self._log,
            )
        )

    def deploy(self) -> None:
        """Replace every worker: the new one comes before the old one goes."""
        self.deploys += 1
        for old in list(self._running):
            self.start()
            self._stop(old)

    def kill_one(self, chance: random.Random) -> None:
        victim = chance.choice(self._running)
        self._running.remove(victim)
        self.killed.add(victim.pid)
        victim.kill()
        victim.wait()
        self.start()

    def end(self) -> None:
        for worker in list(self._running):
            self._stop(worker)

    def close(self) -> None:
        """Leave no process behind, whatever has failed."""
        for worker in self._running:
            worker.kill()
            worker.wait()
        self._log.close()

    def _stop(self, worker: subprocess.Popen[bytes]) -> None:
        self._running.remove(worker)
        worker.terminate()
        try:
            code = worker.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            worker.kill()
            raise SystemExit(f"worker {worker.pid} did not stop in {STOP_S_MAX} s") from None
        if code != 0 and not (code == -signal.SIGTERM and self._has_no_note(worker)):
            raise SystemExit(f"worker {worker.pid} stopped with exit code {code}")

    def _has_no_note(self, worker: subprocess.Popen[bytes]) -> bool:
        """Whether it was told so early that Python itself was still starting: nothing has begun."""
        path = self._notes / f"{worker.pid}.notes"
        return not path.exists() or not path.stat().st_size


class Publisher(threading.Thread):
    """Publishes at a rate until it is told to end; keeps what it published."""

    def __init__(self, url: str, per_second: int) -> None:
        super().__init__(name="publisher")
        self._url = url
        self._per_second = per_second
        self._is_ending = threading.Event()
        self.published: list[str] = []

    def run(self) -> None:
        began = time.monotonic()
        with goqueue.connect_sync(self._url) as q, q.producer() as producer:
            while not self._is_ending.wait(0.02):
                due = int((time.monotonic() - began) * self._per_second)
                for number in range(len(self.published), due):
                    topic = TOPICS[number % len(TOPICS)]
                    producer.send(topic, f"m{number}", key=f"k{number % KEYS}")
                    self.published.append(f"m{number}")

    def end(self) -> None:
        self._is_ending.set()
        self.join()


def main() -> int:
    options = _options()
    with contextlib.ExitStack() as stack:
        directory = options.directory or stack.enter_context(tempfile.TemporaryDirectory())
        notes = Path(directory) / "notes"
        notes.mkdir(parents=True)
        with serving(Path(directory) / "data") as server:
            verdict = _run(server, notes, options)
    _say(f"soak: {options.seconds:g} s, seed {options.seed}")
    for name, count in verdict.counts.items():
        _say(f"  {name:32}{count:>10}")
    for violation in verdict.violations[:VIOLATIONS_SHOWN]:
        _say(f"  VIOLATION {violation}")
    _say(f"soak: {len(verdict.violations)} violations")
    return 1 if verdict.violations else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak.deploys", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long there is traffic")
    parser.add_argument("--deploy-every", type=float, default=5, help="seconds between two deploys")
    parser.add_argument("--kill-every", type=float, default=30, help="seconds; 0 kills nobody")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rate", type=int, default=200, help="messages a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", help="keep data and notes here")
    return parser.parse_args()


def _run(server: ServerProcess, notes: Path, options: argparse.Namespace) -> Verdict:
    with goqueue.connect_sync(server.url) as q:
        for topic in TOPICS:
            # Kills are no fault of a message, however often they hit it.
            q.topics.create(topic, partitions=3, visibility_timeout="1s", max_deliveries=0)
    fleet = Fleet(server.url, notes)
    publisher = Publisher(server.url, options.rate)
    with contextlib.closing(fleet):
        for _ in range(options.workers):
            fleet.start()
        publisher.start()
        try:
            _disturb(fleet, options)
        finally:
            publisher.end()
        _wait_until_settled(server)
        fleet.end()
    with goqueue.connect_sync(server.url) as q:
        dead_letters = sum(len(q.dead_letters.list(topic)) for topic in TOPICS)
    noted = {}
    for path in sorted(notes.glob("*.notes")):
        with path.open() as lines:
            noted[int(path.stem)] = read_notes(lines)
    killed = frozenset(fleet.killed)
    verdict = judge(publisher.published, noted, killed, dead_letters=dead_letters)
    verdict.counts["deploys"] = fleet.deploys
    return verdict


def _disturb(fleet: Fleet, options: argparse.Namespace) -> None:
    chance = random.Random(options.seed)
    now = time.monotonic()
    end, next_deploy = now + options.seconds, now + options.deploy_every
    is_killing, next_kill = options.kill_every > 0, now + options.kill_every
    # On a slow machine a short soak continues until each of both has happened once.
    while time.monotonic() < end or not fleet.deploys or (is_killing and not fleet.killed):
        threading.Event().wait(LOOK_S)
        if time.monotonic() >= next_deploy:
            fleet.deploy()
            next_deploy = time.monotonic() + options.deploy_every * chance.uniform(0.3, 1.7)
        if is_killing and time.monotonic() >= next_kill:
            fleet.kill_one(chance)
            next_kill = time.monotonic() + options.kill_every * chance.uniform(0.3, 1.7)


def _wait_until_settled(server: ServerProcess) -> None:
    deadline = time.monotonic() + DRAIN_S_MAX
    with goqueue.connect_sync(server.url) as q:
        while not _is_settled(q) and time.monotonic() < deadline:
            threading.Event().wait(LOOK_S)


def _is_settled(q: goqueue.SyncConnection) -> bool:
    try:
        return q.groups.lag(GROUP).total_lag == 0
    except goqueue.NotFound:
        # No worker has joined yet: they take long to start beside other load.
        return False


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
