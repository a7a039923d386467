"""Problems of a configuration, reported together and without secrets.

Invariant: a text in a problem has no control characters and a bounded length.
"""

from typing import Any

import msgspec

from goqueue.model import MASK
from goqueue.runtime.settings.catalogue import Setting

__all__ = ["Problem", "SettingsInvalid", "problem_with", "quote"]

_SHOWN_MAX = 80


_DEFAULT = "default"


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One problem: its place, the value, and the reason."""

    setting: str
    origin: str
    given: str
    reason: str
    allowed: str = ""

    def __str__(self) -> str:
        given = f"{self.given} " if self.given else ""
        # A reason may name what is allowed.
        is_named = not self.allowed or self.allowed in self.reason
        allowed = "" if is_named else f"; allowed: {self.allowed}"
        # A place names the setting, except that of a setting which nobody gave.
        origin = f"{self.setting} (default)" if self.origin == _DEFAULT else self.origin
        return f"{origin}: {given}{self.reason}{allowed}"


class SettingsInvalid(Exception):
    """An invalid configuration, with at least one problem."""

    def __init__(self, problems: tuple[Problem, ...], warnings: tuple[str, ...] = ()) -> None:
        assert problems
        super().__init__(problems, warnings)
        self.problems = problems
        self.warnings = warnings

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def problem_with(
    setting: Setting[Any], origin: str, given: object, reason: str, *, allowed: str = ""
) -> Problem:
    """A problem with the value of a setting; the value of a secret is masked."""
    shown = MASK if setting.is_secret else _shown(given)
    return Problem(setting=setting.name, origin=origin, given=shown, reason=reason, allowed=allowed)


def quote(text: str) -> str:
    """Quote a foreign text for a message."""
    cut = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
    return '"' + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut) + '"'


def _shown(given: object) -> str:
    match given:
        case str():
            return quote(given)
        case bool():
            return str(given).lower()
        case int() if given.bit_length() > 64:
            return "a huge number"
        case int() | float():
            return str(given)
        case list():
            return "an array"
        case dict():
            return "a table"
        case _:
            return f"a {type(given).__name__}"
