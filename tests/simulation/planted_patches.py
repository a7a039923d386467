"""What planted faults have in common: how a method is found by name, left out or made forgetful.

Each planted fault is a mistake that a change could really make. Patches reach into packages by name
on purpose: that is where such a mistake would be made.
"""

import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["JOURNAL", "Plant", "attribute", "does_nothing", "forget"]

Plant = Callable[[pytest.MonkeyPatch], None]

JOURNAL = "goqueue.broker.journal.Journal"


def does_nothing(*_: object, **__: object) -> None:
    """Stands in for a step that a careless change would leave out."""


def attribute(name: str) -> Any:
    """The method, function or class with this dotted name."""
    return pkgutil.resolve_name(name)


def forget(patch: pytest.MonkeyPatch, *kinds: str) -> None:
    """Let the journal leave out changes of these kinds."""
    note = attribute(f"{JOURNAL}.note")

    def forgetful(journal: Any, changes: Any, then: Any = ()) -> None:
        note(journal, [each for each in changes if type(each).__name__ not in kinds], then)

    patch.setattr(f"{JOURNAL}.note", forgetful)
