"""A broker at the other end of a socket that keeps what it is sent, as far as producers see it.

Takes records by partition and checks their numbers as the contract says; knows producers, epochs
and one transaction each. A test tells it what to answer instead, or to hang up after it has done
what it was asked.
"""

import asyncio
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import msgspec

from goqueue import records
from tests.unit.client.peer import HANG_UP, Answer, Asked, json_answer, refusal_answer

__all__ = ["Ledger"]


class Batch(msgspec.Struct, frozen=True):
    """What one request brought to a partition; without a number where it has none."""

    partition: int
    values: list[bytes]
    producer_id: int = 0
    epoch: int = -1
    sequence: int = -1
    first: int = 0


class Ledger:
    """Keeps batches in the order in which they were taken, and every call by its route."""

    def __init__(self, partitions: int = 1) -> None:
        self.partitions = partitions
        self.batches: list[Batch] = []
        self.calls: list[str] = []
        self.bodies: list[dict[str, object]] = []
        # What to answer to the next calls of a route instead of doing what is asked.
        self.instead: dict[str, list[Answer]] = {}
        # Calls of a route after which the connection breaks: it is done, and nobody learns of it.
        self.unheard: dict[str, int] = {}
        self.producers = 0
        self.epochs: dict[int, int] = {}
        self.ids: dict[str, int] = {}
        self.state = "none"
        self.was_called = asyncio.Event()
        self.gates: dict[str, asyncio.Event] = {}

    @property
    def values(self) -> list[bytes]:
        return [value for batch in self.batches for value in batch.values]

    def count(self, route: str) -> int:
        return self.calls.count(route)

    async def wait_for(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self.was_called.clear()
            await self.was_called.wait()

    async def __call__(self, asked: Asked) -> Answer:
        route = asked.target.split("?")[0].rsplit("/", 1)[-1]
        if asked.method == "GET" and route != "healthz":
            route = "describe"
        self.calls.append(route)
        self.was_called.set()
        if route in self.gates:
            await self.gates[route].wait()
        if self.instead.get(route):
            return self.instead[route].pop(0)
        answer = self._answer(route, asked)
        if self.unheard.get(route, 0):
            self.unheard[route] -= 1
            return HANG_UP
        return answer

    def _answer(self, route: str, asked: Asked) -> Answer:
        if route == "describe":
            return json_answer({"partitions": self.partitions})
        if route == "healthz":
            return json_answer({"status": "pass", "timestamp": "2030-01-31T12:00:00Z"})
        if route == "records":
            return self._take(asked)
        fields = msgspec.json.decode(asked.body, type=dict[str, object])
        self.bodies.append(fields)
        if route == "init":
            return self._init(fields)
        if route == "heartbeat":
            return json_answer({"success": True})
        return self._step(route)

    def _init(self, fields: dict[str, object]) -> Answer:
        name = str(fields.get("transactional_id", ""))
        self.state = "none"
        if name not in self.ids or not name:
            self.producers += 1
            self.ids[name] = self.producers
        producer_id = self.ids[name]
        self.epochs[producer_id] = self.epochs.get(producer_id, -1) + 1
        return json_answer({"producer_id": producer_id, "epoch": self.epochs[producer_id]})

    def _step(self, route: str) -> Answer:
        allowed, after, words = {
            "begin": (("none", "committed", "aborted"), "open", {"transaction_id": "7-1"}),
            "offsets": (("open",), "open", {"status": "added"}),
            "prepare": (
                ("open", "prepared"),
                "prepared",
                {"status": "prepared", "transaction_id": "7-1"},
            ),
            "commit": (("open", "committed"), "committed", {"status": "committed"}),
            "abort": (("open", "prepared", "aborted"), "aborted", {"status": "aborted"}),
            "commit-group": (("prepared",), "committed", {"status": "committed"}),
        }[route]
        if self.state not in allowed:
            return refusal_answer(409, "transaction_state_invalid", state=self.state)
        self.state = after
        return json_answer(words)

    def _take(self, asked: Asked) -> Answer:
        query = {
            name: int(values[0]) for name, values in parse_qs(urlsplit(asked.target).query).items()
        }
        columns = records.walk(asked.body)
        values = [
            records.decode(asked.body, position).value or b"" for position in columns.positions
        ]
        batch = Batch(values=values, **query)
        mine = [each for each in self.batches if _is_same_author(each, batch)]
        expected = mine[-1].sequence + len(mine[-1].values) if mine else 0
        for known in mine:
            if known.sequence == batch.sequence >= 0:
                return _placed(known)
        if batch.sequence >= 0 and batch.sequence != expected:
            return refusal_answer(409, "sequence_out_of_order", expected=expected)
        here = [each for each in self.batches if each.partition == batch.partition]
        first = sum(len(each.values) for each in here)
        self.batches.append(msgspec.structs.replace(batch, first=first))
        return _placed(self.batches[-1])


def _is_same_author(batch: Batch, other: Batch) -> bool:
    return (batch.partition, batch.producer_id, batch.epoch) == (
        other.partition,
        other.producer_id,
        other.epoch,
    )


def _placed(batch: Batch) -> Answer:
    placed = {
        "partition": batch.partition,
        "base_offset": batch.first,
        "count": len(batch.values),
    }
    return json_answer({"results": [placed], "timestamp": "1970-01-01T00:00:01Z"})
