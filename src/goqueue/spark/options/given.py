"""The options as Spark hands them over, asked for by name.

Owns the words about what is wrong with a single option. An option that nobody knows is wrong, too,
because a misspelt one would do nothing without a word; so is one that is for another use.

Invariant: whatever is wrong is told by one `OptionInvalid` that names the option.
"""

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from goqueue.model import nearest_name
from goqueue.spark.options.table import OPTIONS, USES

__all__ = ["Given", "OptionInvalid", "name_of"]

T = TypeVar("T")

# What Spark puts among the options for itself.
_SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "outputmode"})
_KNOWN = {option.name.lower(): option for rows in OPTIONS.values() for option in rows}
_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MOST = (1 << 63) - 1


class OptionInvalid(ValueError):
    """An option that is missing, wrong, or contradicts another."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(option, reason)
        self.option = option
        self.reason = reason

    def __str__(self) -> str:
        return f"option `{self.option}` of format goqueue: {self.reason}"


class Given:
    """Texts by name, which is read in any case; those that are not for `use` are refused."""

    def __init__(self, given: Mapping[str, str], use: str) -> None:
        self._texts = {name.lower(): str(text).strip() for name, text in given.items()}
        for name in sorted(self._texts.keys() - _SPARKS_OWN):
            option = _KNOWN.get(name)
            if option is None:
                near = nearest_name(name, _KNOWN)
                hint = "" if near is None else f"; did you mean `{_KNOWN[near].name}`?"
                raise OptionInvalid(name, f"is unknown{hint}")
            if use not in option.uses:
                right = " and ".join(USES[each] for each in option.uses)
                raise OptionInvalid(option.name, f"is for {right}, not for {USES[use]}")

    def text(self, name: str) -> str | None:
        assert name.lower() in _KNOWN, name
        text = self._texts.get(name.lower())
        if text is not None and not text:
            raise OptionInvalid(name, "is empty")
        return text

    def flag(self, name: str, default: bool) -> bool:
        text = (self.text(name) or str(default)).lower()
        if text not in {"true", "false"}:
            raise OptionInvalid(name, f"is true or false, not {text!r}")
        return text == "true"

    def number(self, name: str, default: int, least: int = 1, most: int = _MOST) -> int:
        text = self.text(name)
        if text is None:
            return default
        if not re.fullmatch(r"\d{1,19}", text) or not least <= int(text) <= most:
            raise OptionInvalid(name, f"is a number from {least} to {most}, not {text!r}")
        return int(text)

    def duration_ms(self, name: str, default: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        found = _DURATION.fullmatch(text)
        if found is None:
            raise OptionInvalid(name, f"is a duration such as 500ms, 30s or 15m, not {text!r}")
        return int(found[1]) * _UNITS_MS[found[2]]

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of the choices, in any case; the first one is the default."""
        text = self.text(name) or choices[0]
        for each in choices:
            if each.lower() == text.lower():
                return each
        raise OptionInvalid(name, f"is one of {', '.join(choices)}, not {text!r}")

    def name(self, name: str) -> str | None:
        """The name of a topic or the like."""
        text = self.text(name)
        return None if text is None else name_of(name, text)

    def decoded(self, name: str, decoder: msgspec.json.Decoder[T], example: str) -> T | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return decoder.decode(text)
        except msgspec.MsgspecError as error:
            raise OptionInvalid(name, f"is JSON such as {example}: {error}") from error


def name_of(option: str, text: str) -> str:
    """A name as the broker takes it; refused under the name of its option."""
    if not _NAME.fullmatch(text):
        raise OptionInvalid(option, f"{text!r} is no name: letters, digits, `.`, `_` and `-`")
    return text
