"""The forwarder: requests of this broker's clients that other brokers serve.

The hard part is what is known of a request that was sent. A broker that refuses has done nothing,
so the part goes to another one. A link that ends, or a broker that is silent for too long, leaves
the outcome open: then a part is sent again only if a repetition does no harm (a read, a publish
with a sequence); otherwise the caller hears `replication_failed`.

- The receiving broker checks the rights of the caller, and so does the serving one: the caller is
  named in the message, and the link proves who names it.
- One hop: what was forwarded is refused where it cannot be served, never forwarded again.
- A part without a ready leader waits at most `_LEADER_WAIT_NS`, then it is `leader_unavailable`. A
  part that is refused with `not_leader` is tried again, on newer metadata or after a pause that
  doubles, within the same time.
- Parts for a leader that others wait for queue behind them, so they arrive in order.

Invariants
- Every part is in flight, waiting or decided; every request is answered once.
- What waits and what is in flight is bounded, in number and in bytes; more is refused at once.

Cost: a part that is served here costs nothing. Others cost one message each way. There is one pass
over those that wait with each news of leaders and links, and when the pause or the time of one is
over; while some are in flight, one pass each second.
"""

from collections import Counter, deque
from collections.abc import Callable
from typing import TypeGuard

from goqueue.broker.cluster.forward_codec import (
    ChunkBuffer,
    decode_reply,
    encode_command,
    refusal_of,
    split_attachments,
)
from goqueue.broker.cluster.forward_parts import (
    LIFTED_BY_METADATA,
    AtBroker,
    Outcome,
    Part,
    Place,
    PublishGather,
    Request,
    RequestNumbers,
    Unseen,
    joined,
    publish_of,
    unreached,
)
from goqueue.broker.cluster.routes import Routes
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Errand
from goqueue.model import (
    MILLISECOND,
    SECOND,
    Asked,
    Code,
    ForwardCancel,
    ForwardChunk,
    ForwardCommand,
    ForwardRefusal,
    ForwardReply,
    Instant,
    LogId,
    Now,
    PeerLane,
    PublishPart,
    Refused,
    RequestId,
    Send,
)
from goqueue.model.requests import (
    Command,
    CooperativeHeartbeat,
    Poll,
    Publish,
    Published,
    Read,
    Receive,
    Watch,
)

__all__ = ["Forwarder"]

# How long a request waits for a leader that is ready.
_LEADER_WAIT_NS = 2 * SECOND
_PAUSE_NS = 10 * MILLISECOND
_PAUSE_NS_MAX = 200 * MILLISECOND
# How long an answer may take, beside what the request itself waits for.
_REPLY_NS = 10 * SECOND
_PARTS_MAX = 4096
_BYTES_MAX = 64 * 1024 * 1024
_PASS_NS = SECOND
_WAIT_PASS_NS = 10 * MILLISECOND


_WAITS = Read | Watch | CooperativeHeartbeat | Poll | Receive

AskHere = Callable[[Asked, Now], None]


class Forwarder:
    """Passes parts of requests on and collects their outcomes."""

    def __init__(self, state: NodeState, routes: Routes, numbers: RequestNumbers) -> None:
        self._state = state
        self._routes = routes
        self._numbers = numbers
        self._requests: dict[RequestId, Request] = {}
        # The links of brokers: their incarnation, and pieces of what they sent.
        self._links: dict[str, tuple[int, ChunkBuffer]] = {}
        self._in_flight: dict[int, Part] = {}
        # Parts that run on this broker, by the request that they are here.
        self._here: dict[RequestId, Part] = {}
        # Answers of the controller that tell of metadata which this broker does not have yet.
        self._unseen: dict[Part, Unseen] = {}
        self._waiting: dict[Part, None] = {}
        # How many wait for each leader; None: for the controller.
        self._waited_for: dict[Place, int] = {}
        self._to_run: deque[Part] = deque()
        self._parts = 0
        self._bytes = 0
        self._next_pass = Instant(0)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight, waits, or is kept."""
        return not (self._requests or self._in_flight or self._waiting or self._bytes)

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    @property
    def has_to_run(self) -> bool:
        """Whether parts are to run on this broker."""
        return bool(self._to_run)

    @property
    def here_count(self) -> int:
        """How many parts run on this broker."""
        return len(self._here)

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    # Requests

    def begin(self, request: Request, parts: list[Part], now: Now) -> None:
        """Pass a request on; raises Refused, before anything is sent, if there are too many."""
        size = sum(part.size for part in parts)
        if self._parts + len(parts) > _PARTS_MAX or self._bytes + size > _BYTES_MAX:
            reason = "too many requests wait for other nodes"
            raise Refused(Code.BROKER_UNAVAILABLE, reason=reason)
        # Others check it, and this broker has: see `Access.admit`.
        self._state.access.note_principal()
        self._requests[request.id] = request
        request.parts.update(dict.fromkeys(parts))
        for part in parts:
            self._add(part, now)

    def _add(self, part: Part, now: Now) -> None:
        self._parts += 1
        self._bytes += part.size
        part.wait_until = Instant(now.instant + _LEADER_WAIT_NS)
        if self._waited_for.get(part.log):
            self._wait(part, now)
        else:
            self._dispatch(part, now)

    def cancel(self, request: RequestId, *, is_gone: bool = False) -> bool:
        """The caller is gone, or may not wait any longer. False if the request is not ours."""
        found = self._requests.get(request)
        if found is not None:
            assert is_gone, "forwarded requests have no deadline of their own here"
            self._end(found)
        return found is not None

    def end_all(self) -> None:
        """This broker stops: whatever has no answer gets one.

        The next leader may commit what was appended here, so its outcome is unknown.
        """
        begun = {*self._here.values(), *self._unseen}
        for request in list(self._requests.values()):
            is_open = request.is_open(begun)
            code = Code.REPLICATION_FAILED if is_open else Code.BROKER_UNAVAILABLE
            self._end(request)
            self._state.outbox.answer(request.id, Refused(code, reason="the node stops"))

    @property
    def has_open(self) -> bool:
        """Whether the outcome of anything would be unknown if this broker stopped now."""
        begun = {*self._here.values(), *self._unseen}
        return any(request.is_open(begun) for request in self._requests.values())

    def _end(self, request: Request) -> None:
        """Forget a request with all that is left of it."""
        del self._requests[request.id]
        for part in list(request.parts):
            if part.number and self._link(part.broker) == part.incarnation:
                self._send(part.broker, ForwardCancel(number=part.number))
            self._release(part)

    def _release(self, part: Part) -> None:
        """A part is decided, or nobody waits for it."""
        if part in self._waiting:
            self._stop_waiting(part)
            # Others may have waited behind it.
            self._state.alarms.bring_forward(Errand.FORWARDING, Instant(0))
        self._unseen.pop(part, None)
        self._in_flight.pop(part.number, None)
        part.number = 0
        if part in part.request.parts:
            del part.request.parts[part]
            self._parts -= 1
            self._bytes -= part.size

    # Sending

    def _target(self, part: Part) -> str | None:
        match part.log:
            case None:
                return self._routes.controller
            case AtBroker(broker):
                return broker
            case log:
                return self._routes.leader(log)

    def _dispatch(self, part: Part, now: Now) -> None:
        target = self._target(part)
        if not self._is_reached(target):
            self._wait(part, now)
        elif target == self._routes.me:
            self._to_run.append(part)
        else:
            self._forward(part, target, now)

    def _forward(self, part: Part, target: str, now: Now) -> None:
        number = part.number = self._numbers.take()
        part.broker, part.incarnation = target, self._links[target][0]
        part.reply_by = Instant(now.instant + self._patience(part) + _REPLY_NS)
        self._in_flight[number] = part
        caller, version = part.request.caller, self._routes.version
        if part.slices is None:
            kind, attached = encode_command(part.command)
            message = ForwardCommand(number=number, kind=kind, version=version, caller=caller)
            chunks, data = split_attachments(number, attached, is_reply=False)
            for chunk, piece in chunks:
                self._send(target, chunk, piece)
            self._send(target, message, *data)
        else:
            self._send_part(part, number, target)
        self._arm(now, _PASS_NS)

    def _send_part(self, part: Part, number: int, target: str) -> None:
        command, slices = part.command, part.slices
        assert isinstance(command, Publish)
        assert slices is not None
        topic = self._routes.topic(command.topic)
        dues = (
            None if command.dues is None else [due for s in slices.values() for due in s.dues or ()]
        )
        message = PublishPart(
            number=number,
            topic=command.topic,
            topic_number=0 if topic is None else topic.number,
            parts=tuple((partition, each.count) for partition, each in slices.items()),
            acks=command.acks,
            dues=None if dues is None else tuple(dues),
            producer=command.producer,
            trace=command.trace,
            version=self._routes.version,
            caller=part.request.caller,
            is_validated=command.is_validated,
        )
        chunks, data = split_attachments(number, (joined(slices),), is_reply=False)
        for chunk, piece in chunks:
            self._send(target, chunk, piece)
        self._send(target, message, *data)

    def _send(
        self,
        broker: str,
        message: ForwardCancel | ForwardChunk | ForwardCommand | PublishPart,
        *data: bytes | bytearray | memoryview,
    ) -> None:
        lane = PeerLane.FORWARDING
        self._state.outbox.append(Send(broker=broker, message=message, data=data, lane=lane))

    def _link(self, broker: str) -> int | None:
        found = self._links.get(broker)
        return None if found is None else found[0]

    def _is_reached(self, broker: str | None) -> TypeGuard[str]:
        """Whether this is us, or a run that can be asked and that the image shows: is believed."""
        found = None if broker is None else self._links.get(broker)
        is_member = found is not None and self._routes.is_member(broker or "", found[0])
        return is_member or broker == self._routes.me

    # Waiting

    def _wait(self, part: Part, now: Now) -> None:
        """Try a part again when the metadata or the links change, or after a pause."""
        self._waiting[part] = None
        self._waited_for[part.log] = self._waited_for.get(part.log, 0) + 1
        self._arm_for(part, now)

    def _stop_waiting(self, part: Part) -> None:
        del self._waiting[part]
        self._waited_for[part.log] -= 1
        if not self._waited_for[part.log]:
            del self._waited_for[part.log]

    def _arm_for(self, part: Part, now: Now) -> None:
        """Look at a part that waits when its pause or its time is over."""
        is_paused = now.instant < part.retry_at < part.wait_until
        due = part.retry_at if is_paused else part.wait_until
        self._arm(now, max(_WAIT_PASS_NS, due - now.instant))

    def _arm(self, now: Now, delay_ns: int) -> None:
        self._state.alarms.bring_forward(Errand.FORWARDING, Instant(now.instant + delay_ns))

    def wake(self, now: Now) -> None:
        """Time has passed: try what waits, and end what waited too long."""
        self._show(now)
        self._retry(now, is_news=False)
        if now.instant >= self._next_pass:
            self._next_pass = Instant(now.instant + _PASS_NS)
            for part in list(self._in_flight.values()):
                if now.instant >= part.reply_by:
                    self._lose(part, now)
        for part in self._waiting:
            self._arm_for(part, now)
        if self._in_flight or self._unseen:
            self._arm(now, _PASS_NS)

    def metadata_changed(self, now: Now) -> None:
        """Others may lead: try what waits, and what a broker has that leads no longer."""
        for part in list(self._in_flight.values()):
            if part.is_repeatable and self._target(part) not in {part.broker, None}:
                self._send(part.broker, ForwardCancel(number=part.number))
                self._lose(part, now)
        self._show(now)
        self._retry(now, is_news=True)

    def _show(self, now: Now) -> None:
        """Pass on what the controller answered, once the metadata has it or it takes too long."""
        for part, unseen in list(self._unseen.items()):
            if unseen.version <= self._routes.version or now.instant >= unseen.until:
                del self._unseen[part]
                self._handle_outcome(part, unseen.outcome, now)

    def _retry(self, now: Now, *, is_news: bool) -> None:
        if is_news:
            for part in self._waiting:
                part.retry_at = now.instant
        blocked: set[Place] = set()
        budget = self._state.budget
        for part in list(self._waiting):
            if part not in self._waiting:
                continue
            if budget.is_spent:
                # The others follow in the next turn, in the same order.
                self._arm(now, 0)
                return
            budget.spend()
            if now.instant >= part.wait_until:
                self._decide(part, part.refusal or unreached(part.log))
            elif (
                part.log not in blocked
                and now.instant >= part.retry_at
                and self._is_reached(self._target(part))
            ):
                self._stop_waiting(part)
                self._dispatch(part, now)
            else:
                blocked.add(part.log)

    # Outcomes

    def run_here(self, ask: AskHere, now: Now) -> bool:
        """Run the parts that this broker serves with `ask`; whether there were any.

        Called when no other command is being handled.
        """
        budget = self._state.budget
        had_some = bool(self._to_run)
        while self._to_run:
            if budget.is_spent:
                self._arm(now, 0)
                break
            budget.spend()
            part = self._to_run.popleft()
            if part not in part.request.parts:
                continue
            command: Command = part.command if part.slices is None else publish_of(part)
            number = self._numbers.take_here()
            self._here[number] = part
            ask(Asked(request=number, command=command, caller=part.request.caller), now)
        return had_some

    def take_answer(self, request: RequestId, outcome: Outcome, now: Now) -> bool:
        """A command of this broker was answered; whether it was a part of ours."""
        part = self._here.pop(request, None)
        if part is None:
            return False
        if part in part.request.parts:
            self._handle_outcome(part, outcome, now)
        return True

    def take_serve(self, request: RequestId) -> RequestId | None:
        """A read that ran here is answered with records: the request of its client, if any."""
        part = self._here.pop(request, None)
        if part is None:
            return None
        answered = part.request.id
        if answered in self._requests:
            self._end(part.request)
        return answered

    def receive(
        self,
        broker: str,
        message: ForwardReply | ForwardRefusal,
        data: tuple[bytes | memoryview, ...],
        now: Now,
    ) -> None:
        """A broker answers."""
        link = self._links.get(broker)
        part = self._in_flight.get(message.number)
        if link is None:
            return
        if isinstance(message, ForwardRefusal):
            link[1].drop(message.number, is_reply=True)
            outcome: Outcome = refusal_of(message.code, message.facts)
        else:
            attached = link[1].take(message.number, data, is_reply=True)
            if part is None:
                return
            try:
                outcome = decode_reply(message.kind, attached)
            except Refused as refused:
                outcome = refused
        if part is None or part.broker != broker:
            return
        version = message.version if isinstance(message, ForwardReply) else 0
        if part.log is None and version > self._routes.version:
            # Whoever hears of a change finds it here.
            del self._in_flight[part.number]
            part.number = 0
            until = Instant(now.instant + _LEADER_WAIT_NS)
            self._unseen[part] = Unseen(outcome, version, until)
            self._arm(now, _PASS_NS)
        else:
            self._handle_outcome(part, outcome, now)

    def receive_chunk(
        self, broker: str, chunk: ForwardChunk, data: tuple[bytes | memoryview, ...]
    ) -> None:
        """A piece of a reply."""
        link = self._links.get(broker)
        if link is not None and chunk.number in self._in_flight:
            link[1].add(chunk, data)

    def _handle_outcome(self, part: Part, outcome: Outcome, now: Now) -> None:
        self._in_flight.pop(part.number, None)
        part.number = 0
        if isinstance(outcome, Refused) and part.is_lifted(outcome.code):
            # Nothing was done: it goes to whoever leads by now.
            part.refusal = outcome
            self._pause(part, now)
        elif isinstance(outcome, Published) and self._split(part, outcome, now):
            return
        else:
            self._decide(part, outcome)

    def _split(self, part: Part, published: Published, now: Now) -> bool:
        """Try partitions again that have another leader; whether there are any."""
        slices = part.slices or {}
        again = [
            placed.partition
            for placed in published.placed
            if placed.refused in LIFTED_BY_METADATA and placed.partition in slices
        ]
        if not again or now.instant >= part.wait_until:
            return False
        placed = tuple(each for each in published.placed if each.partition not in again)
        request, command = part.request, part.command
        assert isinstance(command, Publish)
        left = [
            Part(
                request,
                command,
                LogId(command.topic, number),
                is_repeatable=part.is_repeatable,
                slices={number: slices[number]},
            )
            for number in again
        ]
        request.parts.update(dict.fromkeys(left))
        for each in left:
            self._parts += 1
            self._bytes += each.size
            each.wait_until, each.attempts = part.wait_until, part.attempts
            self._pause(each, now)
        kept = Published(
            targets=published.targets,
            placed=placed,
            timestamp=published.timestamp,
            violations=published.violations,
        )
        self._decide(part, kept)
        return True

    def _pause(self, part: Part, now: Now) -> None:
        if now.instant >= part.wait_until:
            self._decide(part, part.refusal or unreached(part.log))
            return
        part.attempts += 1
        pause_ns = min(_PAUSE_NS << min(part.attempts - 1, 8), _PAUSE_NS_MAX)
        part.retry_at = Instant(now.instant + pause_ns)
        self._wait(part, now)

    def _lose(self, part: Part, now: Now) -> None:
        """It is not known what became of a part."""
        self._in_flight.pop(part.number, None)
        part.number = 0
        if not part.is_repeatable:
            reason = f"the answer of node {part.broker} was lost"
            self._decide(part, Refused(Code.REPLICATION_FAILED, reason=reason))
        elif now.instant - part.request.began >= _REPLY_NS + self._patience(part):
            self._decide(part, unreached(part.log))
        else:
            part.wait_until = Instant(now.instant + _LEADER_WAIT_NS)
            self._pause(part, now)

    def _patience(self, part: Part) -> int:
        return part.command.wait_ns if isinstance(part.command, _WAITS) else 0

    def _decide(self, part: Part, outcome: Outcome) -> None:
        request = part.request
        self._release(part)
        if request.id not in self._requests:
            return
        if (
            isinstance(outcome, Refused)
            and outcome.code is Code.NOT_LEADER
            and isinstance(part.log, LogId)
        ):
            outcome = self._refer(part.log)
        if not isinstance(outcome, Refused) and not part.is_repeatable:
            request.is_done_in_part = True
        answer = request.gather.add(part, outcome)
        if answer is not None:
            self._end(request)
            self._count_refused(request, answer)
            self._state.outbox.answer(request.id, answer)

    def _refer(self, log: LogId) -> Refused:
        """Tell a client who leads; it may get through where this broker did not."""
        leader = self._routes.leader(log)
        if leader is None:
            return unreached(log)
        address = self._routes.address(leader)
        return Refused(Code.NOT_LEADER, leader=leader, leader_address=address)

    def _count_refused(self, request: Request, answer: Outcome) -> None:
        """What other brokers store they count; what none of them took is counted here."""
        if not isinstance(request.gather, PublishGather):
            return
        assert isinstance(request.command, Publish)
        counts = self._state.counts.topic(request.command.topic)
        if isinstance(answer, Published):
            sizes = Counter(answer.targets)
            for placed in answer.placed:
                if placed.refused is not None:
                    counts.fail(placed.refused.value, sizes[placed.partition])

    # Links

    def connect(self, broker: str, incarnation: int, now: Now) -> None:
        """A link to a broker is open."""
        self._links[broker] = (incarnation, ChunkBuffer())
        self._retry(now, is_news=True)

    def disconnect(self, broker: str, incarnation: int, now: Now) -> None:
        """The link to a run of a broker has ended, and what was sent may have arrived."""
        if self._link(broker) != incarnation:
            return
        del self._links[broker]
        lost = [part for part in self._in_flight.values() if part.broker == broker]
        for part in lost:
            self._lose(part, now)
