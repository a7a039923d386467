"""Requests as metrics see them: what each of them was, how it ended, how long it took.

Stands where commands come in and effects go out, so every gateway is counted alike. Never changes
what is answered. What is counted by reply is only what was acknowledged.

Invariant: a request that is watched is forgotten when it is answered, served or given up.

Cost per request: one entry in a dict, and what its kind counts; nothing per message.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from operator import attrgetter

import msgspec

from goqueue.broker.metrics.counters import AckType
from goqueue.broker.publish import REFUSALS
from goqueue.broker.state import NodeState
from goqueue.model import (
    Answer,
    Code,
    Fetch,
    Find,
    Instant,
    LogId,
    NodeEffect,
    Now,
    Offset,
    Refused,
    RequestId,
    Serve,
)
from goqueue.model.requests import (
    Ack,
    Acked,
    Command,
    CommitOffsets,
    CooperativeHeartbeat,
    Heartbeat,
    Isolation,
    Join,
    Leased,
    Nack,
    Poll,
    Publish,
    Published,
    Read,
    Receive,
    Records,
    Reject,
    Reply,
    Returned,
)
from goqueue.records import Flag, last_offset, walk

__all__ = ["RequestMetrics"]

_LOG = attrgetter("log")
_NO_MESSAGE = int(Flag.CONTROL | Flag.DELAYED)


class _Watched(msgspec.Struct):
    """A request that is not answered yet; its command is not kept, which may be large.

    `name` is that of its topic or its group, `topics` those to which it commits offsets.
    """

    kind: type
    name: str
    began: Instant
    count: int = 0
    topics: tuple[str, ...] = ()
    is_committed: bool = True
    count_max: int | None = None
    # Whether there was nothing for it, and how long: what it waits is not what it takes.
    waits: bool = False
    waited_ns: int = 0


_End = Callable[[_Watched, Reply | Refused, int], None]


class RequestMetrics:
    """Counts requests by their ends."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._watched: dict[RequestId, _Watched] = {}
        # Fetches that were not served in the turn in which they came.
        self._unserved: list[_Watched] = []
        self._ends: dict[type, _End] = {
            Ack: self._acked,
            CommitOffsets: self._committed,
            CooperativeHeartbeat: self._heard,
            Heartbeat: self._heard,
            Join: self._joined,
            Nack: self._nacked,
            Poll: self._polled,
            Publish: self._published,
            Read: _ignore,
            Reject: self._rejected,
        }

    def begin(self, request: RequestId, command: Command, now: Now) -> None:
        """A request has come."""
        match command:
            case Publish():
                known = command.targets or command.dues
                count = 1 if known is None else len(known)
                watched = _Watched(Publish, command.topic, now.instant, count)
                if command.refused:
                    self._refused_before(command.topic, command.refused)
            case Poll() | Receive() | Read():
                watched = _watched_fetch(command, now)
                self._unserved.append(watched)
            case CommitOffsets():
                topics = tuple(dict.fromkeys(log.topic for log in command.offsets))
                watched = _Watched(CommitOffsets, command.group, now.instant, topics=topics)
            case Heartbeat() | Join():
                watched = _Watched(type(command), command.group, now.instant)
            case CooperativeHeartbeat():
                waits = command.wait_ns > 0
                watched = _Watched(type(command), command.group, now.instant, waits=waits)
            case Ack() | Nack() | Reject():
                watched = _Watched(type(command), "", now.instant)
            case _:
                return
        self._watched[request] = watched

    def refuse(self, request: RequestId, command: Command) -> None:
        """A request is refused as soon as it has come: count its messages while they are here."""
        if isinstance(command, Publish):
            self._watched[request].count = len(walk(command.batch))

    def cancel(self, request: RequestId) -> None:
        """Whoever asked is gone."""
        self._watched.pop(request, None)

    def note(self, effects: Iterable[NodeEffect], now: Now) -> None:
        """A turn has ended: count what it answered."""
        if not self._watched:
            return
        is_looking = False
        for effect in effects:
            kind = type(effect)
            if kind is Answer:
                assert isinstance(effect, Answer)
                reply = effect.reply
                if isinstance(reply, Published) and reply.is_unconfirmed:
                    # Counted when it is stored, or not.
                    continue
                watched = self._watched.pop(effect.request, None)
                if watched is not None:
                    self._ends[watched.kind](watched, reply, now.instant - watched.began)
            elif kind is Serve:
                assert isinstance(effect, Serve)
                served = self._watched.get(effect.request)
                if served is not None and served.waits:
                    served.waited_ns = now.instant - served.began
            elif kind is Fetch or kind is Find:
                is_looking = True
        if self._unserved and not is_looking:
            # Nothing is being read for them: whoever is not served now waits for messages.
            for each in self._unserved:
                each.waits = True
            self._unserved.clear()

    def served(self, request: RequestId, reply: Reply | Refused, now: Now) -> None:
        """The records of an answer were read, or could not be."""
        watched = self._watched.pop(request, None)
        if watched is None:
            return
        took = now.instant - watched.began
        if isinstance(reply, Leased):
            self._leased(watched, reply, took, now)
        elif isinstance(reply, Records):
            self._read(watched, reply, took - watched.waited_ns, now)

    # Publishing

    def confirmed(self, request: RequestId, published: Published, now: Now) -> None:
        """What became of messages whose publisher did not wait for it."""
        watched = self._watched.pop(request, None)
        if watched is not None:
            self._published(watched, published, now.instant - watched.began)

    def _refused_before(self, name: str, refused: dict[Code, int]) -> None:
        """Messages that a gateway did not take."""
        topic = self._state.catalog.get(name)
        counts = self._state.counts.topic("" if topic is None else topic.name)
        for code, count in refused.items():
            counts.fail(code.value, count)

    def _published(self, watched: _Watched, reply: Reply | Refused, took: int) -> None:
        topic = self._state.catalog.get(watched.name)
        counts = self._state.counts.topic("" if topic is None else topic.name)
        if isinstance(reply, Refused):
            counts.fail(reply.code.value, watched.count)
            return
        assert isinstance(reply, Published)
        placed = taken = size = 0
        sizes: Counter[int] | None = None
        for each in reply.placed:
            placed += each.count
            if each.refused is not None:
                sizes = Counter(reply.targets) if sizes is None else sizes
                counts.fail(each.refused.value, sizes[each.partition])
            elif not each.is_duplicate:
                taken += each.count
                counts.bytes_published += each.size
                size += each.size
        counts.published += taken
        if taken:
            self._state.meter(watched.name).count_published(taken, size)
        counts.publish_latency.observe(took)
        if placed != len(reply.targets):
            for unroutable, code in REFUSALS.items():
                count = reply.targets.count(unroutable)
                if count:
                    counts.fail(code.value, count)

    # Fetching

    def _polled(self, watched: _Watched, reply: Reply | Refused, took: int) -> None:
        """A poll that got nothing; those that got something are served."""
        group = watched.name
        if isinstance(reply, Leased) and self._state.coordinated.groups.get(group) is not None:
            self._state.counts.group(group).poll(0, took)

    def _leased(self, watched: _Watched, reply: Leased, took: int, now: Now) -> None:
        group = watched.name
        if self._state.coordinated.groups.get(group) is None:
            return
        count = size = 0
        for share in reply.partitions:
            topic = share.log.topic
            count += len(share)
            size += share.size
            if self._state.catalog.get(topic) is not None:
                pair = self._state.counts.pair(topic, group)
                pair.consume(len(share), share.size, took - watched.waited_ns)
                pair.redelivered += sum(
                    len(lease.offsets) for lease in share.leases if lease.attempt > 1
                )
        self._state.counts.group(group).poll(count, took)
        self._state.meter(group).count_consumed(count, size, now.instant, is_leased=True)

    def _read(self, watched: _Watched, reply: Records, took: int, now: Now) -> None:
        """A stream read: nobody's group, so it is counted under no name."""
        if not reply.data or self._state.catalog.get(reply.log.topic) is None:
            return
        count = self._count_messages(reply, is_committed=watched.is_committed)
        size = sum(map(len, reply.data))
        if watched.count_max is not None and count > watched.count_max:
            # The rest of the bytes was read and is not shown: a share of them stands for the taken.
            count, size = watched.count_max, size * watched.count_max // count
        self._state.counts.pair(reply.log.topic, "").consume(count, size, took)
        self._state.meter(reply.log.topic).count_consumed(count, size, now.instant)

    def _count_messages(self, reply: Records, *, is_committed: bool) -> int:
        """How many of these records are messages."""
        topic = self._state.catalog.find(reply.log.topic)
        following = Offset(last_offset(reply.data[-1]) + 1)
        hidden = self._state.hidden_within(reply.log, reply.offset, following)
        if not hidden and not topic.config.cleanup_policy.compacts:
            return following - reply.offset
        aborted = reply.aborted if is_committed else ()
        return sum(
            not flags & _NO_MESSAGE and not any(first <= offset < end for first, end in aborted)
            for data in reply.data
            for columns in [walk(data)]
            for offset, flags in zip(columns.offsets, columns.flags, strict=True)
        )

    # Settling

    def _acked(self, _: _Watched, reply: Reply | Refused, took: int) -> None:
        if isinstance(reply, Acked):
            logs: dict[LogId | None, None] = dict.fromkeys(map(_LOG, reply.settlements))
            for topic in dict.fromkeys(log.topic for log in logs if log is not None):
                self._settled(topic, AckType.ACK, took)

    def _nacked(self, _: _Watched, reply: Reply | Refused, took: int) -> None:
        if isinstance(reply, Returned):
            self._settled(reply.log.topic, AckType.NACK, took)

    def _rejected(self, _: _Watched, reply: Reply | Refused, took: int) -> None:
        if isinstance(reply, Returned):
            self._settled(reply.log.topic, AckType.REJECT, took)

    def _settled(self, topic: str, how: AckType, took: int) -> None:
        if self._state.catalog.get(topic) is not None:
            self._state.counts.topic(topic).settle(how, took)

    def _committed(self, watched: _Watched, reply: Reply | Refused, took: int) -> None:
        state = self._state
        group = watched.name if state.coordinated.groups.get(watched.name) is not None else ""
        for name in watched.topics:
            topic = name if state.catalog.get(name) is not None else ""
            pair = state.counts.pair(topic, group)
            if isinstance(reply, Refused):
                pair.fail_commit(reply.code.value)
            else:
                pair.commits += 1
        if group and not isinstance(reply, Refused):
            state.counts.group(group).commit_latency.observe(took)

    # Belonging

    def _heard(self, watched: _Watched, reply: Reply | Refused, took: int) -> None:
        group = watched.name
        if not isinstance(reply, Refused) and self._state.coordinated.groups.get(group) is not None:
            counts = self._state.counts.group(group)
            counts.heartbeats += 1
            if not watched.waits:
                counts.heartbeat_latency.observe(took)

    def _joined(self, watched: _Watched, reply: Reply | Refused, _: int) -> None:
        group = watched.name
        if not isinstance(reply, Refused) and self._state.coordinated.groups.get(group) is not None:
            self._state.counts.group(group).joins += 1


def _ignore(_: _Watched, __: Reply | Refused, ___: int) -> None:
    """A read without records, or refused."""


def _watched_fetch(command: Poll | Receive | Read, now: Now) -> _Watched:
    if not isinstance(command, Read):
        return _Watched(Poll, command.group, now.instant)
    is_committed = command.isolation is Isolation.READ_COMMITTED
    return _Watched(
        Read,
        command.topic,
        now.instant,
        is_committed=is_committed,
        count_max=command.messages_max,
    )
