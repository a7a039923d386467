"""What a million delayed messages of a partition cost: memory, snapshots, the usual questions.

Due times are in no relation to offsets, and every other record of the log is no message.
"""

import multiprocessing
import os
import statistics
from array import array
from collections.abc import Callable, Iterator
from time import perf_counter

import msgspec

from bench.delivery.wheel import BEGIN, PENDING, due_times
from bench.log.figure import Figure, Target
from goqueue.delivery import WHEEL_REACH_NS, Delays, DelaysStated
from goqueue.model import Offset, Priority, Timestamp

__all__ = ["measure_delays"]

_ROUNDS = 3
_BYTES = Target(below=250)
_RESTORE_MS = Target(below=5000)
_DECODER = msgspec.json.Decoder(DelaysStated)


def measure_delays(scale: float) -> Iterator[Figure]:
    count = max(1000, int(PENDING * scale))
    with multiprocessing.get_context("spawn").Pool(1) as fresh:
        size = fresh.apply(_resident_growth, (count,))
    yield Figure(
        figure="delays_rss_per_message",
        value=round(size / count, 1),
        unit="bytes",
        target=_BYTES,
        details={"messages": count},
    )
    dues = due_times(count, WHEEL_REACH_NS)
    filled = _fill(dues)
    data = msgspec.json.encode(filled.stated(1, 2 * count))
    yield Figure(
        figure="delays_snapshot_per_message",
        value=round(len(data) / count, 1),
        unit="bytes",
        details={"messages": count},
    )
    yield _duration("delays_restore", lambda: _restore(data), count, _RESTORE_MS)
    yield _duration("delays_snapshot", lambda: _snapshot(filled), count)
    yield _duration("delays_add", lambda: _fill(dues), count)
    yield _duration("delays_next_due", filled.next_due, count)
    yield _duration("delays_page_first", lambda: filled.pending(100), count)
    yield _duration("delays_hidden", lambda: sum(1 for _ in filled.hidden_from(0)), count)
    yield _duration("delays_fire", lambda: _fire(_restore(data), count), count)


def _fill(dues: "array[int]") -> Delays:
    delays = Delays(BEGIN)
    for place, due in enumerate(dues):
        delays.add(2 * place, due, Priority.NORMAL)
    return delays


def _snapshot(delays: Delays) -> bytes:
    return msgspec.json.encode(delays.stated(1, 1))


def _restore(data: bytes) -> Delays:
    delays = Delays(BEGIN)
    is_whole = delays.restore(_DECODER.decode(data))
    assert is_whole
    return delays


def _fire(delays: Delays, count: int) -> None:
    """All of it is overdue, and delivered a batch at a time."""
    now = Timestamp(BEGIN + 2 * WHEEL_REACH_NS)
    end = Offset(2 * count)
    while len(delays):
        for offset in delays.due(now, 1000):
            delays.deliver(offset, end)
            end = Offset(end + 1)


def _resident_growth(count: int) -> int:
    dues = due_times(count, WHEEL_REACH_NS)
    before = _resident()
    delays = _fill(dues)
    after = _resident()
    assert len(delays) == count
    return after - before


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _duration(
    name: str, work: Callable[[], object], count: int, target: Target | None = None
) -> Figure:
    rounds = []
    for _ in range(_ROUNDS):
        began = perf_counter()
        work()
        rounds.append((perf_counter() - began) * 1e3)
    return Figure(
        figure=name,
        value=round(statistics.median(rounds), 3),
        unit="ms",
        target=target,
        details={"messages": count, "rounds": tuple(round(each, 3) for each in rounds)},
    )
