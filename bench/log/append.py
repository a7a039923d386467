"""Appending batches with `flush=commit`, eight in flight, against raw writes with the same syncs.

The batches are made before the clock starts, as a producer sends bytes, each a bytearray of its
own because stamping works in place. Two more figures add what a broker may have to do first: check
the sums of a batch that came over the network, or build it from message objects.
"""

import os
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from random import Random
from time import perf_counter

import msgspec

from bench.figure import Detail, Figure, Rounds, Target, rounded
from bench.log.amounts import BATCH_RECORDS, IN_FLIGHT, MIB, Amounts
from bench.log.tape import Tape, recording, replay
from goqueue import records
from goqueue.model import LogId, LogSettings, Message, Offset
from goqueue.runtime import LocalLog

__all__ = ["LOG", "append_all", "make_messages", "measure_append"]

LOG = LogId("bench", 0)
VALUE_SIZES = {"100B": 100, "1KiB": 1024}
TARGETS = {
    "100B": Target(at_least=1_500_000, ratio_at_least=0.5),
    "1KiB": Target(ratio_at_least=0.6),
}


def make_messages(value_size: int) -> list[Message]:
    """One batch of messages whose values do not compress."""
    random = Random(value_size)
    return [Message(value=random.randbytes(value_size)) for _ in range(BATCH_RECORDS)]


def append_all(log: LocalLog, batches: Iterable[bytearray]) -> Offset:
    """Append with a bounded number of batches in flight; returns when all are committed."""
    in_flight: deque[Offset] = deque()
    for batch in batches:
        if len(in_flight) == IN_FLIGHT:
            log.wait_for_commit(in_flight.popleft())
        in_flight.append(log.append(batch).next)
    end = in_flight[-1]
    committed = log.wait_for_commit(end)
    assert committed == end, f"committed {committed} of {end}: {log.log.failure}"
    return end


def measure_append(root: str, amounts: Amounts) -> Iterator[Figure]:
    for size_name, value_size in VALUE_SIZES.items():
        measured = _Append(root, amounts, size_name, value_size)
        yield measured.ready_bytes()
        yield measured.prepared("verified", measured.verified)
        yield measured.prepared("built", measured.built)


class _Timed(msgspec.Struct, frozen=True):
    """One run of the log: how long, and what it wrote between syncs."""

    seconds: float
    tape: Tape


class _Append:
    """The figures of one size of values."""

    def __init__(self, root: str, amounts: Amounts, size_name: str, value_size: int) -> None:
        self._root = root
        self._amounts = amounts
        self._size_name = size_name
        self._messages = make_messages(value_size)
        self._template = records.build(self._messages)
        self._count = max(amounts.append_bytes // len(self._template), 2 * IN_FLIGHT)
        self._size = self._count * len(self._template)

    def ready_bytes(self) -> Figure:
        rounds = Rounds()
        batches = self._copies()
        tape = self._run(iter(batches)).tape
        tapes: list[Tape] = []
        for number in range(self._amounts.rounds):
            # Every other round raw goes first, with the syncs of the round before.
            if number % 2:
                raw_s = self._replay(batches, tape)
                timed = self._run(iter(batches))
            else:
                timed = self._run(iter(batches))
                raw_s = self._replay(batches, timed.tape)
            tape = timed.tape
            rounds.add(timed.seconds, raw_s)
            tapes.append(tape)
        return Figure(
            figure=f"append_{self._size_name}",
            value=self._rate(rounds.ours_s),
            unit="records/s",
            raw=self._rate(rounds.raw_s),
            ratio=rounds.ratio,
            target=TARGETS[self._size_name],
            details={
                "ratios": rounds.ratios,
                "mb_per_s": round(self._size / rounds.ours_s / 1e6, 1),
                "raw_mb_per_s": round(self._size / rounds.raw_s / 1e6, 1),
                **self._tapes(tapes),
            },
        )

    def _tapes(self, tapes: list[Tape]) -> dict[str, Detail]:
        shared = Counter(group for tape in tapes for group in tape.groups)
        return {
            "mib_per_round": self._size // MIB,
            "syncs": tuple(len(tape.groups) for tape in tapes),
            "other_syncs": tuple(tape.other_syncs for tape in tapes),
            "batches_per_sync": {str(size): shared[size] for size in sorted(shared)},
            "batches": "copied before the clock starts",
        }

    def prepared(self, what: str, batches: Callable[[], Iterator[bytearray]]) -> Figure:
        """The rate when each batch is prepared by the appending thread, within the timed part."""
        seconds = [self._run(batches()).seconds for _ in range(min(self._amounts.rounds, 3))]
        middle = sorted(seconds)[len(seconds) // 2]
        return Figure(
            figure=f"append_{self._size_name}_{what}",
            value=self._rate(middle),
            unit="records/s",
            details={
                "mb_per_s": round(self._size / middle / 1e6, 1),
                "seconds": rounded(seconds),
            },
        )

    def verified(self) -> Iterator[bytearray]:
        copies = self._copies()

        def check() -> Iterator[bytearray]:
            for batch in copies:
                records.verify(batch)
                yield batch

        return check()

    def built(self) -> Iterator[bytearray]:
        return (records.build(self._messages) for _ in range(self._count))

    def _copies(self) -> list[bytearray]:
        return [bytearray(self._template) for _ in range(self._count)]

    def _run(self, batches: Iterator[bytearray]) -> _Timed:
        root = os.path.join(self._root, "append")
        os.sync()
        with recording(len(self._template)) as tape, LocalLog(root, LOG, LogSettings()) as log:
            began = perf_counter()
            append_all(log, batches)
            seconds = perf_counter() - began
        shutil.rmtree(root)
        return _Timed(seconds, tape)

    def _replay(self, batches: list[bytearray], tape: Tape) -> float:
        os.sync()
        return replay(os.path.join(self._root, "raw"), batches, tape.groups)

    def _rate(self, seconds: float) -> int:
        return round(self._count * BATCH_RECORDS / seconds)
