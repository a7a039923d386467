"""Faults planted into the schemas of a cluster, one at a time."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from goqueue.schemas import SchemasNumbered, SchemaVersionStated
from tests.simulation.planted_patches import Plant, attribute

__all__ = ["PLANTED_IN_CLUSTER_SCHEMAS"]

_TABLE = "goqueue.cluster.schema_table.SchemaTable"
_CONTROLLER = "goqueue.broker.cluster.access_controller.AccessController"
_FOLLOWER = "goqueue.broker.cluster.schema_follower.SchemaFollower"


def answers_a_registration_before_its_commit(patch: pytest.MonkeyPatch) -> None:
    proposed = attribute(f"{_CONTROLLER}.proposed")

    def hasty(controller: Any, version: int) -> None:
        proposed(controller, version)
        for each in controller._decided:
            if each.ended is not None:
                for change in controller._proposed_schemas:
                    controller._state.schemas.apply(change)
                controller._state.outbox.answer(each.request, each.reply())
                controller._state.audit.cancel(each.request)

    request = attribute(f"{_CONTROLLER}.request_schemas")

    def noted(controller: Any, decision: Any) -> None:
        controller._proposed_schemas = decision.changes
        request(controller, decision)

    patch.setattr(f"{_CONTROLLER}.proposed", hasty)
    patch.setattr(f"{_CONTROLLER}.request_schemas", noted)


def gives_the_id_of_a_removed_schema_again(patch: pytest.MonkeyPatch) -> None:
    def numbered(table: Any) -> SchemasNumbered:
        return SchemasNumbered(ids_upto=max(table._contents, default=0) + 1)

    patch.setattr(f"{_TABLE}._numbered", numbered)
    patch.setattr(f"{_TABLE}.sum", property(lambda _: 0))


def states_schemas_without_their_versions(patch: pytest.MonkeyPatch) -> None:
    pieces = attribute(f"{_TABLE}.state_pieces")

    def careless(table: Any) -> Iterator[Any]:
        for piece in pieces(table):
            kept = [each for each in piece.entries if not isinstance(each, SchemaVersionStated)]
            yield msgspec.structs.replace(piece, entries=tuple(kept))

    patch.setattr(f"{_TABLE}.state_pieces", careless)


def follows_no_schemas_after_the_first(patch: pytest.MonkeyPatch) -> None:
    """A node that read a statement goes on with the table that it had before."""
    patch.setattr(f"{_FOLLOWER}.apply", lambda *_: None)


PLANTED_IN_CLUSTER_SCHEMAS: tuple[Plant, ...] = (
    answers_a_registration_before_its_commit,
    gives_the_id_of_a_removed_schema_again,
    states_schemas_without_their_versions,
    follows_no_schemas_after_the_first,
)
