"""What a worker noted about its attempts, line by line: it may die between any two of them.

Whatever is not noted is not known: an attempt without an end may have been committed or not.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

__all__ = ["Note", "note", "read_notes"]


class Note(msgspec.Struct, frozen=True):
    """What became of an attempt: filled, committed or aborted; or what happened to the worker."""

    what: str
    attempt: str = ""
    count: int = 0


_decoder = msgspec.json.Decoder(Note)
_encoder = msgspec.json.Encoder()


def note(what: str, attempt: str = "", count: int = 0) -> None:
    """Say it now: a line that is not written when the worker is killed is never written."""
    sys.stdout.write(_encoder.encode(Note(what, attempt, count)).decode() + "\n")
    sys.stdout.flush()


def read_notes(directory: Path) -> Iterator[Note]:
    """Every whole line of every worker."""
    for path in sorted(directory.glob("*.notes")):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield _decoder.decode(line)
