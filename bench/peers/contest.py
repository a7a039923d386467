"""How contenders are compared: in turns within one run, by medians, with what each one spent.

The first round of each warms it up and does not count. A ratio is the median over the rounds of
ours to the peer's in the same round: on a noisy machine only neighbours compare.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from bench.broker_process import Usage
from bench.figure import Detail, Figure, Target
from bench.runner import FULL, QUICK

__all__ = ["Latencies", "Sample", "Samples", "Watch", "compare", "details", "rates"]


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Latencies":
        ordered = sorted(seconds)
        at = [ordered[min(len(ordered) - 1, len(ordered) * share // 100)] for share in (50, 99)]
        return cls(p50=at[0] * 1000, p99=at[1] * 1000)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One round of one contender: what it did, in which time, and what both sides spent on it."""

    count: int
    seconds: float
    cpu_s: float
    client_cpu_s: float
    latencies: dict[str, Latencies] = {}

    @property
    def rate(self) -> float:
        return self.count / self.seconds


class Watch:
    """Processor time of a broker and of this process since it was made."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._client = Usage(os.getpid())
        self._began = time.perf_counter()

    def sample(
        self, count: int, seconds: float = 0.0, latencies: dict[str, Latencies] | None = None
    ) -> Sample:
        return Sample(
            count=count,
            seconds=seconds or time.perf_counter() - self._began,
            cpu_s=self._usage.cpu_s,
            client_cpu_s=self._client.cpu_s,
            latencies=latencies or {},
        )


Contenders = Mapping[str, Callable[[], Sample]]
Samples = dict[str, list[Sample]]


def compare(contenders: Contenders, scale: float) -> Samples:
    """The rounds of all contenders, taken in turns."""
    samples: Samples = {name: [] for name in contenders}
    for number in range(1 + (5 if scale >= FULL else 3 if scale >= QUICK else 1)):
        for name, run in contenders.items():
            sample = run()
            if number:
                samples[name].append(sample)
    return samples


def rates(
    what: str,
    samples: Samples,
    baseline: str = "redis",
    unit: str = "msg/s",
    targets: Mapping[str, Target] | None = None,
) -> Iterator[Figure]:
    """One figure for each contender; those of ours beside the baseline, where there is one."""
    beside = samples.get(baseline)
    for name, taken in samples.items():
        rate = round(statistics.median(each.rate for each in taken))
        is_beside = beside is not None and name != baseline
        yield Figure(
            figure=f"{what}_{name}",
            value=rate,
            unit=unit,
            raw=_median(each.rate for each in beside) if beside and is_beside else None,
            ratio=_ratio(taken, beside, lambda each: each.rate) if beside and is_beside else None,
            target=(targets or {}).get(name),
            details=details(taken),
        )


def details(taken: Sequence[Sample]) -> dict[str, Detail]:
    """The spread of the rounds, and what they cost."""
    each_rate = [round(each.rate) for each in taken]
    found: dict[str, Detail] = {
        "spread": f"{min(each_rate):,}-{max(each_rate):,}",
        "cpu_s_per_million": _cost(each.cpu_s / each.count for each in taken),
        "client_cpu_s_per_million": _cost(each.client_cpu_s / each.count for each in taken),
        "client_cores": round(statistics.median(_client_share(each) for each in taken), 2),
    }
    for name in taken[0].latencies:
        for share in ("p50", "p99"):
            found[f"{name}_{share}_ms"] = round(
                statistics.median(getattr(each.latencies[name], share) for each in taken), 2
            )
    return found


def _client_share(sample: Sample) -> float:
    return sample.client_cpu_s / sample.seconds


def _ratio(
    ours: Sequence[Sample], theirs: Sequence[Sample], value: Callable[[Sample], float]
) -> float:
    pairs = zip(ours, theirs, strict=True)
    return round(statistics.median(value(mine) / value(other) for mine, other in pairs), 3)


def _median(numbers: Iterable[float]) -> float:
    return round(statistics.median(numbers))


def _cost(seconds: Iterable[float]) -> float:
    return round(statistics.median(seconds) * 1e6, 2)
