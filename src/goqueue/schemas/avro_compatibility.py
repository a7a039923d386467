"""Whether data written with one Avro schema can be read with another.

Follows the schema resolution of the Avro specification: promotions, aliases of the reader,
defaults, unions, enums with a default, fixed sizes, decimals, recursive types. Reads no data.

Cost: a pair of records is compared once; while it is being compared it counts as compatible, which
ends recursion. Every pair of types is paid from a budget: unions of unions grow as the product of
both sides.
"""

from collections.abc import Iterator

from goqueue.schemas.avro import (
    Array,
    AvroSchema,
    AvroType,
    Enumeration,
    Field,
    Fixed,
    MapOf,
    Named,
    Primitive,
    Record,
    Union,
    type_name,
)
from goqueue.schemas.budget import CheckBudget
from goqueue.schemas.errors import Incompatibility

__all__ = ["avro_incompatibilities"]

_PROMOTIONS = frozenset(
    {
        ("int", "long"),
        ("int", "float"),
        ("int", "double"),
        ("long", "float"),
        ("long", "double"),
        ("float", "double"),
        ("string", "bytes"),
        ("bytes", "string"),
    }
)


def avro_incompatibilities(
    reader: AvroSchema, writer: AvroSchema, budget: CheckBudget
) -> Iterator[Incompatibility]:
    """What keeps the reader from reading data of the writer; nothing if it can read all of it."""
    comparison = _Comparison(reader, writer, budget)
    yield from comparison.compare(reader.root, writer.root, "")


class _Comparison:
    """One reader against one writer."""

    def __init__(self, reader: AvroSchema, writer: AvroSchema, budget: CheckBudget) -> None:
        self._reader = reader
        self._writer = writer
        # By the names of a reader's and a writer's record: whether they match, as far as is known.
        self._records: dict[tuple[str, str], tuple[Incompatibility, ...]] = {}
        self._budget = budget

    def compare(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Incompatibility]:
        self._budget.spend()
        reader, writer = self._reader.resolve(reader), self._writer.resolve(writer)
        match reader, writer:
            case _, Union(branches=branches):
                for branch in branches:
                    yield from self._from_branch(reader, branch, path)
            case Union(branches=branches), _:
                if not any(self._matches(each, writer, path) for each in branches):
                    yield Incompatibility(
                        path=path, reason=f"no type of the union reads {type_name(writer)}"
                    )
            case Primitive(), Primitive():
                yield from _compare_primitives(reader, writer, path)
            case Array(), Array():
                yield from self.compare(reader.items, writer.items, f"{path}/items")
            case MapOf(), MapOf():
                yield from self.compare(reader.values, writer.values, f"{path}/values")
            case Fixed(), Fixed():
                yield from _compare_fixed(reader, writer, path)
            case Enumeration(), Enumeration():
                yield from _compare_enums(reader, writer, path)
            case Record(), Record():
                yield from self._compare_records(reader, writer, path)
            case _:
                yield _mismatch(reader, writer, path)

    def _from_branch(
        self, reader: AvroType, branch: AvroType, path: str
    ) -> Iterator[Incompatibility]:
        """A branch of a writer's union: the data may have any of them."""
        found = tuple(self.compare(reader, branch, path))
        if found:
            name = type_name(self._writer.resolve(branch))
            reason = f"the writer's union has {name}, which cannot be read: {found[0].reason}"
            yield Incompatibility(path=found[0].path, reason=reason)

    def _matches(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        return next(self.compare(reader, writer, path), None) is None

    def _compare_records(
        self, reader: Record, writer: Record, path: str
    ) -> Iterator[Incompatibility]:
        key = (reader.name, writer.name)
        known = self._records.get(key)
        if known is not None:
            yield from known
            return
        self._records[key] = ()
        found = tuple(self._differences(reader, writer, path))
        if found:
            # What was found meanwhile may rest on the belief that this pair matches.
            while self._records.popitem()[0] != key:
                pass
        self._records[key] = found
        yield from found

    def _differences(self, reader: Record, writer: Record, path: str) -> Iterator[Incompatibility]:
        if not _same_name(reader, writer):
            yield _mismatch(reader, writer, path)
            return
        written = {field.name: field for field in writer.fields}
        for index, field in enumerate(reader.fields):
            place = f"{path}/fields/{index}"
            source = _source_of(field, written)
            if source is not None:
                yield from self.compare(field.type, source.type, f"{place}/type")
            elif not field.has_default:
                reason = (
                    f"the reader's field {field.name!r} has no default, and the writer lacks it"
                )
                yield Incompatibility(path=place, reason=reason)


def _source_of(field: Field, written: dict[str, Field]) -> Field | None:
    for name in (field.name, *field.aliases):
        if name in written:
            return written[name]
    return None


def _same_name(reader: Named, writer: Named) -> bool:
    """Names match without their namespaces, or an alias of the reader is the writer's name."""
    return _short(reader.name) == _short(writer.name) or writer.name in reader.aliases


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _compare_primitives(
    reader: Primitive, writer: Primitive, path: str
) -> Iterator[Incompatibility]:
    if reader.name != writer.name and (writer.name, reader.name) not in _PROMOTIONS:
        yield _mismatch(reader, writer, path)
    else:
        yield from _compare_decimals(reader.properties, writer.properties, path)


def _compare_fixed(reader: Fixed, writer: Fixed, path: str) -> Iterator[Incompatibility]:
    if not _same_name(reader, writer):
        yield _mismatch(reader, writer, path)
    elif reader.size != writer.size:
        reason = f"fixed {reader.name} has {reader.size} bytes, the writer's has {writer.size}"
        yield Incompatibility(path=f"{path}/size", reason=reason)
    else:
        yield from _compare_decimals(reader.properties, writer.properties, path)


def _compare_decimals(
    reader: dict[str, object], writer: dict[str, object], path: str
) -> Iterator[Incompatibility]:
    """Two decimals match if precision and scale do; all other logical types read as their base."""
    if reader.get("logicalType") != "decimal" or writer.get("logicalType") != "decimal":
        return
    theirs, ours = _decimal(writer), _decimal(reader)
    if theirs != ours:
        reason = f"decimal({ours[0]}, {ours[1]}) cannot read decimal({theirs[0]}, {theirs[1]})"
        yield Incompatibility(path=path, reason=reason)


def _decimal(properties: dict[str, object]) -> tuple[object, object]:
    return properties.get("precision"), properties.get("scale", 0)


def _compare_enums(
    reader: Enumeration, writer: Enumeration, path: str
) -> Iterator[Incompatibility]:
    if not _same_name(reader, writer):
        yield _mismatch(reader, writer, path)
    elif reader.default is None:
        missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
        if missing:
            reason = f"enum {reader.name} lacks the writer's symbols {', '.join(missing[:10])}"
            yield Incompatibility(path=f"{path}/symbols", reason=reason)


def _mismatch(reader: AvroType, writer: AvroType, path: str) -> Incompatibility:
    reason = f"{type_name(reader)} cannot read {type_name(writer)}"
    return Incompatibility(path=path, reason=reason)
