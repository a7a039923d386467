"""The controller's decisions about keys, ACLs, tenants, quotas and schemas.

A command is admitted where it came in, again where it arrives, and a third time when it is decided:
by then its own key may be revoked. It is decided on what is committed, when nothing is on its way,
and every node follows the record. Its answer leaves when the record is committed and every node
that lives decides by it, or after one session: then the answer names those that may not.

Invariants
- A record changes one thing, or creates keys that have nothing in common: whatever is decided is
  decided on all that was decided before.
- An answer follows a commit. If leadership ends before, the outcome is unknown and is reported so.
- Who was not waited for is named, also nodes that are fenced: they may run on, cut off.
- The record of a change has its audit record: no node has the one without the other.

What is decided about schemas comes from a queue of its own, which holds back the next one until the
last is followed (`broker/schema_queue.py`).

Cost: one record for each command, or for up to `_CREATED_MAX` new keys; a look at the registered
nodes for each of those that wait. Bound: `_REQUESTS_MAX` commands.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from goqueue.broker.access_changes import AccessCommand, AccessDecision
from goqueue.broker.cluster.cluster_metadata import ClusterMetadata
from goqueue.broker.cluster.level_gate import audited
from goqueue.broker.schemas import SchemaDecision
from goqueue.broker.state import NodeState
from goqueue.cluster import BrokerState, Liveness, MetadataChange
from goqueue.model import Code, Instant, Now, Refused, RequestId
from goqueue.model.requests import KEYS_MAX, CreateKey, KeyDescription, Reply
from goqueue.security import Admitted, FieldChange

__all__ = ["AccessController", "DecideFn"]

_REQUESTS_MAX = 256
_CREATED_MAX = 64

DecideFn = Callable[[AccessCommand, Now], AccessDecision]


class _Decision(msgspec.Struct, frozen=True):
    """The changes of one command, what the audit log says of them, and the answer."""

    changes: Sequence[MetadataChange]
    told: Sequence[FieldChange]
    reply: Callable[[], Reply]


class _Asked(msgspec.Struct, frozen=True):
    """A command that is not decided; `admitted` is None for a node without authentication.

    What has `names` shares a record with others of other names. `ended` is called when its decision
    is followed, or nothing came of it.
    """

    request: RequestId
    decide: Callable[[Now], _Decision]
    admitted: Admitted | None
    names: tuple[str | bytes, ...] = ()
    ended: Callable[[], None] | None = None


class _Decided(msgspec.Struct, frozen=True):
    """A command whose record is on its way: it is behind no version yet, or behind this one."""

    request: RequestId
    reply: Callable[[], Reply]
    term: int
    version: int = 0
    ended: Callable[[], None] | None = None


class _Commit(msgspec.Struct, frozen=True):
    """A committed change that not all nodes are known to follow."""

    request: RequestId
    reply: Reply
    version: int
    until: Instant


class AccessController:
    """Decides about access while this broker leads the metadata log."""

    def __init__(self, state: NodeState, metadata: ClusterMetadata, liveness: Liveness) -> None:
        self._state = state
        self._metadata = metadata
        self._liveness = liveness
        self._requests: deque[_Asked] = deque()
        self._decided: list[_Decided] = []
        self._committed: list[_Commit] = []

    def request(self, request: RequestId, command: AccessCommand, decide: DecideFn) -> None:
        """A caller wants something changed; raises Refused where it cannot be."""

        def decided(now: Now) -> _Decision:
            found = decide(command, now)
            return _Decision((found.change,), found.changes, found.reply)

        admitted = self._state.access.note_command()
        self._add(_Asked(request, decided, admitted, _names_of(command)))

    def request_schemas(self, decision: SchemaDecision) -> None:
        """A caller wants schemas changed, which was checked; raises Refused where it cannot be."""

        def decided(_: Now) -> _Decision:
            if self._state.schemas.revision != decision.revision:
                raise Refused(Code.LOG_BUSY, reason="other schemas were changed meanwhile")
            return _Decision(decision.changes, decision.told, decision.reply)

        self._add(
            _Asked(decision.request, decided, decision.admitted, ended=decision.ended),
        )

    def answer(self, request: RequestId, reply: Reply, version: int) -> None:
        """Answer with what has been there since a version, once every node knows it."""
        if self.is_followed(version):
            self._state.outbox.answer(request, reply)
        else:
            term = self._metadata.election.term
            self._decided.append(_Decided(request, lambda: reply, term, version))

    def is_followed(self, version: int) -> bool:
        """Whether every node that lives is known to decide by a version."""
        return not self._behind(version, is_live=True)

    def _add(self, asked: _Asked) -> None:
        if len(self._requests) >= _REQUESTS_MAX:
            raise Refused(Code.LOG_BUSY, reason="the metadata log is busy")
        self._requests.append(asked)

    def resign(self, refusal: Refused) -> None:
        """This broker leads no longer: nothing came of what waits, of the rest nobody knows."""
        while self._requests:
            self._refuse(self._requests.popleft(), refusal)
        decided, self._decided = self._decided, []
        for each in decided:
            self._refuse(each, Refused(Code.REPLICATION_FAILED))
        committed, self._committed = self._committed, []
        for found in committed:
            self._answer(found)

    def _refuse(self, asked: _Asked | _Decided, refusal: Refused) -> None:
        self._state.outbox.answer(asked.request, refusal)
        if asked.ended is not None:
            asked.ended()

    # Decisions

    def decide(self, now: Now) -> list[MetadataChange]:
        """What follows from commands, for one record; `proposed` follows."""
        changes: list[MetadataChange] = []
        audit: list[MetadataChange] = []
        taken: dict[str | bytes, None] = {}
        while self._requests and len(changes) < _CREATED_MAX:
            asked = self._requests[0]
            names = asked.names
            is_alone = not names or len(self._state.security.keys) + len(changes) >= KEYS_MAX
            if changes and (is_alone or not taken.keys().isdisjoint(names)):
                break
            self._requests.popleft()
            try:
                with self._state.access.resuming(asked.admitted, now):
                    decided = asked.decide(now)
            except Refused as refused:
                self._refuse(asked, refused)
                continue
            taken.update(dict.fromkeys(names))
            changes += decided.changes
            audit += audited(self._state, self._metadata.image, asked.request, decided.told)
            term = self._metadata.election.term
            self._decided.append(_Decided(asked.request, decided.reply, term, ended=asked.ended))
            if not names:
                break
        return [*changes, *audit]

    def proposed(self, version: int) -> None:
        """What was decided is in the record before this version."""
        self._decided = [
            msgspec.structs.replace(each, version=version) if not each.version else each
            for each in self._decided
        ]

    # Answers

    def follow(self, now: Now) -> None:
        """This broker follows its image: answer what all nodes follow, or what took too long."""
        metadata = self._metadata
        decided, self._decided = self._decided, []
        for each in decided:
            if each.term != metadata.election.term:
                self._refuse(each, Refused(Code.REPLICATION_FAILED))
            elif each.version and each.version <= metadata.image.version:
                until = Instant(now.instant + metadata.config.liveness.session_ns)
                self._committed.append(_Commit(each.request, each.reply(), each.version, until))
                if each.ended is not None:
                    each.ended()
            else:
                self._decided.append(each)
        committed, self._committed = self._committed, []
        for found in committed:
            if now.instant >= found.until or not self._behind(found.version, is_live=True):
                self._answer(found)
            else:
                self._committed.append(found)

    def _behind(self, version: int, *, is_live: bool) -> tuple[str, ...]:
        """The nodes that are not known to decide by a version; of all, or of those that live."""
        return tuple(
            name
            for name, known in self._metadata.image.brokers.items()
            if name != self._state.node_id
            and self._liveness.followed_version(name) < version
            and not (is_live and known.state is BrokerState.FENCED)
        )

    def _answer(self, found: _Commit) -> None:
        reply = found.reply
        if isinstance(reply, KeyDescription):
            pending = self._behind(found.version, is_live=False)
            reply = msgspec.structs.replace(reply, pending_nodes=pending)
        self._state.outbox.answer(found.request, reply)

    def next_deadline(self) -> Instant | None:
        """When an answer waits no longer for other nodes."""
        return min((each.until for each in self._committed), default=None)


def _names_of(command: AccessCommand) -> tuple[str | bytes, ...]:
    """What a new key must have for itself; nothing: the command has a record of its own."""
    if not isinstance(command, CreateKey):
        return ()
    names = (command.id, command.verifiers.digest)
    return (*names, command.certificate) if command.certificate else names
