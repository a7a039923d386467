"""The registry as a machine: ids, versions, references, levels."""

from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import (
    Code,
    Level,
    Refused,
    SchemaPlace,
    SchemaReference,
    SchemaText,
    SchemaType,
    Visible,
)
from goqueue.schemas import (
    SchemaChange,
    SchemaLevelStated,
    SchemaRegistry,
    SchemaVersionRemoved,
    SchemaVersionStated,
)


def _text(content: int, *references: SchemaReference) -> SchemaText:
    return SchemaText(type=SchemaType.AVRO, text=f'"{content}"', references=references)


def _apply(registry: SchemaRegistry, changes: Sequence[SchemaChange]) -> None:
    for change in changes:
        registry.apply(change)


def _register(
    registry: SchemaRegistry, subject: str, content: int, *references: SchemaReference
) -> int:
    changes = registry.register(subject, _text(content, *references), f"digest-{content}")
    _apply(registry, changes)
    return registry.id_at(registry.resolve(subject, None))


def _refusal(registry: SchemaRegistry, subject: str, version: int | None, **how: bool) -> Refused:
    with pytest.raises(Refused) as refused:
        registry.delete(subject, version, permanently=how.get("permanently", False))
    return refused.value


def test_ids_begin_at_one_and_versions_of_each_subject_too() -> None:
    registry = SchemaRegistry()
    assert [_register(registry, "a", 1), _register(registry, "a", 2)] == [1, 2]
    assert _register(registry, "b", 3) == 3
    assert registry.versions("a") == (1, 2)
    assert registry.versions("b") == (1,)


def test_equal_content_shares_an_id_between_subjects() -> None:
    registry = SchemaRegistry()
    assert _register(registry, "a", 1) == _register(registry, "b", 1)
    assert registry.places(1) == (SchemaPlace("a", 1), SchemaPlace("b", 1))


def test_an_id_is_never_given_out_again_after_its_content_was_removed() -> None:
    registry = SchemaRegistry()
    _register(registry, "a", 1)
    _apply(registry, registry.delete_subject("a", permanently=False))
    _apply(registry, registry.delete_subject("a", permanently=True))
    with pytest.raises(Refused) as refused:
        registry.content(1)
    assert refused.value.code is Code.SCHEMA_NOT_FOUND
    assert _register(registry, "a", 1) == 2
    assert _register(registry, "a", 9) == 3


def test_a_deleted_version_leaves_the_lists_and_keeps_its_number_and_id() -> None:
    registry = SchemaRegistry()
    _register(registry, "a", 1)
    _register(registry, "a", 2)
    _apply(registry, registry.delete("a", None, permanently=False))
    assert registry.versions("a") == (1,)
    assert registry.versions("a", Visible.DELETED) == (2,)
    assert registry.content(2).text == '"2"'
    _register(registry, "a", 3)
    assert registry.versions("a") == (1, 3)


def test_a_version_is_removed_only_after_it_was_deleted() -> None:
    registry = SchemaRegistry()
    _register(registry, "a", 1)
    assert _refusal(registry, "a", 1, permanently=True).facts["state"] == "not deleted"
    _apply(registry, registry.delete("a", 1, permanently=False))
    assert _refusal(registry, "a", 1).facts["state"] == "deleted"
    _apply(registry, registry.delete("a", 1, permanently=True))
    assert _refusal(registry, "a", 1).code is Code.SUBJECT_NOT_FOUND


def test_a_version_that_another_schema_refers_to_is_not_deleted() -> None:
    registry = SchemaRegistry()
    _register(registry, "address", 1)
    reference = SchemaReference(name="address", subject="address", version=1)
    id_ = _register(registry, "order", 2, reference)
    assert registry.referrers(SchemaPlace("address", 1)) == (id_,)
    assert _refusal(registry, "address", 1).code is Code.SCHEMA_REFERENCED
    _apply(registry, registry.delete_subject("order", permanently=False))
    _apply(registry, registry.delete_subject("address", permanently=False))
    # The referrer can still be read by its id, so what it needs stays.
    assert _refusal(registry, "address", 1, permanently=True).code is Code.SCHEMA_REFERENCED
    _apply(registry, registry.delete_subject("order", permanently=True))
    _apply(registry, registry.delete_subject("address", permanently=True))
    assert registry.content_count == 0


def test_a_subject_without_a_level_follows_the_global_one() -> None:
    registry = SchemaRegistry()
    assert registry.level("a") is Level.BACKWARD
    registry.apply(SchemaLevelStated(subject="", level=Level.FULL))
    registry.apply(SchemaLevelStated(subject="a", level=Level.NONE))
    assert (registry.level("a"), registry.level("b")) == (Level.NONE, Level.FULL)
    registry.apply(SchemaLevelStated(subject="a", level=None))
    assert registry.own_level("a") is None


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["register", "delete", "remove", "level", "state"]),
        st.sampled_from("abc"),
        st.integers(0, 4),
    ),
    max_size=40,
)


def _view(registry: SchemaRegistry) -> object:
    return (
        {
            subject: [
                (version, registry.id_at(SchemaPlace(subject, version)))
                for version in registry.versions(subject, visible)
            ]
            for subject in registry.subjects
            for visible in (Visible.LIVE, Visible.DELETED)
        },
        registry.next_id,
        [registry.level(subject) for subject in "abc"],
    )


@given(_STEPS)
def test_what_is_stated_again_while_things_change_amounts_to_the_same(
    steps: list[tuple[str, str, int]],
) -> None:
    registry = SchemaRegistry()
    journal: list[SchemaChange] = []
    statement = None
    ids: dict[int, int] = {}
    for kind, subject, content in steps:
        changes: Sequence[SchemaChange] = ()
        match kind:
            case "register":
                digest = f"digest-{content}"
                if registry.find(subject, registry.id_of(digest), shows_deleted=False) is None:
                    changes = registry.register(subject, _text(content), digest)
            case "delete" | "remove":
                with suppress(Refused):
                    changes = registry.delete_subject(subject, permanently=kind == "remove")
            case "level":
                changes = [SchemaLevelStated(subject=subject, level=list(Level)[content])]
            case _:
                # A journal is stated again from here on; what was before is dropped.
                if statement is None:
                    statement, journal = registry.changes(), []
        _apply(registry, changes)
        journal += changes
        if statement is not None:
            journal += next(statement, [])
        for place in registry.versions(subject):
            id_ = registry.id_at(SchemaPlace(subject, place))
            assert ids.setdefault(id_, int(registry.content(id_).text[1:-1])) == int(
                registry.content(id_).text[1:-1]
            )
    for rest in statement or ():
        journal += rest
    again = SchemaRegistry()
    _apply(again, journal)
    assert _view(again) == _view(registry)


def test_subjects_are_listed_by_name_whatever_order_they_came_and_went_in() -> None:
    registry = SchemaRegistry()
    for name in ("b", "d", "a", "c"):
        registry.apply(SchemaVersionStated(subject=name, version=1, id=1))
    registry.apply(SchemaVersionStated(subject="a", version=2, id=2))
    registry.apply(SchemaVersionRemoved(subject="d", version=1))
    registry.apply(SchemaVersionRemoved(subject="a", version=1))
    registry.apply(SchemaVersionRemoved(subject="d", version=1))

    assert registry.subjects == ["a", "b", "c"]
