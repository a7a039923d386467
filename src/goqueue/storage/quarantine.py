"""Damage: how it is told, and where a damaged segment goes."""

from goqueue.model import Damaged, Offset
from goqueue.storage.filesystem import FileSystem
from goqueue.storage.layout import quarantine_name, segment_name

__all__ = ["DamageFound", "set_aside"]


class DamageFound(Exception):
    """A read met bytes that no longer add up; `event` goes to the log."""

    def __init__(self, event: Damaged) -> None:
        super().__init__(event)
        self.event = event


def set_aside(files: FileSystem, directory: str, base: Offset) -> None:
    """Give a damaged segment a name under which it is neither served nor lost."""
    name = quarantine_name(base, [entry.name for entry in files.entries(directory)])
    files.rename(f"{directory}/{segment_name(base)}", f"{directory}/{name}")
