"""Faults planted into the schema registry, one at a time, to see that the simulator finds them."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from goqueue.broker.schemas import Schemas
from goqueue.model import Visible
from goqueue.schemas import SchemaChange, SchemaRegistry, SchemasNumbered, SchemaVersionStated
from tests.simulation.planted_patches import Plant

__all__ = ["PLANTED_IN_SCHEMAS"]


def answers_before_the_schema_is_durable(patch: pytest.MonkeyPatch) -> None:
    def hasty(schemas: Any, request: Any, changes: Any, told: Any, reply: Any) -> None:
        schemas._state.metadata.propose(changes)
        schemas._state.audit.cancel(request)
        schemas._state.outbox.answer(request, reply())

    patch.setattr(Schemas, "_change", hasty)


def forgets_the_ids_of_schemas_that_were_removed(patch: pytest.MonkeyPatch) -> None:
    say_all = SchemaRegistry.changes

    def without_numbers(registry: SchemaRegistry) -> Iterator[Sequence[SchemaChange]]:
        for changes in say_all(registry):
            yield [each for each in changes if not isinstance(each, SchemasNumbered)]

    patch.setattr(SchemaRegistry, "changes", without_numbers)


def gives_equal_content_a_new_id(patch: pytest.MonkeyPatch) -> None:
    register = SchemaRegistry.register

    def anew(registry: SchemaRegistry, subject: str, schema: Any, digest: str) -> Any:
        return register(registry, subject, schema, digest + subject)

    patch.setattr(SchemaRegistry, "register", anew)


def removes_what_was_only_deleted(patch: pytest.MonkeyPatch) -> None:
    def remove(registry: Any, subject: str, version: Any, *, permanently: bool) -> Any:
        visible = Visible.ALL if permanently else Visible.LIVE
        return registry._remove([registry.resolve(subject, version, visible)])

    patch.setattr(SchemaRegistry, "delete", remove)


def forgets_versions_when_the_journal_is_stated_again(patch: pytest.MonkeyPatch) -> None:
    say_all = SchemaRegistry.changes

    def without_deleted(registry: SchemaRegistry) -> Iterator[Sequence[SchemaChange]]:
        for changes in say_all(registry):
            yield [
                each
                for each in changes
                if not (isinstance(each, SchemaVersionStated) and each.is_deleted)
            ]

    patch.setattr(SchemaRegistry, "changes", without_deleted)


PLANTED_IN_SCHEMAS: tuple[Plant, ...] = (
    answers_before_the_schema_is_durable,
    forgets_the_ids_of_schemas_that_were_removed,
    gives_equal_content_a_new_id,
    removes_what_was_only_deleted,
    forgets_versions_when_the_journal_is_stated_again,
)
