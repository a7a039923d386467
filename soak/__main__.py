"""The program: `python -m soak --seconds 600 --kill-every 20`.

Starts a node and its workers, kills the node again and again, lets the workers settle what is
left, and judges what they noted. Exit code 1 when a promise was broken.
"""

import argparse
import contextlib
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

from soak.journal import Journal, read_journals
from soak.verdict import Holdings, Letter, Verdict, judge
from soak.workers import TOPIC, Signals, Work, consume, produce, read
from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess, serving

PARTITIONS = 4
MODES = ("partitioned", "shared", "key_ordered")
DRAIN_S_MAX = 120
VIOLATIONS_SHOWN = 20


def main() -> int:
    options = _options()
    with contextlib.ExitStack() as stack:
        directory = options.directory or stack.enter_context(tempfile.TemporaryDirectory())
        home = Path(directory)
        journals = home / "journals"
        journals.mkdir(parents=True)
        with serving(home / "data") as server:
            kills = _run(server, journals, options)
            holdings = _holdings(server, tuple(kills))
            _say(f"the node stopped with exit code {server.stop()}")
        verdict = judge(read_journals(journals), holdings)
    return _report(verdict, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long there is traffic")
    parser.add_argument("--kill-every", type=float, default=20, help="seconds between two kills")
    parser.add_argument("--kills-min", type=int, default=1, help="continue until as many kills")
    parser.add_argument("--producers", type=int, default=3)
    parser.add_argument("--members", type=int, default=2, help="members of each group")
    parser.add_argument("--rate", type=int, default=50, help="messages a second and producer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", help="keep data and journals here")
    return parser.parse_args()


def _run(server: ServerProcess, journals: Path, options: argparse.Namespace) -> list[int]:
    """Traffic and kills, then peace until everything is settled; when the node was killed."""
    with contextlib.closing(Api(server.url)) as api:
        api.create(TOPIC, PARTITIONS)
    context = multiprocessing.get_context("spawn")
    signals = Signals(context.Event(), context.Event(), context.Event())
    with _at_work(_crew(context, server.url, journals, signals, options), signals):
        kills = _kill_for(server, options)
        signals.is_quiet.set()
        signals.is_draining.set()
        _wait_until_settled(server)
    return kills


def _crew(
    context: multiprocessing.context.SpawnContext,
    url: str,
    journals: Path,
    signals: Signals,
    options: argparse.Namespace,
) -> list[BaseProcess]:
    """The workers, not yet started."""
    chance = random.Random(options.seed)

    def hire(task: Callable[..., None], work: Work, *details: object) -> BaseProcess:
        return context.Process(target=task, args=(work, signals, *details), name=work.name)

    def work(name: str, mode: str = "") -> Work:
        seed = chance.randrange(2**32)
        return Work(url, str(journals), name, seed, mode, mode, tuple(range(PARTITIONS)))

    producers = [
        hire(produce, work(f"producer{number}"), options.rate)
        for number in range(options.producers)
    ]
    consumers = [
        hire(consume, work(f"{mode}{number}", mode))
        for mode in MODES
        for number in range(options.members)
    ]
    return [*producers, *consumers, hire(read, work("reader"))]


@contextlib.contextmanager
def _at_work(crew: list[BaseProcess], signals: Signals) -> Iterator[None]:
    """Workers run as long as the block; one that failed fails the run."""
    for worker in crew:
        worker.start()
    try:
        yield
    finally:
        signals.is_over.set()
        for worker in crew:
            worker.join(DRAIN_S_MAX)
    failed = [worker.name for worker in crew if worker.exitcode != 0]
    if failed:
        raise SystemExit(f"these workers failed: {', '.join(failed)}")


def _kill_for(server: ServerProcess, options: argparse.Namespace) -> list[int]:
    chance = random.Random(options.seed)
    kills: list[int] = []
    end = time.monotonic() + options.seconds
    while True:
        pause = options.kill_every * (0.5 + chance.random())
        left = end - time.monotonic()
        is_due = len(kills) < options.kills_min
        threading.Event().wait(pause if is_due else max(0.0, min(pause, left)))
        if time.monotonic() >= end and not is_due:
            return kills
        kills.append(Journal.now())
        server.kill()
        began = time.monotonic()
        server.start()
        _say(f"kill {len(kills)}: the node was ready again after {time.monotonic() - began:.2f} s")


def _wait_until_settled(server: ServerProcess) -> None:
    deadline = time.monotonic() + DRAIN_S_MAX
    with contextlib.closing(Api(server.url)) as api:
        while any(_lags(api).values()) and time.monotonic() < deadline:
            threading.Event().wait(0.2)
        # The stream reader needs one more round to have seen the last message.
        threading.Event().wait(2)


def _lags(api: Api) -> dict[str, int]:
    return {mode: api.get(f"/groups/{mode}/lag")["total_lag"] for mode in MODES}


def _holdings(server: ServerProcess, kills: tuple[int, ...]) -> Holdings:
    """What the node holds; asked after one more crash, so that nothing comes from memory."""
    server.restart()
    with contextlib.closing(Api(server.url)) as api:
        stored = [
            (partition, message)
            for partition in range(PARTITIONS)
            for message in api.read(TOPIC, partition)
        ]
        is_buried = f"{TOPIC}.dlq" in api.get("/topics")["topics"]
        letters = [
            _letter(message["headers"], message["value"])
            for partition in range(PARTITIONS if is_buried else 0)
            for message in api.read(f"{TOPIC}.dlq", partition)
        ]
        return Holdings(
            messages={(number, each["offset"]): each["value"] for number, each in stored},
            keys={(number, each["offset"]): each.get("key", "") for number, each in stored},
            letters=tuple(letters),
            lags=_lags(api),
            kills=kills,
        )


def _letter(headers: dict[str, str], value: str) -> Letter:
    return Letter(
        headers["goqueue.dlq.group"],
        int(headers["goqueue.dlq.partition"]),
        int(headers["goqueue.dlq.offset"]),
        value,
    )


def _report(verdict: Verdict, options: argparse.Namespace) -> int:
    _say(f"soak: {options.seconds:g} s, seed {options.seed}")
    for name, count in verdict.counts.items():
        _say(f"  {name:32}{count:>10}")
    for violation in verdict.violations[:VIOLATIONS_SHOWN]:
        _say(f"  VIOLATION {violation}")
    _say(f"soak: {len(verdict.violations)} violations")
    return 1 if verdict.violations else 0


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
