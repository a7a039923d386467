"""A history sorted for the questions of the checkers. Judges nothing.

Positions that a log was allowed to lose are forgotten with it, so a value that is found at two
positions really exists twice.
"""

from collections.abc import Iterable

import msgspec

from goqueue.sim.history.events import (
    Added,
    Asked,
    Began,
    Copied,
    Delivered,
    Died,
    Drained,
    EndAsked,
    Ended,
    Event,
    Failed,
    Fenced,
    Gone,
    Grouped,
    Lost,
    Polled,
    Sent,
    Stood,
    Taken,
)

__all__ = ["Evidence", "Place", "Send", "Trial", "gather"]

Place = tuple[str, int]


class Send(msgspec.Struct, kw_only=True):
    """Everything that is known about one sent value."""

    first: Sent
    times: list[int]
    taken: Place | None = None
    taken_at: int | None = None
    # Attempts of which it is not known that they failed.
    doubtful: int = 0

    @property
    def has_failed(self) -> bool:
        """Whether certainly no attempt was stored."""
        return self.taken is None and not self.doubtful


class Trial(msgspec.Struct, kw_only=True):
    """Everything that is known about one transaction."""

    number: int
    process: str
    commits_asked: list[int] = []
    is_commit: bool | None = None
    # The latest time at which it was surely not decided.
    open_at: int = -1
    values: list[int] = []
    moves: list[tuple[int, Asked]] = []
    groups: list[tuple[int, ...]] = []

    @property
    def may_commit(self) -> bool:
        return self.is_commit is not False and bool(self.commits_asked)


class Evidence:
    """Who sent, saw and ended what, and when."""

    def __init__(self) -> None:
        self.sends: dict[int, Send] = {}
        self.trials: dict[int, Trial] = {}
        self.polls: list[tuple[int, Polled]] = []
        self.deliveries: list[tuple[int, Delivered]] = []
        self.stands: list[tuple[int, Stood]] = []
        self.fenced: dict[str, int] = {}
        self.copies: dict[tuple[str, str], list[int]] = {}
        self.died: dict[tuple[str, str], None] = {}
        self.drained: list[Drained] = []
        self.gone: dict[str, None] = {}
        self.shaken: dict[str, int] = {}
        # Where each value is, and what is at each place, with the time of the first sign of it.
        self.places: dict[int, dict[Place, int]] = {}
        self.holders: dict[Place, dict[int, int]] = {}
        # When a value was first seen as committed, and by anybody.
        self.committed: dict[int, int] = {}
        self.seen: dict[int, int] = {}
        self._asked: dict[int, Asked] = {}

    # Asking

    def trial_of(self, value: int) -> Trial | None:
        send = self.sends.get(value)
        number = None if send is None else send.first.transaction
        return None if number is None else self.trials.get(number)

    def must_be_seen(self, value: int) -> bool:
        """Whether every reader must see the value, as far as its sender knows."""
        send = self.sends[value]
        trial = self.trial_of(value)
        if send.taken is None or send.taken[0] in self.gone:
            return False
        return trial is None or trial.is_commit is True

    @property
    def finals(self) -> dict[tuple[str, str], dict[int, int]]:
        """What each reader of the final phase saw of each log, by offset."""
        found: dict[tuple[str, str], dict[int, int]] = {}
        for _, poll in self.polls:
            if poll.is_final:
                found.setdefault((poll.reader, poll.log), {}).update(poll.values)
        return found

    @property
    def final_values(self) -> dict[int, None]:
        """The values that some reader of the final phase saw."""
        return {value: None for seen in self.finals.values() for value in seen.values()}

    def starts(self) -> dict[str, int]:
        """The last known log start of each log."""
        return {poll.log: poll.start for _, poll in self.polls}

    # Taking in

    def take(self, at: int, event: Event) -> None:
        match event:
            case Sent():
                self._sent(at, event)
            case Taken():
                self._taken(at, event)
            case Failed():
                self.sends[event.value].doubtful -= 1
            case Polled():
                self._polled(at, event)
            case Delivered():
                self.deliveries.append((at, event))
                self._stands(at, event.value, (event.log, event.offset))
                self.committed.setdefault(event.value, at)
            case Lost():
                self._lost(event)
            case Gone():
                self.gone[event.log] = None
            case Stood() | Copied() | Died() | Drained():
                self._grouped(at, event)
            case Fenced():
                self.fenced.setdefault(event.process, at)
            case _:
                self._try(at, event)

    def _grouped(self, at: int, event: Stood | Copied | Died | Drained) -> None:
        """Sort an event about a group and its workers."""
        match event:
            case Stood():
                self.stands.append((at, event))
            case Copied():
                self.copies.setdefault((event.group, event.source), []).append(event.value)
            case Died():
                self.died[event.group, event.source] = None
            case Drained():
                self.drained.append(event)

    def _try(self, at: int, event: Began | Asked | Added | EndAsked | Grouped | Ended) -> None:
        """Sort an event about a transaction."""
        match event:
            case Began():
                self.trials[event.transaction] = Trial(
                    number=event.transaction, process=event.process
                )
            case Asked():
                self._asked[at] = event
            case Added():
                trial = self.trials[event.transaction]
                trial.moves.append((at, self._asked[event.asked]))
                trial.open_at = max(trial.open_at, event.asked)
            case EndAsked():
                if event.is_commit:
                    self.trials[event.transaction].commits_asked.append(at)
            case Grouped():
                for number in event.transactions:
                    self.trials[number].commits_asked.append(at)
                    self.trials[number].groups.append(event.transactions)
            case Ended():
                trial = self.trials[event.transaction]
                trial.is_commit = event.is_commit
                if event.is_commit and trial.commits_asked:
                    # Whichever wish was granted: before the first of them nothing was decided.
                    trial.open_at = max(trial.open_at, trial.commits_asked[0])

    def _sent(self, at: int, event: Sent) -> None:
        send = self.sends.get(event.value)
        if send is None:
            send = self.sends[event.value] = Send(first=event, times=[])
            if event.transaction is not None:
                self.trials[event.transaction].values.append(event.value)
        send.times.append(at)
        send.doubtful += 1

    def _taken(self, at: int, event: Taken) -> None:
        send = self.sends[event.value]
        send.taken = (event.log, event.offset)
        send.taken_at = at if send.taken_at is None else send.taken_at
        self._stands(at, event.value, send.taken)
        if send.first.transaction is not None and not event.is_duplicate:
            trial = self.trials[send.first.transaction]
            trial.open_at = max(trial.open_at, event.asked)

    def _polled(self, at: int, event: Polled) -> None:
        self.polls.append((at, event))
        for offset, value in event.values:
            self._stands(at, value, (event.log, offset))
            self.seen.setdefault(value, at)
            if event.is_committed:
                self.committed.setdefault(value, at)

    def _stands(self, at: int, value: int, place: Place) -> None:
        self.places.setdefault(value, {}).setdefault(place, at)
        self.holders.setdefault(place, {}).setdefault(value, at)

    def _lost(self, event: Lost) -> None:
        """Forget lost values: they may be stored again, and others in their positions."""
        self.shaken[event.log] = min(event.end, self.shaken.get(event.log, event.end))
        for place in [each for each in self.holders if each[0] == event.log]:
            if place[1] < event.end:
                continue
            for value in self.holders.pop(place):
                del self.places[value][place]
                self.committed.pop(value, None)
                self.seen.pop(value, None)
                send = self.sends.get(value)
                if send is not None and send.taken == place:
                    send.taken = send.taken_at = None
        # The same may come again to the same place, and be copied again.
        for key in [each for each in self.copies if _is_behind(each[1], event)]:
            del self.copies[key]


def _is_behind(source: str, lost: Lost) -> bool:
    """Whether the source of a copy was lost."""
    log, _, rest = source.rpartition(":")
    return log == lost.log and int(rest.partition("=")[0]) >= lost.end


def gather(events: Iterable[Event]) -> Evidence:
    """Sort a history."""
    evidence = Evidence()
    for at, event in enumerate(events):
        evidence.take(at, event)
    return evidence
