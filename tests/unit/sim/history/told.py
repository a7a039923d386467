"""Histories as a few clients would tell them: short to write, complete enough to be judged."""

from goqueue.sim.history import (
    Added,
    Asked,
    Began,
    Copied,
    Delivered,
    EndAsked,
    Ended,
    Event,
    Failed,
    Fenced,
    History,
    Polled,
    Sent,
    Taken,
    gather,
)
from goqueue.sim.history.evidence import Evidence

__all__ = ["LOG", "Told"]

LOG = "t#1-0"


class Told:
    """A history that is being told."""

    def __init__(self) -> None:
        self._history = History()
        self._readers = 0

    def note(self, event: Event) -> int:
        return self._history.note(event)

    @property
    def evidence(self) -> Evidence:
        return gather(self._history.events)

    @property
    def events(self) -> list[Event]:
        return self._history.events

    def sent(
        self,
        value: int,
        *,
        process: str = "1/0",
        transaction: int | None = None,
        sequence: int | None = None,
        log: str = LOG,
    ) -> int:
        sent = Sent(
            value=value, process=process, log=log, transaction=transaction, sequence=sequence
        )
        return self.note(sent)

    def taken(self, value: int, offset: int, asked: int, *, log: str = LOG) -> None:
        self.note(Taken(value=value, log=log, offset=offset, asked=asked))

    def failed(self, value: int, asked: int) -> None:
        self.note(Failed(value=value, asked=asked))

    def wrote(
        self,
        value: int,
        offset: int,
        *,
        process: str = "1/0",
        transaction: int | None = None,
        sequence: int | None = None,
        log: str = LOG,
    ) -> None:
        """Sent, and answered at once."""
        asked = self.sent(
            value, process=process, transaction=transaction, sequence=sequence, log=log
        )
        self.taken(value, offset, asked, log=log)

    def began(self, transaction: int, process: str = "1/0") -> None:
        self.note(Began(transaction=transaction, process=process))

    def asked_to_commit(self, transaction: int) -> int:
        return self.note(EndAsked(transaction=transaction, is_commit=True))

    def committed(self, transaction: int) -> None:
        asked = self.asked_to_commit(transaction)
        self.note(Ended(transaction=transaction, is_commit=True, asked=asked))

    def aborted(self, transaction: int) -> None:
        self.note(EndAsked(transaction=transaction, is_commit=False))
        self.note(Ended(transaction=transaction, is_commit=False))

    def fenced(self, process: str) -> None:
        self.note(Fenced(process=process))

    def polled(
        self,
        *values: tuple[int, int],
        first: int = 0,
        upto: int | None = None,
        stable: int = 100,
        reader: str | None = None,
        is_committed: bool = True,
        is_final: bool = False,
        log: str = LOG,
    ) -> None:
        """Somebody was shown these values by offset."""
        self._readers += 1
        polled = Polled(
            reader=reader or f"reader-{self._readers}",
            log=log,
            first=first,
            upto=max([first, *(offset + 1 for offset, _ in values)]) if upto is None else upto,
            values=values,
            stable=stable,
            is_committed=is_committed,
            is_final=is_final,
        )
        self.note(polled)

    def ended_with(self, *values: tuple[int, int], log: str = LOG, upto: int = 100) -> None:
        """A reader of the final phase sees these."""
        self.polled(*values, upto=upto, is_final=True, log=log)

    def delivered(self, offset: int, value: int, group: str = "g") -> None:
        self.note(Delivered(group=group, log=LOG, offset=offset, value=value))

    def added(
        self, transaction: int, *, floor: int = 0, offsets: tuple[int, ...] = (), group: str = "g"
    ) -> None:
        asked = self.note(
            Asked(transaction=transaction, group=group, log=LOG, floor=floor, offsets=offsets)
        )
        self.note(Added(transaction=transaction, asked=asked))

    def copied(self, source: str, value: int, group: str = "g") -> None:
        self.note(Copied(group=group, source=source, value=value))
