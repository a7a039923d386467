"""What must be true of a run, whatever was killed when.

Pure: takes the journals of the workers and what a node holds at the end, and finds violations.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

import msgspec

from soak.journal import Delivered, Event, Published, Seen, Sent, Settled

__all__ = ["Holdings", "Letter", "Verdict", "judge"]

DELIVERIES_MAX = 3
# Leases end by the monotonic clock and are told in wall time, which is read a moment apart.
CLOCKS_NS = 10_000_000
Place = tuple[int, int]
Lane = tuple[str, int, int]


class Letter(msgspec.Struct, frozen=True):
    """One dead letter, by where it came from."""

    group: str
    partition: int
    offset: int
    value: str


class Holdings(msgspec.Struct, frozen=True):
    """What the node holds after the run."""

    messages: dict[Place, str]
    keys: dict[Place, str]
    letters: tuple[Letter, ...]
    lags: dict[str, int]
    kills: tuple[int, ...]


class Verdict(msgspec.Struct, frozen=True):
    """Counts of what happened, and every promise that was broken."""

    counts: dict[str, int]
    violations: list[str]


class _Case(msgspec.Struct):
    """The evidence, sorted for the questions."""

    sent: dict[str, str] = msgspec.field(default_factory=dict)
    published: dict[str, Place] = msgspec.field(default_factory=dict)
    delivered: dict[Lane, list[Delivered]] = msgspec.field(
        default_factory=lambda: defaultdict(list)
    )
    settled: dict[Lane, list[Settled]] = msgspec.field(default_factory=lambda: defaultdict(list))
    seen: list[Seen] = msgspec.field(default_factory=list)

    def take(self, event: Event) -> None:
        match event:
            case Sent():
                self.sent[event.value] = event.key
            case Published():
                self.published[event.value] = (event.partition, event.offset)
            case Delivered():
                self.delivered[event.group, event.partition, event.offset].append(event)
            case Settled():
                self.settled[event.group, event.partition, event.offset].append(event)
            case Seen():
                self.seen.append(event)


def judge(events: Iterable[Event], holdings: Holdings) -> Verdict:
    case = _Case()
    for event in events:
        case.take(event)
    for deliveries in case.delivered.values():
        deliveries.sort(key=lambda delivery: (delivery.leased_at, delivery.count))
    violations = [
        *_losses(case, holdings),
        *_wrong_reads(case, holdings),
        *_wrong_deliveries(case, holdings),
        *_broken_leases(case, holdings),
        *_wrong_letters(case, holdings),
        *_broken_key_order(case, holdings),
        *(
            f"{group}: {lag} messages were never settled"
            for group, lag in holdings.lags.items()
            if lag
        ),
    ]
    return Verdict(_counts(case, holdings), violations)


def _losses(case: _Case, holdings: Holdings) -> Iterable[str]:
    """An acknowledged publish is where it was said to be; nothing is there twice or unsent."""
    for value, place in case.published.items():
        if holdings.messages.get(place) != value:
            yield f"lost: {value} was confirmed at {place}, there is {holdings.messages.get(place)}"
    copies = Counter(holdings.messages.values())
    for value, count in copies.items():
        if count > 1:
            yield f"duplicated: {value} is there {count} times"
        if value not in case.sent:
            yield f"unexpected: {value} was never sent"
    partitions = defaultdict(list)
    for partition, offset in holdings.messages:
        partitions[partition].append(offset)
    for partition, offsets in partitions.items():
        if sorted(offsets) != list(range(len(offsets))):
            yield f"partition {partition} has gaps"


def _wrong_reads(case: _Case, holdings: Holdings) -> Iterable[str]:
    """What a stream reader was shown once stays there."""
    for seen in case.seen:
        held = holdings.messages.get((seen.partition, seen.offset))
        if held != seen.value:
            yield f"a reader saw {seen.value} at {seen.partition}:{seen.offset}, now it is {held}"
    places = Counter((seen.partition, seen.offset) for seen in case.seen)
    for place in holdings.messages:
        if places[place] != 1:
            yield f"a reader that followed the log saw {place} {places[place]} times"


def _wrong_deliveries(case: _Case, holdings: Holdings) -> Iterable[str]:
    """What was acked does not come again, counts do not fall, values are those of the log."""
    for lane, deliveries in case.delivered.items():
        done = [each for each in case.settled[lane] if _is_done(each)]
        acked_at = min((each.answered_at for each in done), default=None)
        highest = 0
        for delivery in deliveries:
            if acked_at is not None and delivery.leased_at > acked_at:
                yield f"{lane} was delivered after its settlement was answered"
            if delivery.count < highest:
                yield f"{lane}: the delivery count fell from {highest} to {delivery.count}"
            if delivery.count > DELIVERIES_MAX:
                yield f"{lane} was delivered {delivery.count} times"
            highest = max(highest, delivery.count)
            if holdings.messages.get(lane[1:]) != delivery.value:
                yield f"{lane} was delivered as {delivery.value}"


def _is_done(settled: Settled) -> bool:
    return settled.outcome == "done" and settled.verb != "nack"


def _broken_leases(case: _Case, holdings: Holdings) -> Iterable[str]:
    """A message is with one member at a time, unless a crash ended the first lease."""
    for lane, deliveries in case.delivered.items():
        returned = [each.sent_at for each in case.settled[lane] if each.verb == "nack"]
        for first, second in pairwise(deliveries):
            ends = [first.deadline, *(at for at in returned if at >= first.leased_at)]
            ends += [at for at in holdings.kills if at >= first.leased_at]
            if second.leased_at + CLOCKS_NS < min(ends):
                yield f"{lane} was leased twice at the same time"


def _wrong_letters(case: _Case, holdings: Holdings) -> Iterable[str]:
    """Every message ends once: acked, or among the dead letters."""
    letters = Counter((each.group, each.partition, each.offset) for each in holdings.letters)
    for lane, count in letters.items():
        if count > 1:
            yield f"{lane} died {count} times"
    for letter in holdings.letters:
        if holdings.messages.get((letter.partition, letter.offset)) != letter.value:
            yield f"the dead letter of {letter.partition}:{letter.offset} is another message"
    for lane, settlements in case.settled.items():
        done = {each.verb for each in settlements if _is_done(each)}
        if "ack" in done and letters[lane]:
            yield f"{lane} was acked and is a dead letter"
        if "reject" in done and not letters[lane]:
            yield f"{lane} was rejected and is no dead letter"
    for group in holdings.lags:
        for partition, offset in holdings.messages:
            lane = (group, partition, offset)
            tried = [each for each in case.settled[lane] if each.outcome != "refused"]
            if not letters[lane] and not any(each.verb == "ack" for each in tried):
                yield f"{lane} was neither acked nor is it a dead letter"


def _broken_key_order(case: _Case, holdings: Holdings) -> Iterable[str]:
    """With key order the next message of a key comes only when the one before is settled."""
    per_key: dict[tuple[int, str], list[int]] = defaultdict(list)
    for (partition, offset), key in holdings.keys.items():
        if key:
            per_key[partition, key].append(offset)
    for (partition, _), offsets in per_key.items():
        offsets.sort()
        for before, after in pairwise(offsets):
            first = ("key_ordered", partition, before)
            following = case.delivered.get(("key_ordered", partition, after))
            if following and following[0].leased_at + CLOCKS_NS < _settled_from(
                case, first, holdings.kills
            ):
                yield f"{partition}:{after} was delivered before {partition}:{before} was settled"


def _settled_from(case: _Case, lane: Lane, kills: tuple[int, ...]) -> int:
    """The earliest time at which a message can have been settled, or have failed for good."""
    times = [
        each.sent_at
        for each in case.settled[lane]
        if each.verb != "nack" or each.count >= DELIVERIES_MAX
    ]
    for each in case.delivered[lane]:
        if each.count >= DELIVERIES_MAX:
            times += [each.deadline, *(at for at in kills if at >= each.leased_at)]
    return min(times, default=0)


def _counts(case: _Case, holdings: Holdings) -> dict[str, int]:
    settlements = [each for pile in case.settled.values() for each in pile]
    outcomes = Counter((each.verb, each.outcome) for each in settlements)
    deliveries = [each for pile in case.delivered.values() for each in pile]
    stored = set(holdings.messages.values())
    doubtful = [value for value in case.sent if value not in case.published]
    return {
        "kills": len(holdings.kills),
        "publishes confirmed": len(case.published),
        "publishes of unknown outcome": len(doubtful),
        "of these found in the log": sum(value in stored for value in doubtful),
        "messages read as a stream": len(case.seen),
        "deliveries": len(deliveries),
        "redeliveries": sum(each.count > 1 for each in deliveries),
        "acks confirmed": outcomes["ack", "done"],
        "acks refused as stale": outcomes["ack", "refused"],
        "acks of unknown outcome": outcomes["ack", "unknown"],
        "nacks confirmed": outcomes["nack", "done"],
        "rejects confirmed": outcomes["reject", "done"],
        "rejects of unknown outcome": outcomes["reject", "unknown"],
        "dead letters": len(holdings.letters),
    }
