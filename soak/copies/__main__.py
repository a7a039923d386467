"""The program: `python -m soak.copies --messages 100000 --mode stream`.

Fills a topic, lets workers copy it in transactions, and all the while kills the broker and the
workers, or lets workers freeze and come back as zombies. When the group has nothing left to do, the
target is read after one more crash and judged. Exit code 1 when a promise was broken.
"""

import argparse
import contextlib
import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec

from goqueue.model import Message
from goqueue.records import build
from soak.copies.attempts import ATTEMPT
from soak.copies.crew import Crew
from soak.copies.notes import read_notes
from soak.copies.verdict import Copy, Verdict, judge
from soak.copies.worker import GROUP, SOURCE, TARGET, TARGET_PARTITIONS
from soak.servers import Servers, any_api, serve
from tests.integration.http_api import Api

SOURCE_PARTITIONS = 4
KEYS = 200
BATCH = 1000
LOOK_S = 0.1
WAIT_S_MAX = 900
VIOLATIONS_SHOWN = 20
BLOWS = ("broker", "worker", "zombie", "broker", "worker", "stall")


def main() -> int:
    options = _options()
    with contextlib.ExitStack() as stack:
        home = options.directory or stack.enter_context(tempfile.TemporaryDirectory())
        notes = Path(home) / "notes"
        notes.mkdir(parents=True)
        servers = serve(options.nodes, Path(home) / "data", stack, TARGET)
        _fill(servers, options.messages)
        blows = _run(servers, notes, options)
        copies, uncommitted = _find(servers)
        _say(f"stopped with exit codes {servers.stop()}")
        is_ordered = options.mode == "stream"
        verdict = judge(options.messages, copies, read_notes(notes), is_ordered=is_ordered)
    named = {f"blows: {what}": blows[what] for what in sorted(blows)}
    verdict.counts.update(named, uncommitted=uncommitted)
    return _report(verdict, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak.copies", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--mode", choices=("stream", "queue"), default="stream")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--blow-every", type=float, default=1.0, help="seconds between two blows")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", help="keep data and notes here")
    return parser.parse_args()


def _fill(servers: Servers, count: int) -> None:
    with any_api(servers) as api:
        # Whoever dies with messages in hand has done nothing wrong, however often.
        config = {"max_deliveries": 0, "visibility_timeout": "3s"}
        kept = {} if servers.copies == 1 else {"replication_factor": servers.copies}
        api.create(SOURCE, SOURCE_PARTITIONS, **config, **kept)
        api.create(TARGET, TARGET_PARTITIONS, **kept)
        for first in range(0, count, BATCH):
            numbers = range(first, min(count, first + BATCH))
            messages = [
                Message(key=b"k%d" % (number % KEYS), value=b"%d" % number) for number in numbers
            ]
            answer = api.send("POST", f"/topics/{SOURCE}/records", bytes(build(messages)))
            assert answer.status == 200, answer


def _run(servers: Servers, notes: Path, options: argparse.Namespace) -> Counter[str]:
    """Blow after blow, until everything is copied; how many of each kind there were."""
    chance = random.Random(options.seed)
    crew = Crew(servers.url, options.mode, notes, chance)
    for number in range(options.workers):
        crew.hire(f"worker-{number}")
    blows: Counter[str] = Counter()
    order = itertools.cycle(BLOWS)
    began = time.monotonic()
    try:
        next_blow = began + options.blow_every
        while not _is_done(servers, options.messages):
            assert time.monotonic() < began + WAIT_S_MAX, "the copying does not come to an end"
            threading.Event().wait(LOOK_S)
            crew.tend()
            if time.monotonic() >= next_blow:
                blow = next(order)
                blows[_strike(blow, servers, crew)] += 1
                next_blow = time.monotonic() + options.blow_every * chance.uniform(0.3, 1.7)
    finally:
        crew.end()
    _say(f"copied in {time.monotonic() - began:.1f} s")
    return blows


def _strike(blow: str, servers: Servers, crew: Crew) -> str:
    """Who was struck."""
    match blow:
        case "broker":
            return servers.strike()
        case "worker":
            crew.kill_one()
        case _:
            crew.freeze_one(is_replaced=blow == "zombie")
    return blow


def _is_done(servers: Servers, count: int) -> bool:
    """Whether the group has settled every message, and no transaction may change that."""
    with any_api(servers) as api:
        if GROUP not in api.get("/groups")["groups"]:
            return False
        lag = api.get(f"/groups/{GROUP}/lag")
        is_known = len(lag["partitions"]) == SOURCE_PARTITIONS
        total = api.get(f"/topics/{SOURCE}")["total_messages"]
        assert total == count, f"{total} messages are in the source"
        return is_known and lag["total_lag"] == 0 and api.get("/transactions")["count"] == 0


def _find(servers: Servers) -> tuple[list[Copy], int]:
    """What is in the target, and how many more records; asked after one more crash."""
    servers.restart()
    with any_api(servers) as api:
        copies = [
            Copy(int(message["value"]), message["key"], message["headers"][ATTEMPT])
            for partition in range(TARGET_PARTITIONS)
            for message in api.read(TARGET, partition)
        ]
        everything = sum(_count_all(api, partition) for partition in range(TARGET_PARTITIONS))
    return copies, everything - len(copies)


def _count_all(api: Api, partition: int) -> int:
    """Messages of a partition, those of aborted transactions with them."""
    path = f"/topics/{TARGET}/partitions/{partition}/messages"
    offset = count = 0
    while True:
        query = f"offset={offset}&limit=1000&isolation=read_uncommitted"
        answer = msgspec.json.decode(api.send("GET", f"{path}?{query}").content)
        if answer["next_offset"] == offset:
            return count
        offset = answer["next_offset"]
        count += len(answer["messages"])


def _report(verdict: Verdict, options: argparse.Namespace) -> int:
    _say(f"copies: {options.messages} messages, {options.mode}, seed {options.seed}")
    for name, count in verdict.counts.items():
        _say(f"  {name:40}{count:>10}")
    for violation in verdict.violations[:VIOLATIONS_SHOWN]:
        _say(f"  VIOLATION {violation}")
    _say(f"copies: {len(verdict.violations)} violations")
    return 1 if verdict.violations else 0


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
