"""Clients of the schema registry: they register, look up, delete and remove schemas.

There are a few contents, each written in several ways, and a few subjects. What a client was not
told, because the node died, is in doubt.

What must hold
- An id that was answered names one content, in every life of the node, also after it was removed.
- Equal content has one id as long as nobody asked to remove a version of it.
- A version that was answered is there with its content, until somebody asks to remove it.
"""

from collections.abc import Callable

from goqueue.model import (
    Code,
    DeleteSchema,
    DeleteSubject,
    DescribeSchema,
    FindSchemaById,
    Level,
    Refused,
    RegisterSchema,
    SchemaDescription,
    SchemaPlace,
    SchemaText,
    SchemaType,
    SetCompatibility,
)
from goqueue.model.requests import Reply
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation

__all__ = ["Registrars"]

_SUBJECTS = ("red", "green-value", "blue-key")
_CONTENTS = 7
_ABSENT = frozenset((Code.SUBJECT_NOT_FOUND, Code.VERSION_NOT_FOUND, Code.SCHEMA_NOT_FOUND))


class Registrars:
    """Those who have schemas."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        # What each id was ever seen to mean; the id of each content that nobody asked to remove.
        self._contents: dict[int, int] = {}
        self._ids: dict[int, int] = {}
        self._versions: dict[SchemaPlace, int] = {}
        # How often removal was asked for: what was asked before may be answered after it.
        self._removals = 0

    def actions(self) -> list[Callable[[], None]]:
        """What they do, as often as it is named."""
        often: list[Callable[[], None]] = [self._register] * 10 + [self._look_up] * 4
        return [*often, *[self._delete] * 3, *[self._remove] * 2, self._set_level]

    # Registering

    def _register(self) -> None:
        content, subject = self._random.randrange(_CONTENTS), self._random.choice(_SUBJECTS)
        removals = self._removals
        schema = _schema(content, self._random.randrange(3))

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, SchemaDescription):
                self._learn(reply, content, is_sure=removals == self._removals)

        self._world.ask(RegisterSchema(subject=subject, schema=schema), done)

    def _learn(self, found: SchemaDescription, content: int, *, is_sure: bool) -> None:
        known = self._contents.setdefault(found.id, content)
        if known != content:
            raise Violation("schema-id-reused", f"{found.id} was {known} and is {content}")
        if is_sure:
            id_ = self._ids.setdefault(content, found.id)
            if id_ != found.id:
                raise Violation("schema-id-not-shared", f"{content} is {id_} and {found.id}")
            self._versions[SchemaPlace(found.subject, found.version)] = content

    # Looking up

    def _look_up(self) -> None:
        if self._random.random() < 0.5 and self._contents:
            self._find(self._random.choice(list(self._contents)))
        elif self._versions:
            self._describe(self._random.choice(list(self._versions)))

    def _find(self, id_: int) -> None:
        def done(reply: Reply | Refused | None) -> None:
            content = self._contents[id_]
            if isinstance(reply, SchemaDescription):
                _check(reply, content)
            elif _is_absent(reply) and self._ids.get(content) == id_:
                raise Violation("schema-lost", f"id {id_}")

        self._world.ask(FindSchemaById(id=id_), done)

    def _describe(self, place: SchemaPlace) -> None:
        def done(reply: Reply | Refused | None) -> None:
            content = self._versions.get(place)
            if content is None:
                return
            if isinstance(reply, SchemaDescription):
                _check(reply, content)
            elif _is_absent(reply):
                raise Violation("schema-version-lost", f"{place}")

        command = DescribeSchema(subject=place.subject, version=place.version, shows_deleted=True)
        self._world.ask(command, done)

    # Deleting

    def _delete(self) -> None:
        if self._versions and self._random.random() < 0.7:
            place = self._random.choice(list(self._versions))
            command = DeleteSchema(subject=place.subject, version=place.version)
            self._world.ask(command, lambda _: None)
        else:
            self._world.ask(DeleteSubject(subject=self._random.choice(_SUBJECTS)), lambda _: None)

    def _remove(self) -> None:
        """From now on nobody knows what is left of a subject, and of what it had."""
        subject = self._random.choice(_SUBJECTS)
        for place in [place for place in self._versions if place.subject == subject]:
            del self._versions[place]
        # It may have versions that nobody was told of.
        self._ids.clear()
        self._removals += 1

        def done(_: Reply | Refused | None) -> None:
            # What was asked in between saw the registry before it, or after.
            self._ids.clear()
            for place in [place for place in self._versions if place.subject == subject]:
                del self._versions[place]
            self._removals += 1

        self._world.ask(DeleteSubject(subject=subject, is_permanent=True), done)

    def _set_level(self) -> None:
        level = self._random.choice([Level.NONE, Level.BACKWARD, Level.FULL_TRANSITIVE])
        subject = self._random.choice(_SUBJECTS)
        self._world.ask(SetCompatibility(subject=subject, level=level), lambda _: None)

    # The end of a run

    def check_all(self) -> None:
        """Everything that is beyond doubt is there."""
        for id_ in list(self._contents):
            self._find(id_)
        for place in list(self._versions):
            self._describe(place)
        self._world.process.settle(self._world.now)


def _schema(content: int, way: int) -> SchemaText:
    """A content in one of several ways to write it; they are compatible with each other."""
    field = f'{{"name": "f{content}", "type": "int", "default": 0}}'
    texts = (
        f'{{"type": "record", "name": "R", "fields": [{field}]}}',
        f'{{"name":"R","fields":[{field}],"type":"record"}}',
        "{",
    )
    # The last is no schema at all.
    return SchemaText(type=SchemaType.AVRO, text=texts[way])


def _check(found: SchemaDescription, content: int) -> None:
    if f'"f{content}"' not in found.schema.text:
        raise Violation("schema-changed", f"id {found.id} is {found.schema.text}")


def _is_absent(reply: Reply | Refused | None) -> bool:
    return isinstance(reply, Refused) and reply.code in _ABSENT
