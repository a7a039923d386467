"""Commands about schemas.

To parse and compare schemas takes longer than a turn, so it is done beside the node: a command that
needs it hands out a `CheckSchema` and goes on with `SchemaChecked`. Changes of the registry, and
whatever needs a check, are carried out one after the other in the order of their commands: nothing
that a check rests on changes before its verdict is used. Whatever only reads is answered at once.

In a cluster schemas are metadata: what is decided here, on the controller, goes to the metadata log
(`SchemaController`), and every node follows that.

Crash points: before the change is journaled there is nothing, and the client asks again; after it,
the same request gets the same id, since equal content is found. The content and its version are one
record.

Cost: one unit of a turn for each few items of a list.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Protocol

import msgspec

from goqueue.broker.schema_queue import SchemaQueue
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Steps
from goqueue.model import (
    CheckCompatibility,
    Code,
    Compatibility,
    CompatibilityChecked,
    DeleteSchema,
    DeleteSubject,
    DescribeCompatibility,
    DescribeRegistry,
    DescribeSchema,
    FindSchema,
    FindSchemaById,
    Level,
    ListReferrers,
    ListSchemaUses,
    ListSubjects,
    ListVersions,
    NamedSource,
    Now,
    Refused,
    RegisterSchema,
    RegistryDescription,
    RequestId,
    ResetCompatibility,
    SchemaChecked,
    SchemaIds,
    SchemaJob,
    SchemaPlace,
    SchemaPlaces,
    SchemaSource,
    SchemaText,
    SetCompatibility,
    SubjectList,
    VersionList,
    Visible,
    Written,
    check_name,
    is_internal,
)
from goqueue.model.requests import Operation, Reply, ResourceType
from goqueue.schemas import (
    SCHEMA_BYTES_MAX,
    SchemaChange,
    SchemaLevelStated,
    SchemaVersionRemoved,
    SchemaVersionStated,
    content_digest,
)
from goqueue.security import Admitted, FieldChange, NameFilter

__all__ = ["SchemaController", "SchemaDecision", "Schemas", "topic_of"]

_REFERENCES_MAX = 100
_SOURCE_BYTES_MAX = 2 * 1024 * 1024
# All that one check compares with, in bytes of text: what a job may keep in memory, and parse.
_AGAINST_BYTES_MAX = 16 * 1024 * 1024
_ITEMS_PER_UNIT = 10


class SchemaDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What a command changes, what the audit log says of it, and the answer once it is applied.

    Decided on this `revision` of the registry. `ended` is called when it is applied, or when
    nothing came of it.
    """

    request: RequestId
    admitted: Admitted | None
    revision: int
    changes: Sequence[SchemaChange]
    told: Sequence[FieldChange]
    reply: Callable[[], Reply]
    ended: Callable[[], None]


class SchemaController(Protocol):
    """Who carries decisions out where schemas are metadata of a cluster."""

    def propose(self, decision: SchemaDecision, /) -> None:
        """Have a decision committed, and its request answered; raises Refused."""

    def answer(self, request: RequestId, reply: Reply, /) -> None:
        """Answer with what is there, once every node knows it."""


def topic_of(subject: str) -> str:
    """The topic whose keys or values a subject describes: rights to a subject are rights to it."""
    for suffix in ("-key", "-value"):
        if subject.endswith(suffix) and len(subject) > len(suffix):
            return subject.removesuffix(suffix)
    return subject


class Schemas:
    """Takes commands about schemas."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._registry = state.schemas
        self._queue = SchemaQueue(state)
        self.checked = self._queue.checked
        # A single node has none: it carries out what it decides.
        self.controller: SchemaController | None = None

    # Checked first

    def register(self, request: RequestId, command: RegisterSchema, _: Now) -> None:
        subject, schema = command.subject, command.schema
        self._require_registrable(command)
        if self._queue.is_idle and self._find_known(request, command):
            return

        def begin() -> SchemaJob:
            self._state.metadata.check_room()
            self._registry.check_room(subject, schema)
            level = self._registry.level(subject)
            return self._job(subject, schema, level, self._versions_for(subject, level))

        def finish(checked: SchemaChecked) -> None:
            digest = _digest(schema, checked)
            id_ = self._registry.id_of(digest)
            known = self._registry.find(subject, id_, shows_deleted=False)
            if known is not None:
                self._answer_known(request, known)
                return
            if checked.messages:
                raise Refused(
                    Code.SCHEMA_INCOMPATIBLE,
                    subject=subject,
                    reason=checked.messages[0],
                    messages=checked.messages,
                )
            self._state.metadata.check_room()
            stored = schema
            if checked.text:
                stored = msgspec.structs.replace(schema, text=checked.text)
                self._registry.check_room(subject, stored)
            changes = self._registry.register(subject, stored, digest)
            stated = changes[-1]
            assert isinstance(stated, SchemaVersionStated)
            place = SchemaPlace(subject, stated.version)
            told = [
                FieldChange("version", new=str(stated.version)),
                FieldChange("schema_id", new=str(stated.id)),
                FieldChange("type", new=schema.type.value),
            ]
            self._change(request, changes, told, lambda: self._registry.describe(place))

        self._queue.submit(request, begin, finish)

    def answer_known(self, request: RequestId, command: RegisterSchema) -> bool:
        """Answer a registration of what is there in just these words; False: it is not."""
        self._require_registrable(command)
        return self._find_known(request, command)

    def _require_registrable(self, command: RegisterSchema) -> None:
        self._require_writable(command.subject)
        self._check_size(command.schema)

    def _find_known(self, request: RequestId, command: RegisterSchema) -> bool:
        known = self._registry.find_text(command.subject, command.schema)
        if known is not None:
            self._answer_known(request, known)
        return known is not None

    def _answer_known(self, request: RequestId, place: SchemaPlace) -> None:
        """A registration changes nothing."""
        self._state.audit.cancel(request)
        reply = self._registry.describe(place)
        if self.controller is None:
            self._answer(request, reply)
        else:
            self.controller.answer(request, reply)

    def find(self, request: RequestId, command: FindSchema, _: Now) -> None:
        subject, schema = command.subject, command.schema
        self._require_visible(subject)
        self._check_size(schema)
        visible = Visible.ALL if command.shows_deleted else Visible.LIVE

        def begin() -> SchemaJob | None:
            self._registry.require_versions(subject, visible)
            known = self._registry.find_text(subject, schema)
            if known is not None:
                self._answer(request, self._registry.describe(known))
                return None
            return SchemaJob(source=self._source(subject, schema))

        def finish(checked: SchemaChecked) -> None:
            id_ = self._registry.id_of(_digest(schema, checked))
            known = self._registry.find(subject, id_, shows_deleted=command.shows_deleted)
            if known is None:
                raise Refused(Code.SCHEMA_NOT_FOUND, subject=subject)
            self._answer(request, self._registry.describe(known))

        self._queue.submit(request, begin, finish)

    def check(self, request: RequestId, command: CheckCompatibility, _: Now) -> None:
        subject, schema = command.subject, command.schema
        self._require_visible(subject)
        self._check_size(schema)

        def begin() -> SchemaJob:
            level = self._registry.level(subject)
            if command.is_whole:
                places = self._versions_for(subject, level)
            elif self._registry.versions(subject):
                places = [self._registry.resolve(subject, command.version)]
            else:
                places = []
            return self._job(subject, schema, level, places)

        def finish(checked: SchemaChecked) -> None:
            _digest(schema, checked)
            self._answer(request, CompatibilityChecked(messages=checked.messages))

        self._queue.submit(request, begin, finish)

    def _versions_for(self, subject: str, level: Level) -> list[SchemaPlace]:
        """The versions that a new one is compared with, the newest first."""
        if level is Level.NONE:
            return []
        versions = self._registry.versions(subject)
        chosen = versions if level.is_transitive else versions[-1:]
        return [SchemaPlace(subject, version) for version in reversed(chosen)]

    def _job(
        self, subject: str, schema: SchemaText, level: Level, places: Sequence[SchemaPlace]
    ) -> SchemaJob:
        against: list[Written] = []
        size = 0
        for place in places:
            id_ = self._registry.id_at(place)
            if any(each.id == id_ for each in against[-1:]):
                continue
            source = self._source(place.subject, self._registry.content(id_).schema)
            size += len(source.text)
            if size > _AGAINST_BYTES_MAX:
                raise Refused(
                    Code.SCHEMA_INVALID,
                    subject=subject,
                    reason=f"its versions have more than {_AGAINST_BYTES_MAX} bytes together: "
                    "delete some, or use a level that is not transitive",
                )
            against.append(Written(version=place.version, id=id_, source=source))
        return SchemaJob(
            source=self._source(subject, schema),
            against=tuple(against),
            is_backward=level.is_backward,
            is_forward=level.is_forward,
        )

    def _source(self, subject: str, schema: SchemaText) -> SchemaSource:
        """A schema with all that it refers to; refuses references to what is not there."""
        found: dict[str, NamedSource] = {}
        self._collect(subject, schema, found)
        size = sum(len(each.text) for each in found.values())
        if len(found) > _REFERENCES_MAX or size > _SOURCE_BYTES_MAX:
            raise _invalid(
                f"refers to more than {_REFERENCES_MAX} schemas or {_SOURCE_BYTES_MAX} bytes"
            )
        return SchemaSource(type=schema.type, text=schema.text, references=tuple(found.values()))

    def source_of(self, id_: int) -> SchemaSource:
        """A registered schema with all that it refers to."""
        content = self._registry.content(id_)
        places = self._registry.places(id_)
        return self._source(places[0].subject if places else "", content.schema)

    def _collect(self, subject: str, schema: SchemaText, found: dict[str, NamedSource]) -> None:
        """Add what a schema refers to behind what that refers to.

        A reference names a version that was there before, so there are no cycles.
        """
        owner = self._state.access.owner(subject)
        for reference in schema.references:
            known = self._registry.versions(reference.subject, Visible.ALL)
            is_foreign = self._state.access.owner(reference.subject) != owner
            if reference.version not in known or is_foreign:
                raise _invalid(
                    f"refers to version {reference.version} of {reference.subject[:249]!r}, "
                    "which does not exist"
                )
            place = SchemaPlace(reference.subject, reference.version)
            referred = self._registry.content(self._registry.id_at(place)).schema
            if referred.type is not schema.type:
                raise _invalid(f"refers to {reference.name[:249]!r}, which is {referred.type}")
            if len(found) > _REFERENCES_MAX:
                return
            if reference.name not in found:
                self._collect(reference.subject, referred, found)
                found[reference.name] = NamedSource(reference.name, referred.text)
            elif found[reference.name].text != referred.text:
                raise _invalid(f"{reference.name[:249]!r} refers to two schemas")

    def _check_size(self, schema: SchemaText) -> None:
        if len(schema.text) > SCHEMA_BYTES_MAX:
            raise _invalid(f"is larger than {SCHEMA_BYTES_MAX} bytes")
        if len(schema.references) > _REFERENCES_MAX:
            raise _invalid(f"refers to more than {_REFERENCES_MAX} schemas")

    def cancel(self, request: RequestId, *, is_gone: bool) -> bool:
        """Nobody waits any more: whether something was still to be done."""
        del is_gone
        return self._queue.cancel(request)

    # Changes that need no check

    def delete_subject(self, request: RequestId, command: DeleteSubject, _: Now) -> None:
        self._require_writable(command.subject)

        def begin() -> None:
            changes = self._registry.delete_subject(
                command.subject, permanently=command.is_permanent
            )
            self._delete(request, changes, is_permanent=command.is_permanent)

        self._queue.submit(request, begin)

    def delete(self, request: RequestId, command: DeleteSchema, _: Now) -> None:
        self._require_writable(command.subject)

        def begin() -> None:
            changes = self._registry.delete(
                command.subject, command.version, permanently=command.is_permanent
            )
            self._delete(request, changes, is_permanent=command.is_permanent)

        self._queue.submit(request, begin)

    def _delete(
        self, request: RequestId, changes: Sequence[SchemaChange], *, is_permanent: bool
    ) -> None:
        self._state.metadata.check_room()
        versions = tuple(
            each.version
            for each in changes
            if isinstance(each, SchemaVersionStated | SchemaVersionRemoved)
        )
        self._state.budget.spend(len(versions))
        told = [
            FieldChange("versions", old=", ".join(map(str, versions[:20]))),
            FieldChange("permanent", new=str(is_permanent).lower()),
        ]
        self._change(request, changes, told, lambda: VersionList(versions=versions))

    def set_level(self, request: RequestId, command: SetCompatibility, _: Now) -> None:
        if command.subject:
            self._require_writable(command.subject)
        elif self._state.access.own_tenant is not None:
            raise Refused(
                Code.PERMISSION_DENIED, reason="the global level is for admins of `default`"
            )
        self._set_level(request, command.subject, command.level, lambda _: command.level)

    def reset_level(self, request: RequestId, command: ResetCompatibility, _: Now) -> None:
        self._require_writable(command.subject)
        self._set_level(request, command.subject, None, lambda before: before)

    def _set_level(
        self,
        request: RequestId,
        subject: str,
        level: Level | None,
        answer: Callable[[Level | None], Level | None],
    ) -> None:
        def begin() -> None:
            before = self._registry.own_level(subject)
            reply = answer(before)
            if reply is None:
                raise _no_level(subject)
            self._state.metadata.check_room()
            if level is not None:
                self._registry.check_level(subject)
            told = [FieldChange("level", old=before and before.value, new=level and level.value)]
            change = SchemaLevelStated(subject=subject, level=level)
            self._change(request, [change], told, lambda: Compatibility(level=reply))

        self._queue.submit(request, begin)

    def _change(
        self,
        request: RequestId,
        changes: Sequence[SchemaChange],
        told: Sequence[FieldChange],
        reply: Callable[[], Reply],
    ) -> None:
        """Apply changes, journal them with their record, and answer when all is durable."""
        if self.controller is not None:
            work = self._queue.at_hand
            self.controller.propose(
                SchemaDecision(
                    request=request,
                    admitted=work.admitted,
                    revision=work.revision,
                    changes=changes,
                    told=told,
                    reply=reply,
                    ended=self._queue.release,
                )
            )
            work.is_decided = True
            return
        self._state.metadata.propose(changes)
        self._state.metadata.answer(request, reply())
        self._state.audit.record(request, self._state.journals.of_topics, told)

    # Reads

    def list_subjects(self, request: RequestId, command: ListSubjects, now: Now) -> None:
        sees = self._state.access.visible_topics()
        self._state.stepwise.begin(request, self._list(request, command, sees), now)

    def _list(self, request: RequestId, command: ListSubjects, sees: NameFilter) -> Steps:
        names = yield from self._select(self._registry.subjects, sees)
        found = [
            name
            for name in names
            if name.startswith(command.prefix) and self._registry.versions(name, command.visible)
        ]
        self._answer(request, SubjectList(subjects=tuple(found)))

    def _select(self, names: list[str], sees: NameFilter) -> Generator[int, None, list[str]]:
        found = []
        for index, name in enumerate(names):
            if sees is None or sees(topic_of(name)):
                found.append(name)
            yield 1 if sees is not None else int(index % _ITEMS_PER_UNIT == 0)
        return found

    def list_versions(self, request: RequestId, command: ListVersions, _: Now) -> None:
        self._require_visible(command.subject)
        versions = self._registry.require_versions(command.subject, command.visible)
        self._state.budget.spend(len(versions) // _ITEMS_PER_UNIT)
        self._answer(request, VersionList(versions=versions))

    def describe(self, request: RequestId, command: DescribeSchema, _: Now) -> None:
        self._require_visible(command.subject)
        visible = Visible.ALL if command.shows_deleted else Visible.LIVE
        place = self._registry.resolve(command.subject, command.version, visible)
        self._answer(request, self._registry.describe(place))

    def find_by_id(self, request: RequestId, command: FindSchemaById, now: Now) -> None:
        sees = self._state.access.visible_topics()
        self._registry.content(command.id)
        steps = self._find_visible(request, command.id, sees)
        self._state.stepwise.begin(request, steps, now)

    def _find_visible(self, request: RequestId, id_: int, sees: NameFilter) -> Steps:
        """Any version with an id that the caller may see."""
        for place in self._registry.places(id_):
            is_there = self._registry.has(place, id_)
            if is_there and (sees is None or sees(topic_of(place.subject))):
                self._answer(request, self._registry.describe(place))
                return
            yield 1
        raise Refused(Code.SCHEMA_NOT_FOUND, schema_id=id_)

    def list_uses(self, request: RequestId, command: ListSchemaUses, now: Now) -> None:
        sees = self._state.access.visible_topics()
        self._registry.content(command.id)
        self._state.stepwise.begin(request, self._list_uses(request, command, sees), now)

    def _list_uses(self, request: RequestId, command: ListSchemaUses, sees: NameFilter) -> Steps:
        found = []
        is_known = False
        for place in self._registry.places(command.id):
            if sees is None or sees(topic_of(place.subject)):
                is_known = True
                if command.shows_deleted or not self._registry.is_deleted(place):
                    found.append(place)
            yield 1
        if not is_known:
            raise Refused(Code.SCHEMA_NOT_FOUND, schema_id=command.id)
        found.sort(key=lambda place: (place.subject, place.version))
        self._answer(request, SchemaPlaces(places=tuple(found)))

    def list_referrers(self, request: RequestId, command: ListReferrers, _: Now) -> None:
        self._require_visible(command.subject)
        place = self._registry.resolve(command.subject, command.version)
        self._answer(request, SchemaIds(ids=self._registry.referrers(place)))

    def describe_level(self, request: RequestId, command: DescribeCompatibility, _: Now) -> None:
        level: Level | None
        if command.subject:
            self._require_visible(command.subject)
            level = self._registry.own_level(command.subject)
            if level is None and command.falls_back:
                level = self._registry.level(command.subject)
        else:
            self._state.access.note_principal()
            level = self._registry.own_level("")
        if level is None:
            raise _no_level(command.subject)
        self._answer(request, Compatibility(level=level))

    def describe_all(self, request: RequestId, _: DescribeRegistry, now: Now) -> None:
        sees = self._state.access.visible_topics()
        self._state.stepwise.begin(request, self._describe_all(request, sees), now)

    def _describe_all(self, request: RequestId, sees: NameFilter) -> Steps:
        registry = self._registry
        names = yield from self._select(registry.subjects, sees)
        ids: dict[int, None] = {}
        subjects = versions = 0
        for name in names:
            found = registry.versions(name)
            subjects += bool(found)
            versions += len(found)
            for version in found:
                ids[registry.id_at(SchemaPlace(name, version))] = None
            yield 1 + len(found) // _ITEMS_PER_UNIT
        level = registry.own_level("")
        assert level is not None
        reply = RegistryDescription(
            subjects=subjects, schemas=len(ids), versions=versions, level=level
        )
        self._answer(request, reply)

    def _answer(self, request: RequestId, reply: Reply) -> None:
        """Answer when all that the answer may show is committed."""
        self._state.metadata.answer(request, reply)

    # Rights

    def _require_visible(self, subject: str) -> None:
        self._require(subject, Operation.DESCRIBE)

    def _require_writable(self, subject: str) -> None:
        self._require(subject, Operation.ALTER)
        if is_internal(subject):
            raise Refused(Code.TOPIC_INTERNAL, topic=subject)

    def _require(self, subject: str, operation: Operation) -> None:
        check_name(subject, "subject")
        access = self._state.access
        access.require_owner(subject, Refused(Code.SUBJECT_NOT_FOUND, subject=subject))
        access.require(ResourceType.TOPIC, topic_of(subject), operation)


def _digest(schema: SchemaText, checked: SchemaChecked) -> str:
    """The sum of a content; refuses one that is invalid."""
    if checked.canonical is None:
        raise Refused(Code.SCHEMA_INVALID, path=checked.path, reason=checked.reason)
    return content_digest(schema.type, checked.canonical, schema.references)


def _invalid(reason: str) -> Refused:
    return Refused(Code.SCHEMA_INVALID, reason=reason)


def _no_level(subject: str) -> Refused:
    reason = "it has no level of its own"
    return Refused(Code.SUBJECT_NOT_FOUND, subject=subject, state="no level", reason=reason)
