"""Names of keyword arguments that a TypedDict declares, checked when a program runs.

Type checkers know them; Python itself takes any name there, and a typo would become a default.
"""

import difflib
from collections.abc import Iterable, Sequence

__all__ = ["check_keywords"]


def check_keywords(call: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise a TypeError for the first name that is not known, with the one that was meant."""
    for name in given:
        if name not in known:
            words = f"{call}() got an unexpected keyword argument {name!r}"
            likely = difflib.get_close_matches(name, known, 1)
            raise TypeError(f"{words}; did you mean {likely[0]!r}?" if likely else words)
