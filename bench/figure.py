"""A measured number, what it is compared with, and what it should be."""

import statistics
from collections.abc import Iterable, Mapping

import msgspec

from goqueue import records

__all__ = ["Detail", "Figure", "Rounds", "Target", "mode", "rounded"]

Detail = int | float | str | tuple[int | float, ...] | dict[str, int]
NO_DETAILS: Mapping[str, Detail] = {}


def _is_at_most(found: Detail | None, most: float) -> bool:
    """Whether a detail was measured and holds its bound."""
    return isinstance(found, int | float) and found <= most


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a figure should be; every bound that is set must hold."""

    at_least: float | None = None
    below: float | None = None
    ratio_at_least: float | None = None
    # Of details by their names, such as a p99 or the processor time beside a rate.
    details_at_most: dict[str, float] = {}

    def is_reached(
        self, value: float, ratio: float | None, details: Mapping[str, Detail] = NO_DETAILS
    ) -> bool:
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.below is None or value < self.below)
            and (self.ratio_at_least is None or (ratio or 0.0) >= self.ratio_at_least)
            and all(
                _is_at_most(details.get(name), most) for name, most in self.details_at_most.items()
            )
        )

    def describe(self, baseline: str) -> str:
        words = [
            f"≥ {self.at_least:,.10g}" if self.at_least is not None else "",
            f"< {self.below:,g}" if self.below is not None else "",
            f"≥ {self.ratio_at_least:.0%} of {baseline}" if self.ratio_at_least is not None else "",
            *(f"{name} ≤ {most:,g}" for name, most in self.details_at_most.items()),
        ]
        return ", ".join(word for word in words if word)


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of output. `raw` is in `unit` too, and `ratio` is ours to raw, higher is better."""

    figure: str
    value: float
    unit: str
    raw: float | None = None
    ratio: float | None = None
    target: Target | None = None
    is_reached: bool | None = None
    mode: str = ""
    details: dict[str, Detail] = {}

    def judged(self) -> "Figure":
        """The same, with the mode of this process and whether the target was reached.

        Targets are for the compiled mode: interpreted, the figures only stand beside. A figure that
        another process took was judged there.
        """
        if self.mode:
            return self
        is_judged = self.target is not None and records.COMPILED
        reached = None
        if self.target is not None:
            reached = self.target.is_reached(self.value, self.ratio, self.details)
        return msgspec.structs.replace(self, mode=mode(), is_reached=reached if is_judged else None)


class Rounds:
    """Seconds of ours and of raw in the same rounds: on a noisy machine only pairs compare."""

    def __init__(self) -> None:
        self._pairs: list[tuple[float, float]] = []

    def add(self, ours_s: float, raw_s: float) -> None:
        self._pairs.append((ours_s, raw_s))

    @property
    def ours_s(self) -> float:
        return statistics.median(ours for ours, _ in self._pairs)

    @property
    def raw_s(self) -> float:
        return statistics.median(raw for _, raw in self._pairs)

    @property
    def ratio(self) -> float:
        """The median over the rounds of our rate to the raw one."""
        return round(statistics.median(self.ratios), 3)

    @property
    def ratios(self) -> tuple[float, ...]:
        return rounded((raw / ours for ours, raw in self._pairs), 3)


def mode() -> str:
    return "compiled" if records.COMPILED else "interpreted"


def rounded(numbers: Iterable[float], digits: int = 4) -> tuple[float, ...]:
    return tuple(round(number, digits) for number in numbers)
