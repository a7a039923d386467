"""What this broker does for the clients of others: it serves what was forwarded to it.

A forwarded command runs like one of an own client, under its caller, but is never forwarded again.
Its answer goes back over the link on which it came; records are read first.

Invariants
- A command is answered once, to the run of the broker that sent it, or dropped when that is gone.
- At most `_SERVED_MAX` commands are open for others; more are refused.
Cost: one message each way, and one copy of the records of a publish.
"""

from collections.abc import Callable, Sequence

import msgspec

from goqueue.broker.cluster.cluster_commands import COORDINATOR_COMMANDS
from goqueue.broker.cluster.cluster_config import COORDINATOR_LOG
from goqueue.broker.cluster.forward_codec import (
    ChunkBuffer,
    decode_command,
    encode_reply,
    split_attachments,
)
from goqueue.broker.cluster.forward_parts import RequestNumbers
from goqueue.broker.cluster.routes import Routes
from goqueue.broker.disk_reads import ForwardFetch
from goqueue.broker.groups.leases import fill
from goqueue.broker.state import NodeState
from goqueue.model import (
    LOCAL,
    Asked,
    Caller,
    Code,
    FetchedSlice,
    ForwardCancel,
    ForwardChunk,
    ForwardCommand,
    ForwardRefusal,
    ForwardReply,
    LogId,
    Now,
    PeerLane,
    PublishPart,
    Refused,
    RequestId,
    Send,
    Serve,
    Slice,
)
from goqueue.model.requests import Command, Publish, Records, Reply
from goqueue.records import Corrupt, verify

__all__ = ["ForwardServer"]

_SERVED_MAX = 10_000

Buffer = bytes | bytearray | memoryview


class _Served(msgspec.Struct):
    """A command of another broker that is not answered yet."""

    broker: str
    incarnation: int
    number: int
    command: Command
    caller: Caller
    # Of a reply with records: how it is filled, and what was read; None: it cannot be read.
    effect: Serve | None = None
    read: dict[Slice, memoryview | None] = {}
    awaited: dict[Slice, None] = {}
    is_retried: bool = False


class _NotRead(Exception):
    """A reply needs records that were not read yet."""

    def __init__(self, wanted: Slice) -> None:
        super().__init__()
        self.wanted = wanted


class ForwardServer:
    """Serves commands of other brokers."""

    def __init__(
        self,
        state: NodeState,
        routes: Routes,
        numbers: RequestNumbers,
        ask: Callable[[Asked, Now], None],
        cancel: Callable[[RequestId], None],
    ) -> None:
        """`ask` runs a command on this broker, `cancel` ends one whose caller is gone."""
        self._state = state
        self._routes = routes
        self._numbers = numbers
        self._ask = ask
        self._cancel = cancel
        self._served: dict[RequestId, _Served] = {}
        self._by_number: dict[tuple[str, int], RequestId] = {}
        self._chunks: dict[str, ChunkBuffer] = {}

    @property
    def served_count(self) -> int:
        return len(self._served)

    # Commands

    def receive(
        self,
        broker: str,
        incarnation: int,
        message: ForwardCommand | PublishPart,
        data: Sequence[Buffer],
        now: Now,
    ) -> None:
        """A broker passes on a command of its client."""
        chunks = self._chunks.get(broker)
        if chunks is not None:
            data = chunks.take(message.number, data, is_reply=False)
        try:
            self._check_room()
            if isinstance(message, PublishPart):
                command: Command = self._publish_of(message, data)
            else:
                command = decode_command(message.kind, data)
                self._check_epoch(command, message.version)
        except Refused as refused:
            self._refuse(broker, message.number, refused)
            return
        caller = LOCAL if message.caller == LOCAL else message.caller
        request = self._numbers.take_here()
        served = _Served(broker, incarnation, message.number, command, caller)
        self._served[request] = served
        self._by_number[broker, message.number] = request
        self._ask(Asked(request=request, command=command, caller=caller), now)

    def refuse_stranger(self, broker: str, number: int) -> None:
        """A run of a broker asks that the image of this one does not show."""
        self._refuse(broker, number, Refused(Code.LEADER_UNAVAILABLE))

    def _check_room(self) -> None:
        if len(self._served) >= _SERVED_MAX:
            raise Refused(Code.BROKER_UNAVAILABLE, reason="too many requests of other nodes")

    def _check_epoch(self, command: Command, version: int) -> None:
        """Refuse what was sent to the coordinator of an earlier epoch: it is sent anew.

        It may have been on its way for long, and be carried out already by the one in between.
        """
        if type(command) in COORDINATOR_COMMANDS:
            state = self._routes.partition(COORDINATOR_LOG)
            if state is not None and version < state.epoch:
                raise Refused(Code.LEADER_UNAVAILABLE, reason="the metadata are on their way")

    def _publish_of(self, message: PublishPart, data: Sequence[Buffer]) -> Publish:
        """The publish that a part is; refuses one that was routed by other metadata."""
        topic = self._routes.topic(message.topic)
        if topic is None or topic.number != message.topic_number:
            # One of the two brokers does not know of the newest topic of this name.
            raise Refused(Code.NOT_LEADER, topic=message.topic)
        for partition, count in message.parts:
            if not 0 <= partition < topic.partitions or count < 1:
                raise Refused(Code.REQUEST_INVALID, reason="a node sent no parts")
            leader = self._routes.leader(LogId(message.topic, partition))
            if leader != self._routes.me:
                address = "" if leader is None else self._routes.address(leader)
                raise Refused(Code.NOT_LEADER, leader=leader or "", leader_address=address)
        batch = bytearray().join(data)
        _check_records(batch, sum(count for _, count in message.parts))
        return Publish(
            topic=message.topic,
            batch=batch,
            targets=[number for number, count in message.parts for _ in range(count)],
            acks=message.acks,
            # What the sender would refuse it did not send; by newer settings all of it is refused.
            is_whole=True,
            is_validated=message.is_validated,
            dues=None if message.dues is None else list(message.dues),
            producer=message.producer,
            trace=message.trace,
        )

    def receive_chunk(self, broker: str, chunk: ForwardChunk, data: Sequence[Buffer]) -> None:
        """A piece of what belongs to a command."""
        if not self._chunks.setdefault(broker, ChunkBuffer()).add(chunk, data):
            reason = "the node takes no more of this request"
            self._refuse(broker, chunk.number, Refused(Code.BROKER_UNAVAILABLE, reason=reason))

    def receive_cancel(self, broker: str, message: ForwardCancel) -> None:
        """Nobody waits for an answer."""
        request = self._by_number.get((broker, message.number))
        if request is not None:
            self._forget(request)
            self._cancel(request)

    # Answers

    def take_answer(self, request: RequestId, reply: Reply | Refused) -> bool:
        """A command was answered; whether it was one of another broker."""
        served = self._forget(request)
        if served is None:
            return False
        if isinstance(reply, Refused):
            self._refuse(served.broker, served.number, reply)
        else:
            self._reply(served, reply)
        return True

    def serves(self, request: RequestId) -> bool:
        """Whether a request is another broker's."""
        return request in self._served

    def take_serve(self, effect: Serve) -> Reply | Refused | None:
        """Answer a command of another broker with records; None if they have to be read first."""
        served = self._served[effect.request]
        served.effect, served.read, served.awaited = effect, {}, {}
        for run in effect.runs:
            for each in run:
                if not isinstance(each, FetchedSlice):
                    self._fetch(effect.request, served, each)
        return None if served.awaited else self._fill(effect.request, served)

    def _fetch(self, request: RequestId, served: _Served, wanted: Slice) -> None:
        served.awaited[wanted] = None
        self._state.fetch(wanted, ForwardFetch(request, wanted))

    def fetched(
        self, purpose: ForwardFetch, data: memoryview | None, now: Now
    ) -> Reply | Refused | None:
        """Records of a reply were read; what was answered, if these were the last of it."""
        served = self._served.get(purpose.request)
        if served is None or purpose.wanted not in served.awaited:
            return None
        del served.awaited[purpose.wanted]
        assert served.effect is not None
        served.read[purpose.wanted] = data
        if data is None and isinstance(served.effect.reply, Records):
            return self._read_again(purpose.request, served, now)
        return None if served.awaited else self._fill(purpose.request, served)

    def _fill(self, request: RequestId, served: _Served) -> Reply | Refused | None:
        """Answer with the records in the reply; None if more has to be read first."""
        assert served.effect is not None

        def read(wanted: Slice) -> memoryview:
            if wanted not in served.read:
                raise _NotRead(wanted)
            data = served.read[wanted]
            if data is None:
                raise Refused(Code.RECORDS_DAMAGED)
            return data

        try:
            reply = fill(served.effect, read)
        except _NotRead as missing:
            self._fetch(request, served, missing.wanted)
            return None
        except Refused as refused:
            self.take_answer(request, refused)
            return refused
        self._forget(request)
        self._reply(served, reply)
        return reply

    def _read_again(self, request: RequestId, served: _Served, now: Now) -> Refused | None:
        """The disk reported damage since: the log knows by now what it cannot read."""
        served.effect, served.awaited = None, {}
        if served.is_retried:
            reason = "the log cannot be read now"
            refused = Refused(Code.BROKER_UNAVAILABLE, reason=reason)
            self.take_answer(request, refused)
            return refused
        served.is_retried = True
        self._ask(Asked(request=request, command=served.command, caller=served.caller), now)
        return None

    def _reply(self, served: _Served, reply: Reply) -> None:
        kind, attached = encode_reply(reply)
        chunks, data = split_attachments(served.number, attached, is_reply=True)
        lane = PeerLane.FORWARDING
        for chunk, piece in chunks:
            self._state.outbox.append(
                Send(broker=served.broker, message=chunk, data=(piece,), lane=lane)
            )
        version = self._routes.version
        message = ForwardReply(number=served.number, kind=kind, version=version)
        self._state.outbox.append(Send(broker=served.broker, message=message, data=data, lane=lane))

    def _refuse(self, broker: str, number: int, refused: Refused) -> None:
        facts = {name: _fact(value) for name, value in refused.facts.items()}
        message = ForwardRefusal(
            number=number, code=refused.code.value, facts=facts, version=self._routes.version
        )
        self._state.outbox.append(Send(broker=broker, message=message, lane=PeerLane.FORWARDING))

    def _forget(self, request: RequestId) -> _Served | None:
        served = self._served.pop(request, None)
        if served is not None:
            self._by_number.pop((served.broker, served.number), None)
        return served

    # Links

    def disconnect(self, broker: str, incarnation: int) -> None:
        """A run of a broker is gone, and its clients with it."""
        self._chunks.pop(broker, None)
        gone = [
            request
            for request, served in self._served.items()
            if served.broker == broker and served.incarnation <= incarnation
        ]
        for request in gone:
            self._forget(request)
            self._cancel(request)


def _fact(value: object) -> int | str | tuple[str, ...] | None:
    if isinstance(value, tuple):
        return tuple(map(str, value))
    return value if isinstance(value, int | str) or value is None else str(value)


def _check_records(batch: bytearray, count: int) -> None:
    """Refuse bytes that are not so many whole records: nothing of a peer is trusted blindly."""
    try:
        found = verify(batch)
    except Corrupt as error:
        raise Refused(Code.REQUEST_INVALID, reason=f"a node sent no records: {error}") from error
    if found != count:
        raise Refused(Code.REQUEST_INVALID, reason="a node sent other records than it counted")
