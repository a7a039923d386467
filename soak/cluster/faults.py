"""What is done to the nodes of a cluster, one thing after the other, and undone again.

Each fault ends with all nodes running on whole disks, their links healed. What a node may lose for
good, its whole disk, is lost only while the other copies are whole.
"""

import asyncio
import contextlib
import random
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Sequence

import httpx

from soak.cluster.load import TOPIC
from tests.integration.cluster.cluster_processes import ClusterProcesses
from tests.integration.frail_node import FrailDisk
from tests.integration.link_proxy import LinkProxy

__all__ = ["FAULTS", "Faults"]

BALLAST_BYTES = 1024 * 1024
FORGET_S_MAX = 60.0
# By how many seconds a wall clock is wrong.
CLOCK_ERRORS_S = (-3600, -40, 90, 3600, 3 * 86_400)
# What comes twice as often as the rest.
OFTEN = ("kill", "freeze", "cut")


class Faults:
    """The nodes, what may be done to them, and what was."""

    def __init__(
        self,
        cluster: ClusterProcesses,
        proxies: dict[str, LinkProxy],
        disks: dict[str, FrailDisk],
        chance: random.Random,
        wait_until_whole: Callable[[], Awaitable[None]],
    ) -> None:
        """`wait_until_whole` returns when every copy is in sync."""
        self._cluster = cluster
        self._proxies = proxies
        self._disks = disks
        self._chance = chance
        self._wait_until_whole = wait_until_whole
        self._coming: list[str] = []
        self.bytes_lost = 0
        self.counts: dict[str, int] = {}

    async def inject(self, wanted: Sequence[str]) -> None:
        """Do something to nodes, and undo it; all that is wanted before any of it comes again."""
        if not self._coming:
            self._coming = [*wanted, *(each for each in OFTEN if each in wanted)]
            self._chance.shuffle(self._coming)
        name = self._coming.pop()
        self.counts[name] = self.counts.get(name, 0) + 1
        await FAULTS[name](self)

    def _victims(self, count: int = 1) -> list[str]:
        return self._chance.sample(self._cluster.names, count)

    async def _sleep(self, shortest_s: float, longest_s: float) -> None:
        await asyncio.sleep(self._chance.uniform(shortest_s, longest_s))

    async def _start(self, names: Sequence[str]) -> None:
        for name in names:
            self._cluster[name].begin()
        for name in names:
            await asyncio.to_thread(self._cluster[name].wait_until_ready)

    # Processes

    async def kill(self, count: int = 1) -> None:
        victims = self._victims(count)
        for name in victims:
            self._cluster[name].kill()
        await self._sleep(0, 4)
        await self._start(victims)

    async def kill_two(self) -> None:
        await self.kill(2)

    async def kill_all(self) -> None:
        self._cluster.kill_all()
        await self._start(self._cluster.names)

    async def kill_stopping(self) -> None:
        """Kill a node that was told to stop, while it hands over."""
        (name,) = self._victims()
        self._cluster[name].signal(signal.SIGTERM)
        await self._sleep(0, 0.4)
        self._cluster[name].kill()
        await self._start([name])

    async def kill_starting(self) -> None:
        """Kill a node again and again before it is ready."""
        (name,) = self._victims()
        self._cluster[name].kill()
        for _ in range(3):
            lifetime_s = self._chance.uniform(0.1, 1.5)
            await asyncio.to_thread(self._cluster[name].start_and_kill, lifetime_s)
        await self._start([name])

    async def stop(self, count: int = 1) -> None:
        victims = self._victims(count)
        for name in victims:
            self._cluster[name].signal(signal.SIGTERM)
        for name in victims:
            await asyncio.to_thread(self._cluster[name].wait)
        await self._sleep(0, 2)
        await self._start(victims)

    async def stop_two(self) -> None:
        await self.stop(2)

    async def stop_all(self) -> None:
        await self.stop(len(self._cluster.names))

    async def freeze(self, count: int = 1) -> None:
        victims = self._victims(count)
        for name in victims:
            self._cluster[name].signal(signal.SIGSTOP)
        await self._sleep(0.5, 8)
        for name in victims:
            self._cluster[name].signal(signal.SIGCONT)
            await asyncio.sleep(self._chance.choice([0, 0, 1.0]))

    async def freeze_two(self) -> None:
        await self.freeze(2)

    async def freeze_all(self) -> None:
        await self.freeze(len(self._cluster.names))

    async def freeze_and_kill(self) -> None:
        """Kill a node while another one sleeps, which wakes and finds itself deposed, or needed."""
        sleeper, victim = self._victims(2)
        self._cluster[sleeper].signal(signal.SIGSTOP)
        await self._sleep(0, 3.5)
        self._cluster[victim].kill()
        await self._sleep(0, 1)
        self._cluster[sleeper].signal(signal.SIGCONT)
        await self._sleep(0, 2)
        await self._start([victim])

    # Links

    async def cut(self) -> None:
        await self._cut(self._victims())

    async def cut_all(self) -> None:
        await self._cut(self._cluster.names)

    async def _cut(self, names: Sequence[str]) -> None:
        for name in names:
            self._proxies[name].cut()
        await self._sleep(0.5, 6)
        for name in names:
            self._proxies[name].heal()

    async def drop(self) -> None:
        for _ in range(self._chance.randrange(1, 4)):
            self._proxies[self._victims()[0]].drop_all()
            await self._sleep(0, 0.5)

    # Disks

    async def lose_power(self, count: int = 1) -> None:
        """As a power cut ends nodes: what they had not synced is gone."""
        victims = self._victims(count)
        for name in victims:
            self._cluster[name].kill()
        self.bytes_lost += sum(self._disks[name].cut_to_synced() for name in victims)
        await self._sleep(0, 4)
        await self._start(victims)

    async def lose_power_of_two(self) -> None:
        await self.lose_power(2)

    async def lose_power_of_all(self) -> None:
        self._cluster.kill_all()
        self.bytes_lost += sum(disk.cut_to_synced() for disk in self._disks.values())
        await self._start(self._cluster.names)

    async def lose_power_starting(self) -> None:
        """All nodes lose power, and again while they recover."""
        self._cluster.kill_all()
        for name in self._cluster.names:
            self._cluster[name].begin()
        await self._sleep(0.3, 2.5)
        await self.lose_power_of_all()

    async def fill(self, count: int = 1) -> None:
        """Leave no space on the disks of nodes for a while."""
        ballasts = [self._cluster.folder / name / "ballast" for name in self._victims(count)]
        for ballast in ballasts:
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                for size in (BALLAST_BYTES, 4096):
                    with contextlib.suppress(OSError):
                        while file.write(bytes(size)):
                            pass
        await self._sleep(1, 4)
        for ballast in ballasts:
            ballast.unlink()

    async def fill_all(self) -> None:
        await self.fill(len(self._cluster.names))

    async def fail(self) -> None:
        """Let the disk of a node fail for a while: then it is started on another machine."""
        (name,) = self._victims()
        # The logs of the topic, after which a node goes on; or all, after which it ends.
        self._disks[name].fail(self._chance.choice([f"/logs/{TOPIC}/", "/logs/"]))
        await self._sleep(0.5, 3)
        self._disks[name].heal()
        self._cluster[name].kill()
        await self._start([name])

    async def wipe(self) -> None:
        """A node loses its disk: an operator forgets it, and it joins again with an empty one."""
        (name,) = self._victims()
        self._cluster[name].kill()
        for path in (self._cluster.folder / name).iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        self._cluster.forget_versions(name)
        await self._forget(name)
        await self._start([name])
        # Before the next one: the other copies may be all that there is.
        await self._wait_until_whole()

    async def _forget(self, name: str) -> None:
        others = [each for each in self._cluster.names if each != name]
        deadline = time.monotonic() + FORGET_S_MAX
        said = "nothing"
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.HTTPError):
                through = self._chance.choice(others)
                answer = await asyncio.to_thread(self._cluster.forget, name, through)
                if answer.is_success or answer.status_code == httpx.codes.NOT_FOUND:
                    return
                said = answer.text
            await asyncio.sleep(0.2)
        raise RuntimeError(f"{name} was not forgotten: {said}")

    # Clocks

    async def skew(self) -> None:
        """The wall clock of a node is wrong for a while; it may be killed meanwhile."""
        (name,) = self._victims()
        self._disks[name].skew_clock(self._chance.choice(CLOCK_ERRORS_S))
        await self._sleep(1, 6)
        if self._chance.random() < 0.4:
            self._cluster[name].kill()
            await self._start([name])
        self._disks[name].skew_clock(0)


FAULTS: dict[str, Callable[[Faults], Awaitable[None]]] = {
    "kill": Faults.kill,
    "kill two": Faults.kill_two,
    "kill all": Faults.kill_all,
    "kill stopping": Faults.kill_stopping,
    "kill starting": Faults.kill_starting,
    "stop": Faults.stop,
    "stop two": Faults.stop_two,
    "stop all": Faults.stop_all,
    "freeze": Faults.freeze,
    "freeze two": Faults.freeze_two,
    "freeze all": Faults.freeze_all,
    "freeze and kill": Faults.freeze_and_kill,
    "cut": Faults.cut,
    "cut all": Faults.cut_all,
    "drop": Faults.drop,
    "power": Faults.lose_power,
    "power of two": Faults.lose_power_of_two,
    "power of all": Faults.lose_power_of_all,
    "power starting": Faults.lose_power_starting,
    "fill": Faults.fill,
    "fill all": Faults.fill_all,
    "fail": Faults.fail,
    "wipe": Faults.wipe,
    "clock": Faults.skew,
}
