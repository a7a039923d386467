"""A worker: `python -m soak.copies.worker URL NAME MODE SEED`; it copies until it is killed.

A stream worker reads its partitions by offset, from where its group stands; a queue worker leases
messages. Either publishes the copies, adds its progress and commits, all in one transaction.
Ends by itself only when another has taken its transactional id.
"""

import random
import sys
import time
from typing import Protocol

from soak.copies.attempts import PAUSE_S, Asking, Broken, Declined, Producer
from soak.copies.notes import note
from tests.integration.http_api import Json

__all__ = ["GROUP", "PER_TRANSACTION", "SOURCE", "TARGET", "TARGET_PARTITIONS"]

SOURCE = "source"
TARGET = "target"
TARGET_PARTITIONS = 3
GROUP = "copiers"
PER_TRANSACTION = 750
SESSION = "2s"
# The longest time that a worker spends between two steps.
STEP_S_MAX = 0.06
FENCED = "producer_fenced"
EVICTED = "member_not_found"
# What may be said to somebody who was dead, frozen or too slow. Anything else is a fault.
EXPECTED = {
    FENCED,
    EVICTED,
    "generation_stale",
    "partition_not_assigned",
    "receipt_stale",
    "topic_busy",
    "transaction_state_invalid",
    "transaction_timeout",
}


class Taking(Protocol):
    """How messages come to the worker."""

    def resume(self) -> None:
        """What was copied and what not is decided now: find out where to go on."""

    def take(self) -> list[Json]:
        """The next messages to copy; none if there are none now."""

    def progress(self, messages: list[Json]) -> Json:
        """What the group has done when these are copied."""

    def copied(self, messages: list[Json]) -> None:
        """They are, for good."""


class Membership:
    """A place in the group."""

    def __init__(self, asking: Asking, mode: str) -> None:
        body = {"client_id": "copier", "topics": [SOURCE], "mode": mode, "session_timeout": SESSION}
        joined = asking.until_answered("POST", f"/groups/{GROUP}/join", body)
        self._asking = asking
        self.id: str = joined["member_id"]
        self.generation: int = joined["generation"]
        self.partitions = [int(each.rpartition("-")[2]) for each in joined["assigned_partitions"]]

    def beat(self) -> bool:
        """Whether the assignment is another one now."""
        body = {"member_id": self.id, "generation": self.generation}
        answer = self._asking.until_answered("POST", f"/groups/{GROUP}/heartbeat", body)
        if not answer["rebalance_required"]:
            return False
        self.generation = answer["generation"]
        self.partitions = [int(each.rpartition("-")[2]) for each in answer["assigned_partitions"]]
        return True


class Stream:
    """Partitions read by offset."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._member = Membership(asking, "partitioned")
        self._places: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def resume(self) -> None:
        path = f"/groups/{GROUP}/offsets?topic={SOURCE}&stable=true"
        known = self._asking.until_answered("GET", path)["offsets"].get(SOURCE, {})
        self._places = {number: known.get(str(number), 0) for number in self._member.partitions}

    def take(self) -> list[Json]:
        if self._member.beat():
            self.resume()
        self._ends = dict(self._places)
        found: list[Json] = []
        for partition, offset in self._places.items():
            path = f"/topics/{SOURCE}/partitions/{partition}/messages"
            limit = PER_TRANSACTION - len(found)
            if limit:
                query = f"offset={offset}&limit={limit}"
                answer = self._asking.until_answered("GET", f"{path}?{query}")
                found += answer["messages"]
                self._ends[partition] = answer["next_offset"]
        return found

    def progress(self, _: list[Json]) -> Json:
        offsets = {str(partition): offset for partition, offset in self._ends.items()}
        member = {"member_id": self._member.id, "generation": self._member.generation}
        return {**member, "offsets": {SOURCE: offsets}}

    def copied(self, _: list[Json]) -> None:
        self._places = self._ends


class Queue:
    """Messages under lease."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._member = Membership(asking, "shared")

    def resume(self) -> None:
        """The broker knows which messages are left."""

    def take(self) -> list[Json]:
        found: list[Json] = []
        while len(found) < PER_TRANSACTION:
            limit = PER_TRANSACTION - len(found)
            query = f"member_id={self._member.id}&max_messages={limit}&timeout=100ms"
            # Not repeated: an answer that was lost holds leases, which run out.
            messages = self._asking.once("GET", f"/groups/{GROUP}/poll?{query}")["messages"]
            if not messages:
                break
            found += messages
        return found

    def progress(self, messages: list[Json]) -> Json:
        return {"receipt_handles": [message["receipt_handle"] for message in messages]}

    def copied(self, messages: list[Json]) -> None:
        """The leases have ended with the transaction."""


def work(url: str, name: str, mode: str, seed: int) -> None:
    """Copy until fenced, beginning anew whenever it is not clear how to go on."""
    asking = Asking(url, random.Random(seed), STEP_S_MAX)
    taking: Taking | None = None
    while True:
        try:
            producer = Producer(asking, name, TARGET, TARGET_PARTITIONS)
            taking = taking or (Stream(asking) if mode == "stream" else Queue(asking))
            taking.resume()
            _copy(producer, taking)
        except Broken:
            note("anew after silence")
            time.sleep(PAUSE_S)
        except Declined as declined:
            note(f"declined {declined.code}")
            if declined.code not in EXPECTED:
                raise
            if declined.code == FENCED:
                return
            if declined.code == EVICTED:
                taking = None


def _copy(producer: Producer, taking: Taking) -> None:
    """One transaction after the other, as long as nothing is in the way."""
    while True:
        messages = taking.take()
        if not messages:
            continue
        producer.begin()
        try:
            producer.copy(messages)
            producer.add(GROUP, taking.progress(messages))
        except Declined:
            producer.abort()
            raise
        if producer.end(len(messages)):
            taking.copied(messages)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
