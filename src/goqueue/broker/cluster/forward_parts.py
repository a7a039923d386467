"""A request that other brokers serve, in parts, and the answer that their replies add up to.

Each part goes to one broker: the controller, or the leader of its partitions. A gather takes the
outcome of each part and returns the answer once it is complete; it knows nothing of links and time.

Invariant: a gather answers once, with the first outcome that decides it or with the last.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

import msgspec

from goqueue.broker.cluster.cluster_config import COORDINATOR_LOG
from goqueue.broker.cluster.cluster_producers import is_transactional
from goqueue.model import (
    Caller,
    Code,
    Instant,
    LogId,
    Offset,
    Refused,
    RequestId,
    Timestamp,
    Violation,
)
from goqueue.model.requests import (
    Command,
    PartitionStart,
    Placed,
    Publish,
    Published,
    RecordsDeleted,
    Reply,
    Watched,
)

__all__ = [
    "LIFTED_BY_METADATA",
    "AtBroker",
    "Gather",
    "OneReply",
    "Part",
    "Place",
    "PublishGather",
    "PublishSlice",
    "RecordsDeletedGather",
    "Request",
    "RequestNumbers",
    "Unseen",
    "WatchGather",
    "unreached",
]

Outcome = Reply | Refused


class AtBroker(NamedTuple):
    """A broker that is asked whatever it leads."""

    broker: str


# Who serves a part: the leader of a log, a broker, or the controller.
Place = LogId | AtBroker | None


def unreached(place: Place) -> Refused:
    """Why nobody serves a part."""
    if place is None:
        return Refused(Code.LEADER_UNAVAILABLE, reason="the cluster has no controller now")
    if isinstance(place, AtBroker):
        reason = f"node {place.broker} cannot be reached"
        return Refused(Code.LEADER_UNAVAILABLE, reason=reason)
    return Refused(Code.LEADER_UNAVAILABLE, topic=place.topic, partition=place.partition)


# Refusals by a broker whose metadata may be older than those that a client went by: it does not
# know that it leads, or that an id was given to a producer. Nothing was done, and with newer
# metadata the same command may be taken.
LIFTED_BY_METADATA = frozenset(
    {Code.NOT_LEADER, Code.LEADER_UNAVAILABLE, Code.NOT_CONTROLLER, Code.PRODUCER_NOT_FOUND}
)


# Refusals of whoever publishes, wherever the records go.
_OF_PRODUCER = frozenset(
    {Code.PRODUCER_NOT_FOUND, Code.PRODUCER_FENCED, Code.TRANSACTION_STATE_INVALID}
)


class PublishSlice(msgspec.Struct, frozen=True):
    """The records of a batch that go to one partition."""

    data: bytes | bytearray
    count: int
    dues: tuple[int, ...] | None = None


class Gather(Protocol):
    """Puts the outcomes of parts together."""

    def add(self, part: "Part", outcome: Outcome) -> Outcome | None:
        """The answer to the whole request, if this outcome decides or completes it."""


class Request:
    """A request of a client of this broker that others serve."""

    __slots__ = ("began", "caller", "command", "gather", "id", "is_done_in_part", "parts")

    def __init__(
        self, request: RequestId, command: Command, caller: Caller, gather: Gather, began: Instant
    ) -> None:
        self.id = request
        self.command = command
        self.caller = caller
        self.gather = gather
        self.began = began
        # Those that are not decided.
        self.parts: dict[Part, None] = {}
        # Whether a part was done that must not be repeated.
        self.is_done_in_part = False

    def is_open(self, begun: Collection["Part"]) -> bool:
        """Whether its outcome is unknown if it ends now; `begun` are parts without an answer."""
        return self.is_done_in_part or any(
            not part.is_repeatable and (part.number or part in begun) for part in self.parts
        )


class Part:
    """What one broker does for a request.

    `log` names whose leader serves it, or a broker; None: the controller does. `slices` are the
    records of a publish, by partition; all of them have one leader. With `is_repeatable` a
    repetition does no harm, so it is sent again when its outcome is not known.
    """

    __slots__ = (
        "attempts",
        "broker",
        "command",
        "incarnation",
        "is_repeatable",
        "log",
        "number",
        "refusal",
        "reply_by",
        "request",
        "retry_at",
        "slices",
        "wait_until",
    )

    def __init__(
        self,
        request: Request,
        command: Command,
        log: Place,
        *,
        is_repeatable: bool,
        slices: Mapping[int, PublishSlice] | None = None,
    ) -> None:
        self.request = request
        self.command = command
        self.log = log
        self.is_repeatable = is_repeatable
        self.slices = slices
        # Where it is on its way: nowhere while `number` is 0.
        self.number = 0
        self.broker = ""
        self.incarnation = 0
        self.attempts = 0
        # Until when it waits for a leader, when it is tried again, and when its reply is due.
        self.wait_until = Instant(0)
        self.retry_at = Instant(0)
        self.reply_by = Instant(0)
        # Why it was refused last.
        self.refusal: Refused | None = None

    def is_lifted(self, code: Code) -> bool:
        """Whether a refusal may be due to old metadata of the broker that was asked."""
        if code is not Code.PRODUCER_NOT_FOUND:
            return code in LIFTED_BY_METADATA
        # Ids of the coordinator are not in the metadata: what it does not know does not exist.
        stamp = self.command.producer if isinstance(self.command, Publish) else None
        is_coordinated = stamp is not None and is_transactional(stamp.producer_id)
        return self.log != COORDINATOR_LOG and not is_coordinated

    @property
    def size(self) -> int:
        """The bytes that it keeps."""
        return 0 if self.slices is None else sum(len(each.data) for each in self.slices.values())


class Unseen(msgspec.Struct, frozen=True):
    """An answer, the version of the metadata that it tells of, and until when it is kept."""

    outcome: Outcome
    version: int
    until: Instant


class OneReply:
    """One part: its outcome is the answer."""

    def add(self, _: Part, outcome: Outcome) -> Outcome | None:
        return outcome


class PublishGather:
    """Fills a publication with what each leader placed; `violations` are what none was sent.

    A part that was refused is placed as refused, so the others keep their results; a batch with a
    sequence has one part, and its refusal is that of the whole.
    """

    def __init__(
        self,
        targets: list[int],
        slices: Mapping[int, PublishSlice],
        violations: Mapping[int, Violation],
        *,
        is_sequenced: bool,
    ) -> None:
        self._targets = targets
        self._violations = dict(violations)
        self._missing = dict.fromkeys(slices)
        self._placed: list[Placed] = []
        self._timestamp = Timestamp(0)
        self._is_sequenced = is_sequenced
        self._is_unconfirmed = False

    def add(self, part: Part, outcome: Outcome) -> Outcome | None:
        if isinstance(outcome, Published):
            self._timestamp = max(self._timestamp, outcome.timestamp)
            for placed in outcome.placed:
                self._place(placed)
            if outcome.is_unconfirmed:
                self._is_unconfirmed = True
                for partition in part.slices or ():
                    self._missing.pop(partition, None)
        elif isinstance(outcome, Refused):
            if self._is_sequenced or outcome.code in _OF_PRODUCER:
                return outcome
            self.refuse(part, outcome.code)
        return None if self._missing else self._published()

    def refuse(self, part: Part, code: Code) -> None:
        """Nothing of a part was stored, or it is not known whether it was."""
        for partition in part.slices or ():
            self._place(Placed(partition=partition, first=Offset(0), count=0, refused=code))

    def _place(self, placed: Placed) -> None:
        if placed.partition in self._missing:
            del self._missing[placed.partition]
            self._placed.append(placed)

    def _published(self) -> Published:
        return Published(
            targets=self._targets,
            placed=tuple(self._placed),
            timestamp=self._timestamp,
            is_unconfirmed=self._is_unconfirmed,
            violations=self._violations,
        )


class WatchGather:
    """The first news of any leader; nothing once all of them had none."""

    def __init__(self) -> None:
        self._refusal: Refused | None = None

    def add(self, part: Part, outcome: Outcome) -> Outcome | None:
        if isinstance(outcome, Watched) and outcome.partitions:
            return outcome
        if isinstance(outcome, Refused):
            self._refusal = self._refusal or outcome
        is_last = len(part.request.parts) == 0
        return (self._refusal or Watched()) if is_last else None


class RecordsDeletedGather:
    """The new starts of all partitions, in order."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._starts: list[PartitionStart] = []

    def add(self, part: Part, outcome: Outcome) -> Outcome | None:
        if isinstance(outcome, Refused):
            return outcome
        assert isinstance(outcome, RecordsDeleted)
        self._starts.extend(outcome.partitions)
        if part.request.parts:
            return None
        starts = sorted(self._starts, key=lambda each: each.partition)
        return RecordsDeleted(topic=self._topic, partitions=tuple(starts))


def joined(slices: Mapping[int, PublishSlice]) -> bytes | bytearray:
    """The records of a part in the order of its slices; not copied if there is one."""
    if len(slices) == 1:
        (only,) = slices.values()
        return only.data
    return b"".join(each.data for each in slices.values())


def publish_of(part: Part) -> Publish:
    """The publish of a part, as its leader carries it out; it owns the copy of the records."""
    slices = part.slices
    command = part.command
    assert isinstance(command, Publish)
    assert slices is not None
    targets: list[int] = []
    dues: list[int] = []
    for number, each in slices.items():
        targets += [number] * each.count
        dues += each.dues or ()
    return msgspec.structs.replace(
        command,
        batch=bytearray(joined(slices)),
        targets=targets,
        dues=dues if command.dues is not None else None,
        refused=None,
        # What the topic does not take was left out; by newer settings all of it is refused.
        is_whole=True,
    )


class RequestNumbers:
    """Names of requests between brokers, and of those that this broker runs for others.

    Requests of clients have positive numbers, those that run for others negative ones.
    """

    def __init__(self) -> None:
        self._next = 1

    def take(self) -> int:
        number = self._next
        self._next += 1
        return number

    def take_here(self) -> RequestId:
        return RequestId(-self.take())
