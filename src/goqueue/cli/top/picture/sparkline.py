"""A history as a line of little bars."""

from collections.abc import Sequence

__all__ = ["BARS", "sparkline"]

BARS = "▁▂▃▄▅▆▇█"
_GAP = " "


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The newest values at the right, scaled to the largest of those shown.

    What is zero is the lowest bar, what is more is always higher; what is not known is a gap.
    """
    shown = values[-width:] if width > 0 else ()
    top = max((value for value in shown if value is not None), default=0.0)
    return "".join(_bar(value, top) for value in shown).rjust(max(0, width))


def _bar(value: float | None, top: float) -> str:
    if value is None:
        return _GAP
    if value <= 0 or top <= 0:
        return BARS[0]
    steps = len(BARS) - 1
    return BARS[max(1, min(steps, round(value / top * steps)))]
