"""The program: `python -m soak.spark --rows 100000 --rounds 10`.

In every round a topic is copied to another by a stream of Spark on a cluster of real processes,
while executor, driver and broker are killed in turn. A killed driver is started again with the same
checkpoint. When the copy is complete the target is read after one more crash of the broker, and
judged: each row once, those of a key in their order. Exit code 1 when a promise was broken.
"""

import argparse
import contextlib
import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

import goqueue
from goqueue.client.sync import SyncConnection
from goqueue.client.values import IsolationLevel
from soak.copies.verdict import check_numbers, check_order
from soak.servers import Servers, any_api, serve
from soak.spark.crew import Crew, Failed
from soak.spark.driver import Job

SOURCE_PARTITIONS = 4
TARGET_PARTITIONS = 3
KEYS = 200
LOOK_S = 0.05
HESITATION_S = 1.0
ROUND_S_MAX = 900
FAILURES_MAX = 3
VIOLATIONS_SHOWN = 20
BLOWS = ("executor", "driver", "broker")
END = b"end"


class Found(msgspec.Struct, frozen=True):
    """A row of the target."""

    key: str
    number: int


def main() -> int:
    options = _options()
    soak = Soak(options)
    with contextlib.ExitStack() as stack:
        home = Path(options.directory or stack.enter_context(tempfile.TemporaryDirectory()))
        servers = serve(options.nodes, home / "data", stack, "target-0")
        crew = Crew(home / "drivers", soak.chance)
        stack.callback(crew.end)
        for number in range(options.rounds):
            soak.play(number, servers, crew, home)
    return _report(options, soak)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak.spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=20, help="micro-batches of a copy")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--blows", type=int, default=len(BLOWS), help="per round, in turn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", help="keep data, checkpoints and logs here")
    return parser.parse_args()


class Soak:
    """Rounds, and what was counted and found wrong in all of them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._blows = itertools.cycle(BLOWS)
        self.chance = random.Random(options.seed)
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []

    def play(self, number: int, servers: Servers, crew: Crew, home: Path) -> None:
        """One round."""
        job = Job(
            url=servers.url,
            source=f"source-{number}",
            target=f"target-{number}",
            checkpoint=str(home / f"checkpoint-{number}"),
            rows=self._options.rows,
            keys=KEYS,
            batches=self._options.batches,
        )
        kept = {} if servers.copies == 1 else {"replication_factor": servers.copies}
        with any_api(servers) as api:
            api.create(job.source, SOURCE_PARTITIONS, **kept)
            api.create(job.target, TARGET_PARTITIONS, **kept)
        due = [next(self._blows) for _ in range(self._options.blows)]
        began = time.monotonic()
        self._run(servers, crew, job, due)
        took_s = time.monotonic() - began
        broken = self._judge(servers, job)
        self.violations += [f"round {number}: {each}" for each in broken]
        said = "sound" if not broken else f"{len(broken)} violations"
        _say(f"round {number}: killed {', '.join(due)}: {said}, {took_s:.0f} s")

    def _run(self, servers: Servers, crew: Crew, job: Job, due: list[str]) -> None:
        """Copy, and strike whenever so many batches are through."""
        deadline = time.monotonic() + ROUND_S_MAX
        waiting = list(due)
        # Spread over the copy, the last one well before its end.
        marks = [1 + job.batches * 3 * place // (4 * len(due)) for place in range(len(due))]
        crew.copy(job)
        is_done = False
        while not is_done:
            assert time.monotonic() < deadline, "the copy does not come to an end"
            if waiting and _batches(job) >= marks[len(due) - len(waiting)]:
                time.sleep(self.chance.random() * HESITATION_S)
                if _strike(waiting[0], servers, crew, job):
                    self.counts[f"killed: {waiting.pop(0)}"] += 1
            try:
                is_done = crew.is_done(LOOK_S)
            except Failed as failed:
                # As any supervisor would do; but what should have gone on and did not is told.
                self.counts["streams that gave up"] += 1
                _say(f"a stream gave up: {failed}")
                assert self.counts["streams that gave up"] <= FAILURES_MAX, "it does not go on"
                crew.kill_driver()
                crew.copy(job)
        self.counts["batches"] += _batches(job)

    def _judge(self, servers: Servers, job: Job) -> list[str]:
        """What is wrong with the copy, after one more crash."""
        servers.restart()
        with goqueue.connect_sync(servers.url) as q:
            left = [each.transactional_id for each in q.transactions.list()]
            if left:
                # Reading would wait for them.
                return [f"a transaction of {each} was left behind" for each in left]
            found = list(_read(q, job.target, "read_committed"))
            everything = sum(1 for _ in _read(q, job.target, "read_uncommitted"))
        self.counts["rows"] += len(found)
        self.counts["records of tries that did not count"] += everything - len(found)
        return [
            *check_numbers(job.rows, [each.number for each in found]),
            *check_order((each.key, each.number) for each in found),
        ]


def _strike(blow: str, servers: Servers, crew: Crew, job: Job) -> bool:
    match blow:
        case "broker":
            servers.strike()
        case "executor":
            return crew.kill_executor()
        case _:
            crew.kill_driver()
            crew.copy(job)
    return True


def _batches(job: Job) -> int:
    """How many the checkpoint says are committed."""
    return sum(1 for _ in (Path(job.checkpoint) / "commits").glob("[0-9]*"))


def _read(q: SyncConnection, topic: str, isolation: IsolationLevel) -> Iterator[Found]:
    """The rows of a topic, partition by partition."""
    for partition in range(TARGET_PARTITIONS):
        # A stream has no end: what was published before this comes before it.
        q.publish(topic, END, partition=partition, headers={"reading": isolation})
        with q.stream(topic, partition=partition, isolation=isolation) as messages:
            for message in messages:
                if message.value != END:
                    yield Found(message.key.decode(), int(message.value or b""))
                elif message.headers["reading"] == isolation.encode():
                    break


def _report(options: argparse.Namespace, soak: Soak) -> int:
    _say(f"spark: {options.rounds} rounds of {options.rows} rows, seed {options.seed}")
    for name in sorted(soak.counts):
        _say(f"  {name:40}{soak.counts[name]:>10}")
    for violation in soak.violations[:VIOLATIONS_SHOWN]:
        _say(f"  VIOLATION {violation}")
    _say(f"spark: {len(soak.violations)} violations")
    return 1 if soak.violations else 0


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
