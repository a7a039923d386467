"""The effective value of every setting, and where it came from."""

from typing import Any, TypeVar, cast

import msgspec

from goqueue.runtime.settings.catalogue import BROKER_NODEID, SETTINGS, Setting
from goqueue.runtime.settings.problems import Problem, problem_with
from goqueue.runtime.settings.sources import Source

__all__ = ["Effective", "Values"]

T = TypeVar("T")


class Effective(msgspec.Struct, frozen=True, kw_only=True):
    """The effective value of one setting, and its place."""

    value: object
    source: Source
    place: str


class Values:
    """The effective value of every setting, each with the type of its setting."""

    def __init__(self, host_name: str) -> None:
        self._values = {
            setting.name: Effective(value=setting.default, source=Source.DEFAULT, place="default")
            for setting in SETTINGS
        }
        self._values[BROKER_NODEID.name] = Effective(
            value=host_name, source=Source.DEFAULT, place="host name"
        )

    def put(self, setting: Setting[Any], effective: Effective) -> None:
        self._values[setting.name] = effective

    def effective(self, setting: Setting[Any]) -> Effective:
        return self._values[setting.name]

    def value(self, setting: Setting[T]) -> T:
        # What `put` stores was read by the kind of the setting.
        return cast(T, self._values[setting.name].value)

    def refused(self, setting: Setting[Any], reason: str) -> Problem:
        """The problem with the value of a setting."""
        effective = self.effective(setting)
        return problem_with(setting, effective.place, setting.show(effective.value), reason)
