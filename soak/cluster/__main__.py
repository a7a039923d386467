"""The program: `python -m soak.cluster --seconds 600`.

Publishes, works off a queue and writes in transactions all the time through the SDK, and meanwhile
kills, stops, restarts and cuts off nodes, one at a time or all at once. Their disks fill up, fail,
and lose with the power what was not synced. At the end everything is healed, read and compared:
each message that was acknowledged is where it was said to be, none is stored twice, each was
delivered and none after its ack, transactions are there whole or not at all, and the files of all
nodes are equal. Prints what was done and what was checked. Exit code 1 when a promise was broken.
"""

import argparse
import asyncio
import bisect
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import goqueue
from goqueue.client.retries import Retries
from goqueue.records import scan
from soak.cluster.load import PARTITIONS, TOPIC, Load, messages_of
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
BALLAST_BYTES = 1024 * 1024
# What is done to nodes, and what of it comes twice as often.
FAULTS = (
    *("kill", "stop", "freeze", "cut", "drop", "kill all"),
    *("power", "power of all", "fill", "fail"),
)
OFTEN = ("kill", "freeze", "cut")


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
        self.proxies = proxies
        self.disks = disks
        self.chance = random.Random(seed)
        self.bytes_lost = 0
        self._coming: list[str] = []
        self.faults: dict[str, int] = {}
        self.load = Load(self.connect, self.chance)

    @property
    def urls(self) -> list[str]:
        return [self.cluster[name].url for name in self.cluster.names]

    def connect(self) -> goqueue.Connection:
        return goqueue.connect(
            self.urls, timeout_s=TIMEOUT_S, retries=Retries(total_s=TIMEOUT_S, wait_s_max=0.5)
        )

    # Faults

    async def disturb(self, wanted: list[str]) -> None:
        """Do something to nodes, and undo it; all that is wanted before any of it comes again."""
        faults = {
            "kill": self._kill,
            "stop": self._stop,
            "freeze": self._freeze,
            "cut": self._cut,
            "drop": self._drop,
            "kill all": self._kill_all,
            "power": self._lose_power,
            "power of all": self._lose_power_of_all,
            "fill": self._fill,
            "fail": self._fail,
        }
        if not self._coming:
            self._coming = [*wanted, *(each for each in OFTEN if each in wanted)]
            self.chance.shuffle(self._coming)
        name = self._coming.pop()
        self.faults[name] = self.faults.get(name, 0) + 1
        await faults[name]()

    def _victim(self) -> str:
        return self.chance.choice(self.cluster.names)

    async def _kill(self) -> None:
        node = self.cluster[self._victim()]
        node.kill()
        await asyncio.sleep(self.chance.uniform(0, 4))
        await asyncio.to_thread(node.start)

    async def _kill_all(self) -> None:
        self.cluster.kill_all()
        await asyncio.to_thread(self.cluster.start_all)

    async def _lose_power(self) -> None:
        """As a power cut ends a node: what it had not synced is gone."""
        name = self._victim()
        self.cluster[name].kill()
        self.bytes_lost += self.disks[name].cut_to_synced()
        await asyncio.sleep(self.chance.uniform(0, 4))
        await asyncio.to_thread(self.cluster[name].start)

    async def _lose_power_of_all(self) -> None:
        self.cluster.kill_all()
        self.bytes_lost += sum(disk.cut_to_synced() for disk in self.disks.values())
        await asyncio.to_thread(self.cluster.start_all)

    async def _fill(self) -> None:
        """Leave no space on the disk of a node for a while."""
        ballast = self.cluster.folder / self._victim() / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            for size in (BALLAST_BYTES, 4096):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass
        await asyncio.sleep(self.chance.uniform(1, 4))
        ballast.unlink()

    async def _fail(self) -> None:
        """Let the disk of a node fail for a while: then it is started on another machine."""
        name = self._victim()
        # The logs of the topic, after which a node goes on; or all, after which it ends.
        self.disks[name].fail(self.chance.choice([f"/logs/{TOPIC}/", "/logs/"]))
        await asyncio.sleep(self.chance.uniform(0.5, 3))
        self.disks[name].heal()
        self.cluster[name].kill()
        await asyncio.to_thread(self.cluster[name].start)

    async def _stop(self) -> None:
        node = self.cluster[self._victim()]
        await asyncio.to_thread(node.stop)
        await asyncio.sleep(self.chance.uniform(0, 2))
        await asyncio.to_thread(node.start)

    async def _freeze(self) -> None:
        node = self.cluster[self._victim()]
        node.signal(signal.SIGSTOP)
        await asyncio.sleep(self.chance.uniform(0.5, 8))
        node.signal(signal.SIGCONT)

    async def _cut(self) -> None:
        proxy = self.proxies[self._victim()]
        proxy.cut()
        await asyncio.sleep(self.chance.uniform(0.5, 6))
        proxy.heal()

    async def _drop(self) -> None:
        for _ in range(self.chance.randrange(1, 4)):
            self.proxies[self._victim()].drop_all()
            await asyncio.sleep(self.chance.uniform(0, 0.5))

    # The end

    async def wait_until_whole(self, q: goqueue.Connection) -> None:
        """Wait until every replica of every partition is in sync."""
        deadline = time.monotonic() + HEAL_S_MAX
        partitions: tuple[object, ...] = ()
        while time.monotonic() < deadline:
            with contextlib.suppress(goqueue.GoQueueError):
                found = partitions = await q.topics.partitions(TOPIC)
                if all(len(each.isr) == NODES and not each.error for each in found):
                    return
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
                await soak.disturb(faults)
            await soak.wait_until_whole(q)
        held = await soak.read_all(q)
        ends = await soak.committed_ends(q)
        violations = await load.violations(q, set(held))
    for name in soak.cluster.names:
        soak.cluster[name].stop()
    verdict = judge(load.acknowledged, held, list(soak.copies(ends)))
    verdict.violations.extend(violations)
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
    for name in names if "fill" in faults else ():
        reason = mount(folder / name, DISK_BYTES)
        if reason is not None:
            print(f"no disk is filled: {reason}")
            faults.remove("fill")
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
        "faults injected": sum(soak.faults.values()),
        **soak.faults,
        "bytes lost with the power": soak.bytes_lost,
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
