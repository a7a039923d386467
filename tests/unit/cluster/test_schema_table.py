"""Schemas of an image: what changes add up to, and how that is stated again."""

import msgspec
import pytest

from goqueue.cluster import MetadataChange, MetadataImage, SchemasStated, SchemaTable
from goqueue.model import Level, SchemaType
from goqueue.schemas import (
    SchemaChange,
    SchemaLevelStated,
    SchemaRegistry,
    SchemaRemoved,
    SchemasNumbered,
    SchemaStated,
    SchemaVersionRemoved,
    SchemaVersionStated,
)


def content(number: int, text: str = "") -> SchemaStated:
    return SchemaStated(
        id=number, language=SchemaType.JSON, text=text or f'"{number}"', digest=f"digest-{number}"
    )


def version(number: int, subject: str = "orders") -> SchemaVersionStated:
    return SchemaVersionStated(subject=subject, version=number, id=number)


def filled(count: int) -> SchemaTable:
    table = SchemaTable()
    for number in range(1, count + 1):
        table.apply(content(number))
        table.apply(version(number))
    table.apply(SchemaLevelStated(subject="orders", level=Level.FULL))
    return table


def test_the_same_entries_have_the_same_sum_in_whatever_order_they_came() -> None:
    one, other = SchemaTable(), SchemaTable()
    for number in range(1, 5):
        one.apply(content(number))
        other.apply(content(5 - number))
    other.apply(version(1))
    assert one.sum != other.sum
    other.apply(SchemaVersionRemoved(subject="orders", version=1))
    assert one.sum == other.sum != 0


def test_an_id_that_was_used_is_stated_when_nothing_else_mentions_it() -> None:
    table = SchemaTable()
    for change in (content(1), version(1), SchemaVersionRemoved(subject="orders", version=1)):
        table.apply(change)
    table.apply(SchemaRemoved(id=1))
    assert list(table.entries()) == [SchemasNumbered(ids_upto=2)]
    (piece,) = table.state_pieces()
    assert piece.entries == (SchemasNumbered(ids_upto=2),)


def test_a_content_that_is_stated_again_stays_what_it_was() -> None:
    table = filled(1)
    before = table.sum
    table.apply(content(1, '"another"'))
    assert table.sum == before


@pytest.mark.parametrize(
    "change",
    [
        SchemaRemoved(id=9),
        SchemaVersionRemoved(subject="orders", version=9),
        SchemaLevelStated(subject="others", level=None),
    ],
)
def test_a_change_of_what_is_gone_changes_nothing(change: SchemaChange) -> None:
    table = filled(1)
    before = table.sum
    table.apply(change)
    assert table.sum == before


def test_a_table_is_stated_in_bounded_pieces_and_read_again_from_them() -> None:
    table, read = filled(200), SchemaTable()
    pieces = list(table.state_pieces())
    assert [each.is_last for each in pieces] == [False] * (len(pieces) - 1) + [True]
    assert max(len(each.entries) for each in pieces) <= 128

    read.begin_statement()
    for piece in pieces:
        assert not read.is_whole
        read.take_piece(piece)
    assert read.is_whole
    assert (read.sum, len(read)) == (table.sum, len(table))


def test_large_texts_are_stated_in_more_pieces() -> None:
    table = SchemaTable()
    for number in range(1, 6):
        table.apply(content(number, f'"{number}' + "x" * 200_000 + '"'))
    sizes = [len(msgspec.json.encode(piece)) for piece in table.state_pieces()]
    assert len(sizes) == 3
    assert max(sizes) < 600_000


def test_what_changes_between_two_pieces_is_read_once_and_right() -> None:
    table, read = filled(200), SchemaTable()
    read.begin_statement()
    changes = iter(
        (
            SchemaVersionRemoved(subject="orders", version=199),
            SchemaRemoved(id=199),
            SchemaVersionStated(subject="orders", version=3, id=3, is_deleted=True),
            content(500),
            version(500),
        )
    )
    for piece in table.state_pieces():
        read.take_piece(piece)
        change = next(changes, None)
        if change is not None:
            table.apply(change)
            read.apply(change)
    assert read.is_whole
    assert read.sum == table.sum


def test_a_statement_that_lost_a_version_is_found_out() -> None:
    read = SchemaTable()
    read.begin_statement()
    *pieces, last = filled(100).state_pieces()
    for piece in pieces:
        read.take_piece(piece)
    with pytest.raises(AssertionError):
        read.take_piece(SchemasStated(entries=last.entries[:-1], is_last=True, sum=last.sum))


def test_an_image_is_whole_with_the_last_piece_of_both_tables() -> None:
    image = MetadataImage()
    changes: list[MetadataChange] = []
    for number in range(1, 301):
        changes += [content(number), version(number)]
    image.apply(changes, 1)
    stated = image.stated()
    assert stated.schema_sum == image.schemas.sum

    read = MetadataImage()
    records: list[list[MetadataChange]] = [[stated]]
    records.extend([piece] for piece in image.state_pieces())
    for number, record in enumerate(records, start=2):
        assert not read.is_whole or number == 2
        read.apply(record, number)
    assert read.is_whole
    assert read.stated().schema_sum == stated.schema_sum


def test_an_image_without_schemas_says_nothing_of_them() -> None:
    image = MetadataImage()
    assert b"schema" not in msgspec.json.encode(image.stated())
    assert not list(image.state_pieces())


def test_a_registry_becomes_what_a_table_says_and_nothing_else() -> None:
    registry, table = SchemaRegistry(), filled(3)
    for change in (content(9), version(9, "old"), SchemaLevelStated(subject="", level=Level.NONE)):
        registry.apply(change)
    before = registry.revision
    registry.adopt(table.entries())

    assert registry.revision > before
    assert registry.subjects == ["orders"]
    assert registry.versions("orders") == (1, 2, 3)
    assert registry.get(9) is None
    assert registry.own_level("orders") is Level.FULL
    assert registry.level("other") is Level.BACKWARD
    assert (registry.next_id, registry.entry_count) == (4, 7)
