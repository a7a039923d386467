"""Logs that no known topic lays claim to: moved out of the way, never deleted.

Metadata may be older than the logs beside it, as after a restore. Then a topic that it does not
mention is not one that was deleted, and what to do about it is for a person to say.
`unclaimed/{number}` holds what one sweep found, under the names it had.

Crash points: each topic is moved by one rename, and lies in one place or in the other. A process
that dies between the rename and its syncs leaves a name that looks free: the next sweep syncs what
the last one moved, before a topic of that name can be made.
"""

from collections.abc import Collection
from contextlib import suppress

import msgspec

from goqueue.storage.filesystem import EntryKind, FileSystem, ensure_directory
from goqueue.storage.layout import LOGS, UNCLAIMED, is_topic

__all__ = ["Moved", "move_unclaimed"]


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The logs of a topic that were moved: from where, and where to."""

    old: str
    new: str


def move_unclaimed(files: FileSystem, topics: Collection[str]) -> tuple[Moved, ...]:
    """Move the logs of every topic but these, durably; what was moved."""
    if files.kind(LOGS) is not EntryKind.DIRECTORY:
        return ()
    _finish_last_sweep(files)
    claimed = frozenset(topics)
    names = sorted(
        entry.name
        for entry in files.entries(LOGS)
        if entry.kind is EntryKind.DIRECTORY and is_topic(entry.name) and entry.name not in claimed
    )
    if not names:
        return ()
    place = _make_place(files)
    moves = tuple(Moved(old=f"{LOGS}/{name}", new=f"{place}/{name}") for name in names)
    try:
        for move in moves:
            files.rename(move.old, move.new)
        # The new place first: if one of the two is lost, it should be the old one.
        files.sync_directory(place)
        files.sync_directory(LOGS)
    except OSError:
        _take_back(files, moves)
        raise
    return moves


def _finish_last_sweep(files: FileSystem) -> None:
    """Make durable what a sweep moved that a crash may have cut short."""
    if files.kind(UNCLAIMED) is not EntryKind.DIRECTORY:
        return
    numbers = [int(entry.name) for entry in files.entries(UNCLAIMED) if entry.name.isdecimal()]
    if numbers:
        files.sync_directory(f"{UNCLAIMED}/{max(numbers)}")
        files.sync_directory(LOGS)


def _take_back(files: FileSystem, moves: tuple[Moved, ...]) -> None:
    """A move that may not be durable never was: its name must not look free.

    A new topic of that name would else be made where, after a power cut, the old one lies.
    """
    for move in moves:
        with suppress(OSError):
            files.rename(move.new, move.old)


def _make_place(files: FileSystem) -> str:
    """A new directory, durable before anything is moved into it."""
    ensure_directory(files, UNCLAIMED)
    taken = [entry.name for entry in files.entries(UNCLAIMED)]
    number = max((int(name) for name in taken if name.isdecimal()), default=0) + 1
    place = f"{UNCLAIMED}/{number}"
    files.make_directory(place)
    files.sync_directory("")
    files.sync_directory(UNCLAIMED)
    return place
