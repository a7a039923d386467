"""A value that must not be seen: an API key, a shared secret, a passphrase.

Owns one text and shows it to nobody who does not ask for it by `reveal`. Never logs, encodes or
compares it by accident: `repr`, `str` and formatting show a mask, JSON, pickling, copying and `==`
raise.

Invariant: the only way to the text that does not name it is `reveal`.
"""

import hmac
from typing import NoReturn

__all__ = ["MASK", "Secret"]

MASK = "***"


class Secret:
    """A secret text; false if it is empty."""

    __slots__ = ("_text",)
    # Looking one up in a set or a dict compares it.
    __hash__ = None  # type: ignore[assignment]  # as Python itself says that there is none

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one place that sends it."""
        return self._text

    def is_same(self, other: "Secret") -> bool:
        """Whether both hold the same text; the time taken does not depend on where they differ."""
        mine, theirs = (each.reveal().encode("utf-8", "surrogatepass") for each in (self, other))
        return hmac.compare_digest(mine, theirs)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return f"Secret({MASK})" if self._text else "Secret()"

    def __str__(self) -> str:
        return MASK if self._text else ""

    def __eq__(self, other: object) -> bool:
        raise TypeError("secrets are compared by is_same")

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError("a secret is neither pickled nor copied")
