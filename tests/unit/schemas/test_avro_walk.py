"""The machine that goes past Avro values: as fastavro reads them, and the same compiled or not."""

import importlib.machinery
import importlib.util
import io
import json
from array import array
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.schemas import avro_validator, avro_walk, parse_avro
from goqueue.schemas.avro_validator import AvroValidator

_LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(1 << 31), (1 << 31) - 1)),
    ("long", st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-70, 70)),
    ("float", st.just(0.5)),
    ("double", st.just(1.5)),
    ("bytes", st.binary(max_size=9)),
    ("string", st.text(max_size=9) | st.just("x" * 70)),
]
_Typed = tuple[Any, st.SearchStrategy[Any]]


@st.composite
def _typed(draw: st.DrawFn, depth: int = 2, name: str = "N") -> _Typed:
    """A schema, and a strategy of its values."""
    kind = draw(st.integers(0, 6 if depth else 2))
    match kind:
        case 0 | 1:
            leaf: _Typed = draw(st.sampled_from(_LEAVES))
            return leaf
        case 2:
            size = draw(st.integers(0, 9))
            if draw(st.booleans()):
                symbols = [f"S{each}" for each in range(size + 1)]
                schema = {"type": "enum", "name": name, "symbols": symbols}
                return schema, st.sampled_from(symbols)
            fixed = {"type": "fixed", "name": name, "size": size}
            return fixed, st.binary(min_size=size, max_size=size)
        case 3:
            schema, values = draw(_typed(depth=depth - 1, name=f"{name}i"))
            return {"type": "array", "items": schema}, st.lists(values, max_size=3)
        case 4:
            schema, values = draw(_typed(depth=depth - 1, name=f"{name}v"))
            texts = st.dictionaries(st.text(max_size=3), values, max_size=3)
            return {"type": "map", "values": schema}, texts
        case 5:
            schema, values = draw(
                _typed(depth=depth - 1, name=f"{name}u").filter(lambda each: _may_join(each[0]))
            )
            return ["null", schema], st.none() | values
        case _:
            parts = [
                draw(_typed(depth=depth - 1, name=f"{name}{at}"))
                for at in range(draw(st.integers(0, 3)))
            ]
            fields = [{"name": f"f{at}", "type": each} for at, (each, _) in enumerate(parts)]
            if draw(st.booleans()):
                # A type that holds itself.
                fields.append({"name": "self", "type": ["null", name]})
            record = {"type": "record", "name": name, "fields": fields}
            strategies = {f"f{at}": values for at, (_, values) in enumerate(parts)}
            return record, _records(strategies, has_self=len(fields) > len(parts))


def _may_join(schema: object) -> bool:
    return schema != "null" and not isinstance(schema, list)


def _records(
    fields: dict[str, st.SearchStrategy[Any]], *, has_self: bool
) -> st.SearchStrategy[Any]:
    if not has_self:
        return st.fixed_dictionaries(fields)
    last = st.fixed_dictionaries({**fields, "self": st.none()})
    return st.fixed_dictionaries({**fields, "self": st.none() | last})


def _interpreted() -> Any:  # noqa: ANN401 - a module that was loaded by its path
    """The source of the machine, run as it stands."""
    source = Path(avro_validator.__file__).with_name("avro_walk.py")
    loader = importlib.machinery.SourceFileLoader("interpreted_avro_walk", str(source))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


_TWIN = _interpreted()


def _verdict(walk: Any, data: bytes) -> tuple[object, ...]:  # noqa: ANN401 - either twin
    found = walk.walk(data)
    if found == 0:
        return (0,)
    return found, walk.reason, walk.place, walk.rest, walk.found, walk.frames()


@settings(max_examples=60)
@given(st.data())
def test_any_value_of_any_schema_is_judged_as_fastavro_reads_it(data: st.DataObject) -> None:
    schema, values = data.draw(_typed())
    parsed = fastavro.parse_schema(schema)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, data.draw(values))
    written = out.getvalue()
    validator = AvroValidator(parse_avro(json.dumps(schema)))
    assert validator.explain(written) is None
    assert validator.explain(written + b"\0") is not None
    if not written:
        return
    assert validator.explain(written[:-1]) is not None
    changed = bytearray(written)
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    rest = io.BytesIO(bytes(changed))
    if validator.explain(bytes(changed)) is None:
        fastavro.schemaless_reader(rest, parsed, None)
        assert not rest.read()


@settings(max_examples=60)
@given(st.data())
def test_the_machine_does_the_same_interpreted(data: st.DataObject) -> None:
    schema, values = data.draw(_typed())
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), data.draw(values))
    changed = bytearray(out.getvalue() or b"\0")
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    assembly = avro_validator._Assembly(parse_avro(json.dumps(schema)))  # noqa: SLF001 - the program that both run
    twins = [each.AvroWalk(assembly.program, 8) for each in (avro_walk, _TWIN)]
    for tried in (out.getvalue(), bytes(changed), data.draw(st.binary(max_size=30))):
        compiled, interpreted = (_verdict(each, tried) for each in twins)
        assert compiled == interpreted


def _find_refused(validator: AvroValidator, values: list[bytes]) -> list[int]:
    starts, ends, batch = array("q"), array("q"), bytearray(b"before")
    for value in values:
        starts.append(len(batch))
        batch += value
        ends.append(len(batch))
    return list(validator.find_refused(batch + b"behind", starts, ends))


def test_of_many_values_only_those_that_are_none_are_found() -> None:
    validator = AvroValidator(parse_avro('"string"'))
    assert _find_refused(validator, [b"\x02a", b"\x04a", b"", b"\x02\xff", b"\x02b"]) == [1, 2, 3]


def test_values_outside_of_their_batch_are_a_bug() -> None:
    validator = AvroValidator(parse_avro('"string"'))
    with pytest.raises(AssertionError):
        validator.find_refused(bytearray(b"\x02a"), array("q", [0]), array("q", [3]))


def test_items_of_many_parts_without_bytes_end_with_a_reason() -> None:
    empty = {"type": "record", "name": "Empty", "fields": []}
    fields = [{"name": "f0", "type": empty}]
    fields += [{"name": f"f{at}", "type": "Empty"} for at in range(1, 2000)]
    many = {"type": "array", "items": {"type": "record", "name": "Many", "fields": fields}}
    validator = AvroValidator(parse_avro(json.dumps(many)))
    # A hundred thousand items in four bytes.
    found = validator.explain(b"\xc0\x9a\x0c\x00")
    assert found is not None
    assert found[1] == "has too many parts"


def test_a_value_that_opens_many_arrays_in_each_of_its_levels_is_too_deep_and_no_crash() -> None:
    inner: object = ["null", "Deep"]
    for _ in range(20):
        inner = {"type": "array", "items": inner}
    deep = {"type": "record", "name": "Deep", "fields": [{"name": "f", "type": inner}]}
    validator = AvroValidator(parse_avro(json.dumps(deep)))
    found = validator.explain((b"\x02" * 20 + b"\x02") * 60)
    assert found is not None
    assert found[1] == "is nested too deep"


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (b"\x02\x02\xff", "/map/0"),
        (b"\x02\x02a\x00\x02\x02b\x07", "/map/1/next"),
        (b"\x02\x02a\x02\x09", "/map/0/next/next"),
        (b"\x03\x01", "/map"),
    ],
)
def test_the_place_of_a_fault_leads_through_maps_and_types_that_hold_themselves(
    payload: bytes, path: str
) -> None:
    item = {
        "type": "record",
        "name": "Item",
        "fields": [{"name": "next", "type": ["null", "Item"]}],
    }
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "map", "type": {"type": "map", "values": item}}],
    }
    found = AvroValidator(parse_avro(json.dumps(schema))).explain(payload)
    assert found is not None
    assert found[0] == path
