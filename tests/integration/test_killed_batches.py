"""A node that is killed while it writes a numbered batch: the batch is there once, or not at all.

Kills come for real, as soon as the file is seen to grow; a kill rarely meets the middle of a small
write, so the file is also torn by hand at chosen bytes, with the promise that it had before.
"""

import contextlib
import http.client
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from goqueue.storage import POINT_FILE
from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess
from tests.integration.transactional import Producer, send_records

Connect = Callable[[ServerProcess], Api]
BROKEN = (OSError, http.client.HTTPException)
TOPIC = "t"
SIZES = {"12 MiB": (3_072, 4_096), "1 MiB": (256, 4_096), "13 KiB": (13, 1_024)}
# At which part of the batch the write ends, and whether another producer writes before the retry.
TEARS = ((0.5, False), (0.97, True))
GROWTH_LOOKS_MAX = 2_000_000


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    sequence: int
    values: tuple[str, ...]


class Store:
    """One topic of a node that is killed, what a producer sent to it, and what others did."""

    def __init__(
        self, node: ServerProcess, connect: Connect, size: str, *, is_transactional: bool
    ) -> None:
        self._node = node
        self._connect = connect
        self._count, self._value_size = SIZES[size]
        self.api = connect(node)
        self.api.create(TOPIC)
        self.producer = Producer(self.api, "writer", transaction_timeout_ms=60_000)
        plain = self.api.post("/producers/init", {})
        self._identity = (
            {"producer_id": self.producer.id, "epoch": self.producer.epoch}
            if is_transactional
            else plain
        )
        self.expected: list[str] = []
        self._sequence = 0
        self._others = 0
        self.segment = self._directory / f"{0:020d}.log"
        self._point = self._directory / POINT_FILE

    @property
    def _directory(self) -> Path:
        return self._node.directory / "logs" / TOPIC / "0"

    def restart(self) -> None:
        self._node.restart()
        self.api = self._connect(self._node)
        self.producer.api = self.api

    def next_batch(self) -> Batch:
        first = self._sequence
        values = tuple(
            f"{number}-".ljust(self._value_size, "x")
            for number in range(first, first + self._count)
        )
        self._sequence += self._count
        return Batch(sequence=first, values=values)

    def number_again(self, batch: Batch) -> None:
        """Nothing of this batch was ever there, so its numbers are expected next."""
        self._sequence = batch.sequence

    def send(self, batch: Batch, api: Api | None = None) -> bool:
        """Publish a batch; whether the node says that it was there."""
        answer = send_records(
            api or self.api,
            TOPIC,
            *batch.values,
            **self._identity,
            partition=0,
            sequence=batch.sequence,
        )
        assert answer.status == 200, answer
        [result] = answer.body["results"]
        return bool(result.get("duplicate"))

    def write_as_another(self) -> None:
        """Other producers publish, as many messages as the batch has left to claim."""
        values = [f"other {self._others}-{number}" for number in range(20)]
        self._others += 1
        self.api.publish(TOPIC, *values)
        self.expected += values

    def promise(self) -> tuple[int, bytes]:
        """How long the segment is, and what the recovery point says."""
        return self.segment.stat().st_size, self._point.read_bytes()

    def tear(self, before: tuple[int, bytes], part: float) -> None:
        """The node is killed; its last write ended at this part of it."""
        self._node.kill()
        begin, point = before
        end = self.segment.stat().st_size
        with self.segment.open("r+b") as file:
            file.truncate(begin + int((end - begin) * part))
        self._point.write_bytes(point)

    def kill_in(self, batch: Batch, begin: int) -> None:
        """Send a batch, and kill the node as soon as its file grows."""

        def send() -> None:
            with contextlib.suppress(*BROKEN), contextlib.closing(Api(self._node.url)) as api:
                self.send(batch, api)

        sending = threading.Thread(target=send)
        sending.start()
        for _ in range(GROWTH_LOOKS_MAX):
            if self.segment.stat().st_size > begin:
                break
        self._node.kill()
        sending.join()

    def shown(self) -> list[str]:
        return [message["value"] for message in self.api.read(TOPIC)]


@pytest.mark.parametrize("size", SIZES)
def test_a_torn_numbered_batch_is_written_once_by_its_retry(
    mortal: ServerProcess, connect: Connect, size: str
) -> None:
    store = Store(mortal, connect, size, is_transactional=False)
    store.write_as_another()
    for part, has_others in TEARS:
        batch = store.next_batch()
        before = store.promise()
        assert not store.send(batch)
        store.tear(before, part)
        store.restart()
        if has_others:
            store.write_as_another()
        assert not store.send(batch), "torn, and said to be there"
        assert store.send(batch), "there, and written again"
        store.expected += batch.values
    assert store.shown() == store.expected


@pytest.mark.parametrize("size", SIZES)
def test_a_torn_batch_in_a_transaction_hides_nothing_of_others(
    mortal: ServerProcess, connect: Connect, size: str
) -> None:
    store = Store(mortal, connect, size, is_transactional=True)
    store.write_as_another()
    for number, (part, has_others) in enumerate(TEARS):
        is_commit = number % 2 == 0
        batch = store.next_batch()
        store.producer.begin()
        before = store.promise()
        assert not store.send(batch)
        store.tear(before, part)
        store.restart()
        if has_others:
            store.write_as_another()
        if is_commit:
            assert not store.send(batch), "torn, and said to be there"
            store.producer.commit()
            store.expected += batch.values
        else:
            store.producer.abort()
            store.number_again(batch)
    store.producer.begin()
    batch = store.next_batch()
    assert not store.send(batch)
    store.producer.commit()
    store.expected += batch.values
    assert store.shown() == store.expected


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("is_transaction", [False, True], ids=["plain", "transaction"])
def test_a_batch_during_which_the_node_is_killed_is_written_once(
    mortal: ServerProcess, connect: Connect, size: str, is_transaction: bool
) -> None:
    store = Store(mortal, connect, size, is_transactional=is_transaction)
    store.write_as_another()
    for number in range(2):
        batch = store.next_batch()
        if is_transaction:
            store.producer.begin()
        begin, _ = store.promise()
        store.kill_in(batch, begin)
        store.restart()
        others: list[str] = []
        if number % 2:
            values_before = len(store.expected)
            store.write_as_another()
            others = store.expected[values_before:]
            del store.expected[values_before:]
        was_there = store.send(batch)
        assert store.send(batch), "there, and written again"
        if is_transaction:
            store.producer.commit()
        store.expected += [*batch.values, *others] if was_there else [*others, *batch.values]
    assert store.shown() == store.expected
