"""A node in some state, several connections to it, and the wait of others during one operation."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec

from bench.broker_process import BrokerProcess
from bench.stalls.prober import Prober, Waits
from bench.wire import Wire, request
from goqueue.model import Message
from goqueue.records import build

__all__ = ["ROOT_KEY", "Row", "Stage", "Stall", "encoded"]

# Of a node that is used by nobody else, for the time of one row.
ROOT_KEY = "stalls-" + "0123456789abcdef" * 2

_WIRES = 8
_BATCH = 1000
# So long the prober looks before and after: a stall may begin with the answer, or end behind it.
_REST_S = 0.3


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """What one operation did to others, and how long it took."""

    waits: Waits
    seconds: float
    items: int
    # The longest that the operation itself waited, where that is what counts.
    longest_ms: float | None = None


class Stage:
    """Builds state by the fastest routes, and probes."""

    def __init__(self, broker: BrokerProcess, wires: list[Wire], key: str) -> None:
        self.broker = broker
        self.wires = wires
        self._key = key

    @classmethod
    async def open(cls, broker: BrokerProcess, key: str = "") -> "Stage":
        return cls(broker, [await Wire.open(broker.port) for _ in range(_WIRES)], key)

    async def restart(self, meanwhile: Callable[[str], object] | None = None) -> None:
        """Restart the node, and wait until it serves; `meanwhile` may change its data."""
        self.close()
        await asyncio.to_thread(self.broker.restart, meanwhile=meanwhile)
        self.wires = [await Wire.open(self.broker.port) for _ in range(_WIRES)]

    def close(self) -> None:
        for wire in self.wires:
            wire.close()

    async def ask(self, method: str, target: str, body: object = None) -> Any:  # noqa: ANN401 - whatever the JSON says
        prepared = self.request(method, target, body)
        return json.loads(await self.wires[0].send(prepared))

    def request(self, method: str, target: str, body: object = None, key: str = "") -> bytes:
        """The bytes of a request with a key, if the node wants one."""
        content = b"" if body is None else encoded(body)
        return request(method, target, content, key or self._key)

    async def send_all(self, prepared: Iterable[bytes]) -> None:
        """Send requests over all connections."""
        left = iter(prepared)

        async def work(wire: Wire) -> None:
            for each in left:
                await wire.send(each)

        await asyncio.gather(*(work(wire) for wire in self.wires))

    async def create(self, topic: str, partitions: int = 1, **config: object) -> None:
        body = {"name": topic, "num_partitions": partitions, **config}
        await self.ask("POST", "/topics", body)

    async def publish(
        self, topic: str, count: int, message: Message | None = None, partition: int | None = None
    ) -> None:
        """Publish the same message so many times, as records."""
        message = message or Message(value=b"x" * 100)
        where = "" if partition is None else f"?partition={partition}"
        target = f"/topics/{topic}/records{where}"
        whole, rest = divmod(count, _BATCH)
        prepared = request("POST", target, bytes(build([message] * _BATCH)))
        await self.send_all([prepared] * whole)
        if rest:
            await self.send_all([request("POST", target, bytes(build([message] * rest)))])

    async def join(self, group: str, topics: Sequence[str], **more: object) -> str:
        body = {"client_id": "c", "topics": list(topics), "session_timeout": "10m", **more}
        joined = await self.ask("POST", f"/groups/{group}/join", body)
        return str(joined["member_id"])

    async def poll(self, group: str, member: str, lease: str = "1h") -> list[str]:
        """Lease up to a thousand messages; their receipts."""
        limits = f"&max_messages=1000&visibility_timeout={lease}&timeout=2s"
        polled = await self.ask("GET", f"/groups/{group}/poll?member_id={member}{limits}")
        return [each["receipt_handle"] for each in polled["messages"]]

    async def lease(self, group: str, topic: str, count: int, until: float = 0) -> list[str]:
        """Lease so many messages to as many members as it takes; `until`: all run out then."""
        receipts: list[str] = []
        while len(receipts) < count:
            member = await self.join(group, [topic], mode="shared")
            left = until - time.perf_counter()
            lease = f"{int(left * 1000)}ms" if until else "1h"
            found = await self.poll(group, member, lease)
            if not found:
                break
            receipts.extend(found)
        return receipts

    async def during(
        self,
        operation: Callable[[], Awaitable[object]],
        items: int = 1,
        longest: Callable[[], float] | None = None,
    ) -> Stall:
        """Run an operation while somebody else probes."""
        prober = Prober(self.broker.port, self.broker.pid)
        await asyncio.sleep(_REST_S)
        began = time.perf_counter()
        await operation()
        seconds = time.perf_counter() - began
        await asyncio.sleep(_REST_S)
        waits = await asyncio.to_thread(prober.end)
        return Stall(
            waits=waits,
            seconds=seconds,
            items=items,
            longest_ms=None if longest is None else round(longest() * 1000, 2),
        )

    async def repeat(self, prepared: bytes, times: int, items: int = 1) -> Stall:
        """Send one request several times, one after another; how long the longest took."""
        took: list[float] = []

        async def work() -> None:
            for _ in range(times):
                began = time.perf_counter()
                await self.wires[0].send(prepared)
                took.append(time.perf_counter() - began)

        return await self.during(work, items, lambda: max(took))


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table: how to bring about the operation, and at which size."""

    run: Callable[[Stage, int], Awaitable[Stall]]
    size: int
    # Where the cost per item should not depend on how many there are.
    sizes: tuple[int, ...] = ()
    # Put before the code of the node: what Python imports from there changes the world for it.
    path: str = ""
    # Whether requests need a key; `ROOT_KEY` is one.
    needs_keys: bool = False


def encoded(body: object) -> bytes:
    return json.dumps(body).encode()
