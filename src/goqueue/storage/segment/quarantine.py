"""Damage: how it is told, where a damaged segment goes, and when it is removed after all."""

from goqueue.model import Damaged, Offset
from goqueue.storage.filesystem import FileSystem
from goqueue.storage.layout import (
    NameKind,
    classify,
    quarantine_name,
    segment_base,
    segment_name,
)

__all__ = ["DamageFound", "remove_set_aside", "set_aside"]


class DamageFound(Exception):
    """A read met bytes that no longer add up; `event` goes to the log."""

    def __init__(self, event: Damaged) -> None:
        super().__init__(event)
        self.event = event


def set_aside(files: FileSystem, directory: str, base: Offset) -> None:
    """Give a damaged segment a name under which it is neither served nor lost."""
    name = quarantine_name(base, [entry.name for entry in files.entries(directory)])
    files.rename(f"{directory}/{segment_name(base)}", f"{directory}/{name}")


def remove_set_aside(files: FileSystem, directory: str, offset: Offset) -> None:
    """Remove, durably, what was set aside of a log that is truncated to `offset`."""
    for entry in files.entries(directory):
        is_set_aside = classify(entry.name) is NameKind.QUARANTINED
        if is_set_aside and segment_base(entry.name) >= offset:
            files.remove(f"{directory}/{entry.name}")
    files.sync_directory(directory)
