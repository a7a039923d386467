"""A producer at work: it numbers its batches and ends its transactions.

It has a connection for each partition, since batches for several go out side by side.
"""

import json

from bench.wire import Wire, request

__all__ = ["PARTITIONS", "Writer"]

PARTITIONS = 3


class Writer:
    """One producer of the broker; its publications are raw records."""

    def __init__(
        self, wires: list[Wire], topic: str, granted: dict[str, int], name: str | None
    ) -> None:
        self._wires = wires
        self._path = f"/topics/{topic}/records"
        self._identity = f"producer_id={granted['producer_id']}&epoch={granted['epoch']}"
        self._owner = json.dumps({**granted, "transactional_id": name}).encode()
        self._sequences: dict[int, int] = {}

    @classmethod
    async def init(cls, port: int, topic: str, name: str | None = None) -> "Writer":
        """A new producer; with a name it is a transactional one."""
        wires = [await Wire.open(port) for _ in range(PARTITIONS)]
        body = {} if name is None else {"transactional_id": name}
        granted = await wires[0].ask("POST", "/producers/init", body)
        return cls(wires, topic, granted, name)

    async def publish_plain(self, partition: int, batch: bytes) -> None:
        """As somebody who is nobody: a retry would be written twice."""
        target = f"{self._path}?partition={partition}"
        await self._wires[partition].send(request("POST", target, batch))

    async def publish(self, partition: int, batch: bytes, count: int) -> None:
        """A batch with its sequence: a retry would be known."""
        sequence = self._sequences.get(partition, 0)
        query = f"partition={partition}&{self._identity}&sequence={sequence}"
        await self._wires[partition].send(request("POST", f"{self._path}?{query}", batch))
        self._sequences[partition] = sequence + count

    async def publish_spread(self, batch: bytes) -> None:
        """A batch that the broker spreads over the partitions."""
        await self._wires[0].send(request("POST", f"{self._path}?{self._identity}", batch))

    async def step(self, name: str) -> None:
        """Begin, commit or abort."""
        await self._wires[0].send(request("POST", f"/transactions/{name}", self._owner))

    def close(self) -> None:
        for wire in self._wires:
            wire.close()
