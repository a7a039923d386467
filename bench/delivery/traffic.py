"""What goes to the broker and comes back: delayed records, records of several lanes, consumers."""

import asyncio
import random
import time
from collections.abc import Sequence

from bench.broker_process import BrokerProcess
from bench.wire import Wire, request
from goqueue.model import Message, Priority
from goqueue.records import build

__all__ = ["LEASE", "SHARES", "Consumers", "delayed_batch", "join", "lane_batch", "publish"]

LEASE = 500
DELIVER_AT = "gq.deliver-at"
# Of every hundred messages, critical first: most are ordinary, as they are in life.
SHARES = (5, 15, 50, 20, 10)
_CONSUMERS = 2
_PUBLISHERS = 4


def delayed_batch(dues: Sequence[int], size: int = 100) -> bytes:
    """Records that are due at these times; the value begins with the time in digits."""
    return bytes(
        build(
            [
                Message(
                    value=(b"%d " % due).ljust(size, b"x"), headers=((DELIVER_AT, b"%d" % due),)
                )
                for due in dues
            ]
        )
    )


def lane_batch(count: int, shares: tuple[int, ...], size: int = 100, seed: int = 1) -> bytes:
    """Records of several lanes in no order."""
    lanes = random.Random(seed).choices(list(Priority), shares, k=count)
    return bytes(build([Message(value=b"x" * size, priority=lane) for lane in lanes]))


async def publish(port: int, topic: str, batches: Sequence[bytes]) -> float:
    """Send all of these records, several requests at a time; the seconds that it took."""
    target = f"/topics/{topic}/records"
    left = iter(batches)
    wires = [await Wire.open(port) for _ in range(_PUBLISHERS)]

    async def work(wire: Wire) -> None:
        for batch in left:
            await wire.send(request("POST", target, batch))

    began = time.perf_counter()
    await asyncio.gather(*(work(wire) for wire in wires))
    seconds = time.perf_counter() - began
    for wire in wires:
        wire.close()
    return seconds


async def join(port: int, group: str, topic: str) -> str:
    """The id of the only member of a group."""
    wire = await Wire.open(port)
    body = {"client_id": "c", "topics": [topic], "session_timeout": "10m"}
    joined = await wire.ask("POST", f"/groups/{group}/join", body)
    wire.close()
    return str(joined["member_id"])


class Consumers:
    """Members of a group that lease and acknowledge as fast as they can."""

    def __init__(self, broker: BrokerProcess, group: str, member: str) -> None:
        self._broker = broker
        query = f"member_id={member}&max_messages={LEASE}&timeout=200ms"
        self._poll = request("GET", f"/groups/{group}/poll?{query}")
        self._left = 0

    async def settle(self, count: int) -> float:
        """Lease and acknowledge so many messages, or up to a lease more; the seconds it took.

        Ends before that if there is nothing left.
        """
        self._left = count
        wires = [await Wire.open(self._broker.port) for _ in range(_CONSUMERS)]
        began = time.perf_counter()
        await asyncio.gather(*(self._work(wire) for wire in wires))
        seconds = time.perf_counter() - began
        for wire in wires:
            wire.close()
        return seconds

    @property
    def excess(self) -> int:
        """How many more were settled than was asked for; negative if there were not so many."""
        return -self._left

    async def _work(self, wire: Wire) -> None:
        while self._left > 0:
            answer = await wire.send(self._poll)
            # As a client would, but without building what it does not look at.
            pieces = answer.split(b'"receipt_handle":"')[1:]
            if not pieces:
                return
            self._left -= len(pieces)
            receipts = b'","'.join(piece[: piece.index(b'"')] for piece in pieces)
            body = b'{"receipt_handles":["' + receipts + b'"]}'
            await wire.send(request("POST", "/messages/ack/batch", body))
