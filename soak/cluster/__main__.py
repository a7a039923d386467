"""The program: `python -m soak.cluster --seconds 600`.

Publishes, works off a queue and writes in transactions all the time through the SDK, and meanwhile
kills, stops, restarts and cuts off nodes, one at a time or several at once. Their disks fill up,
fail, vanish, and lose with the power what was not synced; their clocks are wrong. At the end
everything is healed, read and compared: each message that was acknowledged is where it was said to
be, none is stored twice, each was delivered and none after its ack, transactions are there whole or
not at all, and the files of all nodes are equal. Prints what was done and what was checked. Exit
code 1 when a promise was broken.
"""

import argparse
import asyncio
import bisect
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import goqueue
from goqueue.client.retries import Retries
from goqueue.records import scan
from soak.cluster.faults import FAULTS, Faults
from soak.cluster.load import LEDGERS, PARTITIONS, TOPIC, Load, messages_of
from soak.cluster.verdict import Copy, Verdict, judge
from tests.integration.cluster.cluster_processes import ClusterProcesses
from tests.integration.frail_node import FrailDisk, program_on
from tests.integration.link_proxy import LinkProxy
from tests.integration.small_disk import mount, unmount

NODES = 3
# What a publisher waits for: longer than any fault lasts.
TIMEOUT_S = 60.0
HEAL_S_MAX = 120.0
VIOLATIONS_SHOWN = 20
DISK_BYTES = 192 * 1024 * 1024
# Faults for which each node needs a small disk of its own.
FILLS = {"fill", "fill all"}


class Soak:
    """The nodes, what was done to them, and what publishers were told."""

    def __init__(
        self,
        cluster: ClusterProcesses,
        proxies: dict[str, LinkProxy],
        disks: dict[str, FrailDisk],
        seed: int,
    ) -> None:
        self.cluster = cluster
        self.chance = random.Random(seed)
        self.faults = Faults(cluster, proxies, disks, self.chance, self.wait_until_whole)
        self.load = Load(self.connect, self.chance)

    @property
    def urls(self) -> list[str]:
        return [self.cluster[name].url for name in self.cluster.names]

    def connect(self) -> goqueue.Connection:
        return goqueue.connect(
            self.urls, timeout_s=TIMEOUT_S, retries=Retries(total_s=TIMEOUT_S, wait_s_max=0.5)
        )

    # The end

    async def wait_until_whole(self) -> None:
        """Wait until every replica of every partition is in sync."""
        deadline = time.monotonic() + HEAL_S_MAX
        partitions: list[object] = []
        async with self.connect() as q:
            while time.monotonic() < deadline:
                with contextlib.suppress(goqueue.GoQueueError):
                    found = [
                        each
                        for topic in (TOPIC, *LEDGERS)
                        for each in await q.topics.partitions(topic)
                    ]
                    if all(len(each.isr) == NODES and not each.error for each in found):
                        return
                    partitions = [*found]
                await asyncio.sleep(0.2)
        raise RuntimeError(f"partitions were not whole after {HEAL_S_MAX:.0f} s: {partitions}")

    async def read_all(self, q: goqueue.Connection) -> dict[tuple[int, int], str]:
        held: dict[tuple[int, int], str] = {}
        async for message in messages_of(q, TOPIC):
            held[message.partition, message.offset] = message.text
        return held

    async def committed_ends(self, q: goqueue.Connection) -> dict[int, int]:
        """The high watermark of every partition."""
        found = await q.topics.partitions(TOPIC)
        return {each.partition: each.high_watermark for each in found}

    def copies(self, ends: dict[int, int]) -> Iterator[Copy]:
        """What every node holds of every partition below its end; the nodes have stopped.

        A node that stops hands over its partitions, and their next leaders begin epochs with
        records that it does not have.
        """
        for name in self.cluster.names:
            for partition in range(PARTITIONS):
                folder = self.cluster.folder / name / "logs" / TOPIC / str(partition)
                data = b"".join(each.read_bytes() for each in sorted(folder.glob("*.log")))
                columns = scan(data).columns
                at = bisect.bisect_left(columns.offsets, ends[partition])
                is_all = at == len(columns.offsets)
                yield Copy(name, partition, data if is_all else data[: columns.positions[at]])


async def _run(soak: Soak, seconds: float, fault_every: float, faults: list[str]) -> Verdict:
    load = soak.load
    async with soak.connect() as q:
        await load.create_topics(q, NODES)
        async with load.running():
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                await asyncio.sleep(soak.chance.uniform(0.5, 1.5) * fault_every)
                await soak.faults.inject(faults)
            await soak.wait_until_whole()
        held = await soak.read_all(q)
        ends = await soak.committed_ends(q)
        violations = await load.violations(q, set(held))
    codes = {name: soak.cluster[name].stop() for name in soak.cluster.names}
    verdict = judge(load.acknowledged, held, list(soak.copies(ends)))
    verdict.violations.extend(violations)
    verdict.violations.extend(f"{name} ended with {code}" for name, code in codes.items() if code)
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--fault-every", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(1 << 32)
    print(f"seed {seed}")
    with contextlib.ExitStack() as stack:
        folder = given.directory
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        soak = _set_up(stack, folder, seed, given.faults)
        verdict = asyncio.run(_run(soak, given.seconds, given.fault_every, given.faults))
        if "Traceback (most recent call last)" in soak.cluster.said:
            verdict.violations.append("a node printed a traceback:\n" + soak.cluster.said[-3000:])
    return _report(soak, verdict)


def _set_up(stack: contextlib.ExitStack, folder: Path, seed: int, faults: list[str]) -> Soak:
    """A cluster that has formed, with what can be done to it; faults that cannot be are removed."""
    names = [f"node-{number}" for number in range(1, NODES + 1)]
    for name in names if FILLS & set(faults) else ():
        reason = mount(folder / name, DISK_BYTES)
        if reason is not None:
            print(f"no disk is filled: {reason}")
            faults[:] = [each for each in faults if each not in FILLS]
            break
        stack.callback(unmount, folder / name)
    disks = {name: FrailDisk(folder / f"{name}.disk", folder / name) for name in names}
    cluster = ClusterProcesses(
        folder, NODES, has_proxies=True, program=lambda name: program_on(disks[name])
    )
    assert cluster.names == names
    stack.callback(cluster.kill_all)
    proxies = {
        name: stack.enter_context(LinkProxy(cluster.peer_ports[name], cluster.proxy_ports[name]))
        for name in cluster.names
    }
    cluster.start_all()
    cluster.wait_until_whole()
    return Soak(cluster, proxies, disks, seed)


def _report(soak: Soak, verdict: Verdict) -> int:
    load = soak.load
    counts = {
        **verdict.counts,
        **load.queue.counts(),
        **load.transactions.counts(),
        "publishes refused or unknown": load.refused,
        "faults injected": sum(soak.faults.counts.values()),
        **soak.faults.counts,
        "bytes lost with the power": soak.faults.bytes_lost,
    }
    for name, count in counts.items():
        print(f"  {name:30} {count}")
    print(f"longest publish: {max(load.waits_s, default=0.0):.2f} s")
    for violation in verdict.violations[:VIOLATIONS_SHOWN]:
        print(f"VIOLATED: {violation}")
    print("sound" if not verdict.violations else f"{len(verdict.violations)} violations")
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
