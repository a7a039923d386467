"""How far a member of a group has come, as a transaction takes it along."""

from typing import Protocol

import msgspec

from goqueue.model import LogId

__all__ = ["Progress", "OffsetSource"]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets that are to be committed, and by whom; each is the next one to read."""

    group: str
    offsets: dict[LogId, int]
    member_id: str | None = None
    generation: int | None = None


class OffsetSource(Protocol):
    """A consumer whose progress holds exactly if a transaction does."""

    def check(self) -> None:
        """Raises if the consumer commits by itself."""

    def progress(self) -> Progress:
        """Everything handed out so far; raises if some of it is not ours any more."""

    def note_committed(self, progress: Progress) -> None:
        """The transaction was committed."""

    def rewind(self) -> None:
        """It was not, or nobody knows: what was handed out since the last commit comes again."""
