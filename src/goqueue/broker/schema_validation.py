"""Validation of what is published: at the edge of the core, so that no gateway can forget it.

A topic with `schema_validation` takes values that conform to its subject: the one of its name, else
`<topic>-value`. A value in registry framing (byte 0, four bytes of id) is checked against that id,
which must be one of the subject's; any other value against the latest version, if that is JSON
Schema. Null values pass.

A validator is compiled once per id, beside the node, and kept; a publish that needs one waits for
it, and what is published to the topic after it waits behind it, so order stays. A large batch is
checked over several turns.

What the broker puts into a topic for somebody else is checked here, too: messages of schedules, and
dead letters that are put back. A dead letter on its way to a dead-letter topic is not: it died
somewhere else, and must never be lost for what it holds.

Invariant: what is stored was checked, whichever way it came, but for dead letters; a value that was
refused changes nothing.
Cost: per batch one pass over the record headers, and one call of a validator for each piece of
consecutive values of a schema. Only what is refused is looked at again, to say why.
"""

import contextlib
from array import array
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping

import msgspec

from goqueue.broker.schemas import Schemas
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Steps
from goqueue.model import (
    Code,
    CompileSchema,
    Instant,
    Now,
    Refused,
    RequestId,
    SchemaCompiled,
    SchemaEvent,
    SchemaPlace,
    SchemaType,
    SchemaValidator,
    Violation,
)
from goqueue.model.requests import Publish
from goqueue.records import (
    OPAQUE,
    SCHEMA_FRAME_BYTES,
    UNFRAMED,
    Corrupt,
    ValueRun,
    ValueScan,
    decode,
    decompress,
    scan_values,
)
from goqueue.security import Admitted

__all__ = ["SchemaValidation", "Violations"]

Violations = Mapping[int, Violation]
# Go on, once it is known which of the values are refused.
Resume = Callable[[Violations, Now], None]
ResumePublish = Callable[[RequestId, Publish, Violations, Now], None]

# A validator gets so many consecutive values at once, and none more once they are so many bytes.
_PIECE_VALUES = 64
_PIECE_BYTES = 16 * 1024
_VALIDATORS_MAX = 1000
_VALIDATOR_BYTES_MAX = 16 * 1024 * 1024
# Ids that one batch may name: each may have to be compiled.
_IDS_MAX = 100


class _TopicSchemas(msgspec.Struct, frozen=True):
    """What a topic is validated by, as of a revision of the registry."""

    revision: int
    subject: str
    ids: dict[int, None]
    latest: int | None


class _Work:
    """A batch on its way through validation."""

    __slots__ = (
        "admitted",
        "batch",
        "began",
        "failed",
        "is_cancelled",
        "is_started",
        "missing",
        "request",
        "resume",
        "schemas",
        "topic",
        "validators",
        "values",
        "violations",
    )

    def __init__(
        self,
        request: RequestId | None,
        topic: str,
        batch: bytearray,
        admitted: Admitted | None,
        resume: Resume,
    ) -> None:
        # Who waits for it; None: it is the broker's own.
        self.request = request
        self.topic = topic
        self.batch = batch
        self.admitted = admitted
        self.resume = resume
        self.schemas: _TopicSchemas | None = None
        self.is_started = False
        self.is_cancelled = False
        self.began = Instant(0)
        # Where in the batch its values are.
        self.values = ValueScan(array("q"), array("q"), [])
        self.missing: dict[int, None] = {}
        self.validators: dict[int, SchemaValidator] = {}
        # Ids whose validator cannot be made, and why.
        self.failed: dict[int, str] = {}
        self.violations: dict[int, Violation] = {}


class SchemaValidation:
    """Checks values of topics that ask for it."""

    def __init__(self, state: NodeState, schemas: Schemas) -> None:
        self._state = state
        self._registry = state.schemas
        self._schemas = schemas
        self._validators: OrderedDict[int, SchemaValidator] = OrderedDict()
        self._sizes: dict[int, int] = {}
        self._bytes = 0
        # By topic, in the order in which they came; the first is being checked.
        self._queues: dict[str, deque[_Work]] = {}
        self._compiling: dict[int, None] = {}
        self._by_topic: dict[str, _TopicSchemas] = {}
        self._advancing = ""

    def submit(self, request: RequestId, command: Publish, resume: ResumePublish, now: Now) -> None:
        """Check a publish, now or when others of its topic were; then go on with it."""

        def publish(violations: Violations, now: Now) -> None:
            resume(request, command, violations, now)

        self.check(command.topic, command.batch, publish, now, request)

    def check(
        self,
        topic: str,
        batch: bytearray,
        resume: Resume,
        now: Now,
        request: RequestId | None = None,
    ) -> None:
        """Check the values of records, now or when others of the topic were; then go on.

        With a request it is a part of the command at hand, and the last that it does in this turn:
        what follows is done for the same caller, and refused to it.
        """
        access = self._state.access
        admitted = None if request is None else access.note_command()
        work = _Work(request, topic, batch, admitted, resume)
        work.began = now.instant
        self._queues.setdefault(topic, deque()).append(work)
        self._advance(topic, now)

    def handle(self, event: SchemaEvent, now: Now) -> None:
        """Something was checked or compiled beside the node."""
        if isinstance(event, SchemaCompiled):
            self.compiled(event, now)
        else:
            self._schemas.checked(event)

    def cancel(self, request: RequestId, *, is_gone: bool) -> bool:
        """Nobody waits any more for a check of values, or of a schema."""
        if self._schemas.cancel(request, is_gone=is_gone):
            return True
        for queue in self._queues.values():
            for work in queue:
                if work.request == request and not work.is_cancelled:
                    work.is_cancelled = True
                    self._state.audit.cancel(request)
                    return True
        return False

    def _advance(self, topic: str, now: Now) -> None:
        """Begin with the first that waits, until one has to wait for something."""
        if self._advancing == topic:
            return
        before, self._advancing = self._advancing, topic
        queue = self._queues.get(topic)
        while queue and not queue[0].is_started:
            work = queue[0]
            work.is_started = True
            self._begin(work, now)
        if not queue:
            self._queues.pop(topic, None)
        self._advancing = before

    def _begin(self, work: _Work, now: Now) -> None:
        work.schemas = self._schemas_of(work.topic)
        work.values = scan_values(work.batch)
        needed = self._ids_in(work) if work.schemas is not None else {}
        for id_ in list(needed)[:_IDS_MAX]:
            validator = self._validators.get(id_)
            if validator is not None:
                self._validators.move_to_end(id_)
                work.validators[id_] = validator
            else:
                work.missing[id_] = None
                self._compile(id_, work)
        if not work.missing:
            self._run(work, now)

    def _run(self, work: _Work, now: Now) -> None:
        self._state.stepwise.begin(None, self._check(work, now), now)

    def _check(self, work: _Work, now: Now) -> Steps:
        if not work.is_cancelled:
            for run in work.values.runs:
                validator = self._validator_of(work, run.schema_id)
                if validator is None:
                    yield from self._check_each(work, run)
                else:
                    yield from _check_run(work, run, validator)
            invalid = len(work.violations)
            duration_ns = max(now.instant - work.began, 0)
            counts = self._state.counts.topic(work.topic)
            counts.validate(len(work.values.starts) - invalid, invalid, duration_ns)
        self._finish(work, now)

    def _validator_of(self, work: _Work, schema_id: int) -> SchemaValidator | None:
        """What checks values that begin with an id, or with none; None: each is a case of its own.

        A value without a frame is one of the latest schema, if that is JSON.
        """
        if schema_id == UNFRAMED and work.schemas is not None and work.schemas.latest is not None:
            schema_id = work.schemas.latest
            if self._registry.content(schema_id).language is not SchemaType.JSON:
                return None
        return work.validators.get(schema_id)

    def _check_each(self, work: _Work, run: ValueRun) -> Steps:
        """Check values one by one, which have no validator or must be decompressed."""
        for index in range(run.first, run.end):
            yield 1
            found = self._violation(work, run.schema_id, index)
            if found is not None:
                work.violations[index] = found

    def _finish(self, work: _Work, now: Now) -> None:
        self._queues[work.topic].popleft()
        if not work.is_cancelled:
            try:
                with self._state.access.resuming(work.admitted, now):
                    work.resume(work.violations, now)
            except Refused as refused:
                if work.request is None:
                    raise
                self._state.audit.cancel(work.request)
                self._state.refuse(work.request, refused)
        self._advance(work.topic, now)

    # Values

    def _schemas_of(self, topic: str) -> _TopicSchemas | None:
        """The subject of a topic; None: it has none."""
        known = self._by_topic.get(topic)
        revision = self._registry.revision
        if known is None or known.revision != revision:
            for subject in (topic, f"{topic}-value"):
                versions = self._registry.versions(subject)
                if versions:
                    ids = [self._registry.id_at(SchemaPlace(subject, each)) for each in versions]
                    known = _TopicSchemas(revision, subject, dict.fromkeys(ids), ids[-1])
                    break
            else:
                known = _TopicSchemas(revision, "", {}, None)
            if len(self._by_topic) > _VALIDATORS_MAX:
                self._by_topic.clear()
            self._by_topic[topic] = known
        return known if known.subject else None

    def _ids_in(self, work: _Work) -> dict[int, None]:
        """The ids that the values of a batch need, as far as they are the subject's."""
        schemas = work.schemas
        assert schemas is not None
        named: dict[int, None] = {}
        for run in work.values.runs:
            if run.schema_id != OPAQUE:
                named[run.schema_id] = None
                continue
            for start in work.values.starts[run.first : run.end]:
                with contextlib.suppress(Corrupt, Refused):
                    value = decompress(decode(work.batch, start)).value
                    named[_framed_id(value or b"")] = None
        needed: dict[int, None] = {}
        for id_ in named:
            if id_ in schemas.ids:
                needed[id_] = None
            elif schemas.latest is not None:
                needed[schemas.latest] = None
        return needed

    def _violation(self, work: _Work, schema_id: int, index: int) -> Violation | None:
        start, end = work.values.starts[index], work.values.ends[index]
        payload = bytes(work.batch[start:end])
        schemas = work.schemas
        if schema_id == OPAQUE:
            try:
                value = decompress(decode(work.batch, start)).value
            except (Corrupt, Refused):
                return _violates("cannot be decompressed")
            if value is None:
                return None
            schema_id = _framed_id(value)
            payload = value if schema_id == UNFRAMED else value[SCHEMA_FRAME_BYTES:]
        if schemas is None:
            subject = f"{work.topic}-value"
            return Violation(Code.SUBJECT_NOT_FOUND, "", f"the topic needs subject {subject}")
        if schema_id == UNFRAMED:
            assert schemas.latest is not None
            schema_id = schemas.latest
            if self._registry.content(schema_id).language is not SchemaType.JSON:
                return _violates("is not in registry framing: byte 0, then four bytes of schema id")
        elif schema_id not in schemas.ids:
            return _violates(f"has schema id {schema_id}, which is not one of {schemas.subject}")
        validator = work.validators.get(schema_id)
        if validator is None:
            reason = work.failed.get(schema_id, "the batch has too many schema ids")
            return _violates(f"cannot be checked: {reason}")
        found = validator.explain(payload)
        return None if found is None else Violation(Code.SCHEMA_VIOLATION, found[0], found[1])

    # Validators

    def _compile(self, id_: int, work: _Work) -> None:
        if id_ in self._compiling:
            return
        try:
            source = self._schemas.source_of(id_)
        except Refused as refused:
            del work.missing[id_]
            work.failed[id_] = refused.facts.get("reason", refused.code.value)
            return
        self._compiling[id_] = None
        self._state.outbox.append(CompileSchema(id=id_, source=source))

    def compiled(self, event: SchemaCompiled, now: Now) -> None:
        """A validator is there, or cannot be: go on with those who waited for it."""
        self._compiling.pop(event.id, None)
        if event.validator is not None:
            self._keep(event.id, event.validator, event.size)
        for topic in list(self._queues):
            queue = self._queues.get(topic)
            if not queue or event.id not in queue[0].missing:
                continue
            work = queue[0]
            del work.missing[event.id]
            if event.validator is not None:
                work.validators[event.id] = event.validator
            else:
                work.failed[event.id] = event.reason
            if not work.missing:
                self._run(work, now)

    def _keep(self, id_: int, validator: SchemaValidator, size: int) -> None:
        self._validators[id_] = validator
        self._bytes += size - self._sizes.get(id_, 0)
        self._sizes[id_] = size
        while len(self._validators) > _VALIDATORS_MAX or (
            self._bytes > _VALIDATOR_BYTES_MAX and len(self._validators) > 1
        ):
            oldest, _ = self._validators.popitem(last=False)
            self._bytes -= self._sizes.pop(oldest)


def _check_run(work: _Work, run: ValueRun, validator: SchemaValidator) -> Steps:
    """Check consecutive values of one schema, piece by piece."""
    starts, ends = work.values.starts, work.values.ends
    first = run.first
    while first < run.end:
        bound = min(first + _PIECE_VALUES, run.end)
        end = bisect_right(starts, starts[first] + _PIECE_BYTES, first + 1, bound)
        refused = validator.find_refused(work.batch, starts[first:end], ends[first:end])
        for place in refused:
            index = first + place
            found = validator.explain(bytes(work.batch[starts[index] : ends[index]]))
            if found is not None:
                work.violations[index] = Violation(Code.SCHEMA_VIOLATION, found[0], found[1])
        small = (end - first) // validator.values_per_unit
        large = (ends[end - 1] - starts[first]) // validator.bytes_per_unit
        first = end
        yield max(small, large, 1) + len(refused)


def _framed_id(value: bytes) -> int:
    if len(value) >= SCHEMA_FRAME_BYTES and value[0] == 0:
        return int.from_bytes(value[1:SCHEMA_FRAME_BYTES])
    return UNFRAMED


def _violates(reason: str) -> Violation:
    return Violation(Code.SCHEMA_VIOLATION, "", reason)
