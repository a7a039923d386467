"""The program: `python -m soak.upgrade`.

Starts three nodes of an earlier release, built from the history of this repository, and publishes
all the time. Replaces one node after the other by this release: told to stop, started again on the
same data. While releases are mixed, what the older one does not understand must be refused, and
served once the last node is new. Then restarts every node again, under queues and transactions, and
starts one as the older release once more, which must be refused. At the end everything is read and
compared as in `soak.cluster`. Exit code 1 when a promise was broken.
"""

import argparse
import asyncio
import contextlib
import io
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import goqueue
from goqueue.client.retries import Retries
from goqueue.cluster import FEATURE_LEVEL
from soak.cluster.load import LEDGERS, TOPIC, Load, messages_of
from soak.cluster.verdict import judge
from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses

# The last commit before groups, delays and transactions were served by a cluster.
EARLIER = "55e58ada6fc406e8206fe6ba1ce4830ce9055899"
ROOT = Path(__file__).resolve().parents[2]
NODES = 3
TIMEOUT_S = 60.0
HEAL_S_MAX = 120.0
_PROGRAM = "import sys; sys.path.insert(0, {!r}); from goqueue.cli import main; main()"


def unpack(revision: str, folder: Path) -> Path:
    """The sources of an earlier commit, and how Python runs them; they are not compiled."""
    command = ["git", "archive", "--format=tar", revision, "src"]
    packed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def program_of(sources: Path) -> Sequence[str]:
    """What Python runs for a node of other sources."""
    return ("-c", _PROGRAM.format(str(sources)))


class Upgrade:
    """The cluster, and what was seen while its nodes were replaced."""

    def __init__(self, cluster: ClusterProcesses, earlier: Sequence[str], pause_s: float) -> None:
        self.cluster = cluster
        self.load = Load(self.connect, random.Random(1))
        self.violations: list[str] = []
        # The longest publish during the restart of each node.
        self.gaps_s: list[float] = []
        self._earlier = earlier
        self._pause_s = pause_s

    def connect(self) -> goqueue.Connection:
        urls = [self.cluster[name].url for name in self.cluster.names]
        retries = Retries(total_s=TIMEOUT_S, wait_s_max=0.1)
        return goqueue.connect(urls, timeout_s=TIMEOUT_S, retries=retries)

    async def restart_each(self, q: goqueue.Connection, *, is_upgrade: bool) -> None:
        """Stop one node after the other and start it again, when all copies are in sync."""
        for name in self.cluster.names:
            await self._wait_until_whole(q)
            await asyncio.sleep(self._pause_s)
            before = len(self.load.waits_s)
            node = self.cluster[name]
            code = await asyncio.to_thread(node.stop)
            if code:
                self.violations.append(f"{name} ended with {code} when it was told to stop")
            if is_upgrade:
                node.program = None
                self.cluster.forget_versions(name)
            await asyncio.to_thread(node.start)
            await self._wait_until_whole(q)
            await asyncio.sleep(self._pause_s)
            self.gaps_s.append(max(self.load.waits_s[before:], default=0.0))
            if is_upgrade and name != self.cluster.names[-1]:
                await asyncio.to_thread(self._check_mixed, name)

    async def _wait_until_whole(self, q: goqueue.Connection) -> None:
        """Wait until every copy is in sync and led."""
        deadline = time.monotonic() + HEAL_S_MAX
        while time.monotonic() < deadline:
            with contextlib.suppress(goqueue.GoQueueError):
                found = [each for topic in (TOPIC, *LEDGERS) for each in await _copies(q, topic)]
                if found and all(found):
                    return
            await asyncio.sleep(0.05)
        raise RuntimeError("partitions were not whole")

    def _check_mixed(self, name: str) -> None:
        """A new node among older ones refuses what those do not understand, and says why."""
        url = self.cluster[name].url
        message = {"messages": [{"value": "x", "delay": "1h"}]}
        asked = (
            HTTP.post(f"{url}/groups/{name}/join", json={"client_id": "c", "topics": [TOPIC]}),
            HTTP.post(f"{url}/topics/{TOPIC}/messages", json=message),
        )
        for answer in asked:
            body = answer.json()
            if answer.status_code != 503 or "upgrade" not in body["error"]:
                self.violations.append(f"{name} among older nodes answered {body}")

    async def wait_for_level(self) -> None:
        """Wait until the cluster uses all that this release understands."""
        deadline = time.monotonic() + HEAL_S_MAX
        while time.monotonic() < deadline:
            state = await asyncio.to_thread(self.cluster.look, self.cluster.names[0])
            if state is not None and state.get("feature_level") == FEATURE_LEVEL:
                return
            await asyncio.sleep(0.1)
        self.violations.append("the feature level was not raised when all nodes were new")

    def check_refused(self) -> None:
        """A node of the earlier release may not come back; of this one it may."""
        name = self.cluster.names[-1]
        node = self.cluster[name]
        node.stop()
        node.program = self._earlier
        node.begin()
        try:
            node.wait_to_say("feature level")
        except AssertionError:
            self.violations.append(f"the earlier release was not refused: {node.said[-2000:]}")
        node.kill()
        node.program = None
        self.cluster.forget_versions(name)
        node.start()


async def _copies(q: goqueue.Connection, topic: str) -> list[bool]:
    found = await q.topics.partitions(topic)
    return [len(each.isr) == NODES and not each.error for each in found]


async def _run(upgrade: Upgrade, rounds: int) -> dict[str, int]:
    load = upgrade.load
    async with upgrade.connect() as q:
        await load.create_topics(q, NODES)
        async with load.running(is_coordinated=False):
            await upgrade.restart_each(q, is_upgrade=True)
            await upgrade.wait_for_level()
        async with load.running():
            for _ in range(rounds):
                await upgrade.restart_each(q, is_upgrade=False)
        held = {(each.partition, each.offset): each.text async for each in messages_of(q, TOPIC)}
        upgrade.violations += await load.violations(q, set(held))
    verdict = judge(load.acknowledged, held, [])
    upgrade.violations += verdict.violations
    await asyncio.to_thread(upgrade.check_refused)
    return {**verdict.counts, **load.queue.counts(), **load.transactions.counts()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--earlier", default=EARLIER, help="the commit to upgrade from")
    parser.add_argument("--rounds", type=int, default=3, help="restarts of each node afterwards")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds around each restart")
    parser.add_argument("--directory", type=Path, default=None)
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = given.directory
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        earlier = program_of(unpack(given.earlier, folder / "earlier"))
        cluster = ClusterProcesses(folder, NODES, program=lambda _: earlier)
        stack.callback(cluster.kill_all)
        cluster.start_all()
        cluster.wait_until_whole()
        upgrade = Upgrade(cluster, earlier, given.pause)
        counts = asyncio.run(_run(upgrade, given.rounds))
        if "Traceback (most recent call last)" in cluster.said:
            upgrade.violations.append("a node printed a traceback:\n" + cluster.said[-3000:])
    return _report(upgrade, counts)


def _report(upgrade: Upgrade, counts: dict[str, int]) -> int:
    waits = sorted(upgrade.load.waits_s)
    for name, count in {**counts, "restarts": len(upgrade.gaps_s)}.items():
        print(f"  {name:30} {count}")
    gaps = ", ".join(f"{1000 * each:.0f}" for each in upgrade.gaps_s)
    print(f"publish: p50 {_ms(waits, 0.5)}, p99 {_ms(waits, 0.99)}, longest {_ms(waits, 1)} ms")
    print(f"longest publish of each restart: {gaps} ms")
    for violation in upgrade.violations[:20]:
        print(f"VIOLATED: {violation}")
    print("sound" if not upgrade.violations else f"{len(upgrade.violations)} violations")
    return 1 if upgrade.violations else 0


def _ms(waits: list[float], share: float) -> str:
    return f"{1000 * waits[min(len(waits) - 1, int(share * len(waits)))]:.0f}" if waits else "-"


if __name__ == "__main__":
    sys.exit(main())
