"""How fast timers are inserted, cancelled and fired, a million of them pending.

Due times are in no relation to numbers, so every timer is looked for anywhere in memory: where
messages of a topic have equal delays it is faster.
"""

import random
import statistics
from array import array
from collections.abc import Callable, Iterator
from time import perf_counter, process_time

from bench.figure import Figure, Target
from goqueue.delivery import WHEEL_REACH_NS, Wheel
from goqueue.model import MILLISECOND, SECOND, Timestamp

__all__ = ["BEGIN", "PENDING", "due_times", "fill", "measure_wheel"]

BEGIN = Timestamp(1_790_000_000 * SECOND + 123)
PENDING = 1_000_000
_ROUNDS = 3
_TARGET = Target(at_least=500_000)
_PAGE = 100

# Prepares a round; what is timed comes back.
_Work = Callable[[], Callable[[], object]]


def measure_wheel(scale: float) -> Iterator[Figure]:
    count = max(1000, int(PENDING * scale))
    soon, spread = due_times(count, 10 * SECOND), due_times(count, WHEEL_REACH_NS)
    shuffled = array("q", random.Random(2).sample(range(count), count))
    rates: dict[str, _Work] = {
        "wheel_insert": lambda: _inserting(spread),
        "wheel_cancel": lambda: _cancelling(spread, shuffled),
        "wheel_fire_tick_by_tick": lambda: _firing(soon),
        "wheel_fire_after_a_pause": lambda: _catching_up(spread),
    }
    for name, work in rates.items():
        yield _rate(name, work, count)
    for name, work in {
        "wheel_follow_clock_back": lambda: _going_back(spread),
        "wheel_page_first": lambda: _paging(spread, 0),
        "wheel_page_middle": lambda: _paging(spread, count // 2),
    }.items():
        yield _duration(name, work)


def due_times(count: int, span_ns: int) -> "array[int]":
    chance = random.Random(1)
    return array("q", [BEGIN + chance.randrange(span_ns) for _ in range(count)])


def fill(dues: "array[int]") -> Wheel:
    wheel = Wheel(BEGIN)
    for timer, due in enumerate(dues):
        wheel.insert(timer, Timestamp(due))
    return wheel


def _inserting(dues: "array[int]") -> Callable[[], object]:
    return lambda: fill(dues)


def _cancelling(dues: "array[int]", order: "array[int]") -> Callable[[], object]:
    wheel = fill(dues)

    def cancel() -> None:
        for timer in order:
            wheel.cancel(timer)
        assert len(wheel) == 0

    return cancel


def _firing(dues: "array[int]") -> Callable[[], object]:
    wheel = fill(dues)

    def fire() -> None:
        now = BEGIN
        while len(wheel):
            now = Timestamp(now + 10 * MILLISECOND)
            wheel.advance(now)

    return fire


def _catching_up(dues: "array[int]") -> Callable[[], object]:
    wheel = fill(dues)

    def fire() -> None:
        now = Timestamp(BEGIN + WHEEL_REACH_NS + SECOND)
        while len(wheel):
            wheel.advance(now, limit=1000)

    return fire


def _going_back(dues: "array[int]") -> Callable[[], object]:
    wheel = fill(dues)
    wheel.advance(Timestamp(BEGIN + 3 * SECOND))
    return lambda: wheel.advance(Timestamp(BEGIN - 2 * WHEEL_REACH_NS))


def _paging(dues: "array[int]", skip: int) -> Callable[[], object]:
    wheel = fill(dues)
    return lambda: wheel.page(skip, _PAGE)


def _timed(work: _Work) -> tuple[float, float]:
    """Seconds on the clock and on the processor."""
    timed = work()
    began, spent = perf_counter(), process_time()
    timed()
    return perf_counter() - began, process_time() - spent


def _rate(name: str, work: _Work, count: int) -> Figure:
    rounds = [_timed(work) for _ in range(_ROUNDS)]
    return Figure(
        figure=name,
        value=round(count / statistics.median(seconds for seconds, _ in rounds)),
        unit="timers/s",
        target=_TARGET,
        details={
            "timers": count,
            "rounds": tuple(round(count / seconds) for seconds, _ in rounds),
            "cpu_s_per_million": round(
                statistics.median(cpu for _, cpu in rounds) / count * 1e6, 2
            ),
        },
    )


def _duration(name: str, work: _Work) -> Figure:
    rounds = [_timed(work)[0] * 1e3 for _ in range(_ROUNDS)]
    return Figure(
        figure=name,
        value=round(statistics.median(rounds), 3),
        unit="ms",
        details={"rounds": tuple(round(each, 3) for each in rounds)},
    )
