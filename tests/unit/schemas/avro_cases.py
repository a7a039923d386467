"""Evolutions of Avro schemas, each with who can read whose data, and why not.

`B`: the new schema reads data of the old one (BACKWARD). `F`: the old schema reads data of the new
one (FORWARD). Both: FULL. The reason is a part of the first message of what is not compatible.
"""

from tests.unit.schemas.avro_builders import AvroCase, array, field, mapping, record
from tests.unit.schemas.avro_type_cases import TYPE_CASES

__all__ = ["AVRO_CASES", "AvroCase"]

_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_PROMOTED = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


def _primitives() -> list[AvroCase]:
    """Every change of a primitive type."""
    cases = []
    for old in _PRIMITIVES:
        for new in _PRIMITIVES:
            backward = old == new or (old, new) in _PROMOTED
            forward = old == new or (new, old) in _PROMOTED
            reason = f"{new} cannot read {old}" if not backward else f"{old} cannot read {new}"
            cases.append(
                AvroCase(
                    f"{old} becomes {new}",
                    record(field("x", old)),
                    record(field("x", new)),
                    "B" * backward + "F" * forward,
                    "" if backward and forward else reason,
                )
            )
    return cases


_X = field("x", "int")
_NODE_FIELDS = (field("value", "int"), field("next", ["null", "Node"]))
_LIST = record(*_NODE_FIELDS, name="Node")
_LONG_LIST = record(field("value", "long"), field("next", ["null", "Node"]), name="Node")
_NO_DEFAULT = "has no default, and the writer lacks it"

_RECORDS = [
    AvroCase("nothing changes", record(_X), record(_X), "BF"),
    AvroCase(
        "a field with a default is added", record(_X), record(_X, field("y", default="")), "BF"
    ),
    AvroCase(
        "a field without a default is added", record(_X), record(_X, field("y")), "F", _NO_DEFAULT
    ),
    AvroCase(
        "a field with a default is removed", record(_X, field("y", default="")), record(_X), "BF"
    ),
    AvroCase(
        "a field without a default is removed", record(_X, field("y")), record(_X), "B", _NO_DEFAULT
    ),
    AvroCase(
        "a nullable field without a default is added",
        record(_X),
        record(_X, field("y", ["null", "string"])),
        "F",
        _NO_DEFAULT,
    ),
    AvroCase(
        "a nullable field with the default null is added",
        record(_X),
        record(_X, field("y", ["null", "string"], default=None)),
        "BF",
    ),
    AvroCase(
        "a default is added", record(field("x", "int")), record(field("x", "int", default=1)), "BF"
    ),
    AvroCase(
        "a default is removed",
        record(field("x", "int", default=1)),
        record(field("x", "int")),
        "BF",
    ),
    AvroCase(
        "a default changes",
        record(field("x", "int", default=1)),
        record(field("x", "int", default=2)),
        "BF",
    ),
    AvroCase("fields change places", record(_X, field("y")), record(field("y"), _X), "BF"),
    AvroCase("a field is renamed", record(field("a")), record(field("b")), "", _NO_DEFAULT),
    AvroCase(
        "a field is renamed and both have defaults",
        record(field("a", default="")),
        record(field("b", default="")),
        "BF",
    ),
    AvroCase(
        "a field is renamed with an alias",
        record(field("a")),
        record(field("b", aliases=["a"])),
        "B",
        _NO_DEFAULT,
    ),
    AvroCase(
        "a field is renamed with an alias and a default before",
        record(field("a", default="")),
        record(field("b", aliases=["a"])),
        "BF",
    ),
    AvroCase(
        "an alias names another type",
        record(field("a", "string")),
        record(field("b", "int", aliases=["a"])),
        "",
        "int cannot read string",
    ),
    AvroCase(
        "an alias of several finds the field",
        record(field("a")),
        record(field("b", aliases=["z", "a"])),
        "B",
        _NO_DEFAULT,
    ),
    AvroCase(
        "the name of a field counts before its aliases",
        record(field("a", "string"), field("b", "int")),
        record(field("b", "int", aliases=["c"]), field("a", "string")),
        "BF",
    ),
    AvroCase("doc is added", record(_X), record(_X, doc="An order"), "BF"),
    AvroCase("doc of a field is added", record(_X), record(field("x", "int", doc="It")), "BF"),
    AvroCase(
        "the order of a field changes", record(_X), record(field("x", "int", order="ignore")), "BF"
    ),
    AvroCase("a property is added", record(_X), record(_X, owner="billing"), "BF"),
    AvroCase("all fields are removed", record(field("x", "int", default=0)), record(), "BF"),
    AvroCase("all fields without defaults are removed", record(_X), record(), "B", _NO_DEFAULT),
    AvroCase(
        "the record is renamed",
        record(_X),
        record(_X, name="Purchase"),
        "",
        "record Purchase cannot read record Order",
    ),
    AvroCase(
        "the record is renamed with an alias",
        record(_X),
        record(_X, name="Purchase", aliases=["Order"]),
        "B",
        "record Order cannot read record Purchase",
    ),
    AvroCase("the namespace changes", record(_X, namespace="a"), record(_X, namespace="b"), "BF"),
    AvroCase("a namespace is added", record(_X), record(_X, namespace="shop"), "BF"),
    AvroCase(
        "a full name takes the place of a namespace",
        record(_X, namespace="shop"),
        record(_X, name="shop.Order"),
        "BF",
    ),
    AvroCase(
        "the record is renamed with a full alias",
        record(_X, namespace="a"),
        record(_X, name="Purchase", namespace="b", aliases=["a.Order"]),
        "B",
        "cannot read",
    ),
    AvroCase(
        "an alias of another namespace does not count",
        record(_X, namespace="a"),
        record(_X, name="Purchase", namespace="b", aliases=["Order"]),
        "",
        "cannot read",
    ),
    AvroCase("a record becomes an error", record(_X), {**record(_X), "type": "error"}, "BF"),
    AvroCase(
        "a record becomes a map", record(_X), mapping("int"), "", "map cannot read record Order"
    ),
    AvroCase(
        "a record becomes a string", record(_X), "string", "", "string cannot read record Order"
    ),
    AvroCase("a record becomes an array", record(_X), array("int"), "", "array cannot read record"),
    AvroCase(
        "the type of an inner field changes",
        record(field("in", record(_X, name="In"))),
        record(field("in", record(field("x", "string"), name="In"))),
        "",
        "string cannot read int",
    ),
    AvroCase(
        "an inner field is promoted",
        record(field("in", record(_X, name="In"))),
        record(field("in", record(field("x", "long"), name="In"))),
        "B",
        "int cannot read long",
    ),
    AvroCase(
        "an inner record gets a field with a default",
        record(field("in", record(_X, name="In"))),
        record(field("in", record(_X, field("y", default=""), name="In"))),
        "BF",
    ),
    AvroCase(
        "an inner record gets a field without a default",
        record(field("in", record(_X, name="In"))),
        record(field("in", record(_X, field("y"), name="In"))),
        "F",
        _NO_DEFAULT,
    ),
    AvroCase(
        "an inner record is renamed",
        record(field("in", record(_X, name="In"))),
        record(field("in", record(_X, name="Inner"))),
        "",
        "record Inner cannot read record In",
    ),
    AvroCase(
        "an inner record is renamed with an alias",
        record(field("in", record(_X, name="In"))),
        record(field("in", record(_X, name="Inner", aliases=["In"]))),
        "B",
        "record In cannot read record Inner",
    ),
    AvroCase(
        "a field of record type with a default is added",
        record(_X),
        record(_X, field("in", record(_X, name="In"), default={"x": 1})),
        "BF",
    ),
    AvroCase(
        "a definition moves to its second use",
        record(field("a", record(_X, name="In")), field("b", "In")),
        record(field("b", record(_X, name="In")), field("a", "In")),
        "BF",
    ),
    AvroCase(
        "one of two changes is incompatible",
        record(_X, field("y", "int")),
        record(field("x", "long"), field("y", "boolean")),
        "",
        "boolean cannot read int",
    ),
]

_RECURSION = [
    AvroCase("a recursive record stays", _LIST, _LIST, "BF"),
    AvroCase("a recursive record is promoted", _LIST, _LONG_LIST, "B", "int cannot read long"),
    AvroCase(
        "a recursive record gets a field with a default",
        _LIST,
        record(*_NODE_FIELDS, field("tag", default=""), name="Node"),
        "BF",
    ),
    AvroCase(
        "a recursive record gets a field without a default",
        _LIST,
        record(*_NODE_FIELDS, field("tag"), name="Node"),
        "F",
        _NO_DEFAULT,
    ),
    AvroCase(
        "recursion ends",
        _LIST,
        record(field("value", "int"), field("next", "null"), name="Node"),
        "F",
        "null cannot read record Node",
    ),
    AvroCase(
        "recursion through an array stays",
        record(field("children", array("Order"))),
        record(field("children", array("Order")), field("n", "int", default=0)),
        "BF",
    ),
    AvroCase(
        "recursion through a map gets an incompatible field",
        record(field("children", mapping("Order")), field("n", "int")),
        record(field("children", mapping("Order")), field("n", "string")),
        "",
        "string cannot read int",
    ),
    AvroCase(
        "two records that contain each other",
        record(field("b", ["null", record(field("a", ["null", "Order"]), name="B")])),
        record(
            field(
                "b", ["null", record(field("a", ["null", "Order"]), _X | {"default": 0}, name="B")]
            )
        ),
        "BF",
    ),
]

AVRO_CASES = [*_primitives(), *_RECORDS, *_RECURSION, *TYPE_CASES]
