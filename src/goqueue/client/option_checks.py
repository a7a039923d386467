"""Checks of options where they are given: a wrong type is a TypeError, a wrong value a ValueError.

Each names the option and what is allowed. Imports nothing that `import goqueue` should not cost.
"""

import math
from collections.abc import Iterable

from goqueue.client.errors import ArgumentInvalid

__all__ = [
    "check_count",
    "check_flag",
    "check_name",
    "check_seconds",
    "check_serializer",
    "check_topics",
    "path_part",
]


def check_count(what: str, given: object, least: int, most: int | None = None) -> int:
    """A whole number within bounds; True and 1.0 are none."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{what} is a whole number, not {_shown(given)}")
    if given < least or (most is not None and given > most):
        allowed = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{what} is {allowed}, not {given}")
    return given


def check_seconds(
    what: str, given: object, most: float | None = None, *, is_positive: bool = False
) -> float:
    """A number of seconds within bounds, without a unit."""
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise TypeError(f"{what} is a number of seconds, not {_shown(given)}")
    is_low = given <= 0 if is_positive else given < 0
    if not math.isfinite(given) or is_low or (most is not None and given > most):
        allowed = "above 0" if is_positive else "at least 0"
        upto = "" if most is None else f" and at most {most:g}"
        raise ValueError(f"{what} is a number of seconds {allowed}{upto}, not {given!r}")
    return given


def check_flag(what: str, given: object) -> bool:
    """True or False, and nothing that could stand for them."""
    if not isinstance(given, bool):
        raise TypeError(f"{what} is True or False, not {_shown(given)}")
    return given


def check_name(what: str, given: object) -> str:
    """A text that is not empty."""
    if not isinstance(given, str):
        raise TypeError(f"{what} is a name, not {_shown(given)}")
    if not given:
        raise ValueError(f"{what} is empty")
    return given


def check_topics(given: str | Iterable[str]) -> tuple[str, ...]:
    """The names of one topic or of several."""
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names:
        raise ValueError("topics is empty: name at least one topic")
    return tuple(check_name("a topic", name) for name in names)


def check_serializer(given: object) -> None:
    """An object that writes and reads values; a model or a class is none."""
    methods = (getattr(given, name, None) for name in ("definition", "encoder", "decoder"))
    if isinstance(given, type) or not all(callable(method) for method in methods):
        words = "serializer is a goqueue.Avro, goqueue.Json or goqueue.Protobuf"
        raise TypeError(f"{words}, such as goqueue.Json(Order), not {_shown(given)}")


def path_part(given: object) -> str:
    """A name or a number in the path of a request; None would ask for a topic called "None"."""
    if not isinstance(given, str | int):
        raise TypeError(f"a name is str, not {_shown(given)}")
    if given == "":
        raise ArgumentInvalid("a name or an id is empty")
    return str(given)


def _shown(given: object) -> str:
    return f"{given!r} ({type(given).__name__})"
