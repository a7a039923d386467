"""Evolutions of enums, fixed types, collections, unions and logical types: see `avro_cases.py`."""

from tests.unit.schemas.avro_builders import (
    AvroCase,
    array,
    decimal,
    enum,
    field,
    fixed,
    logical,
    mapping,
    record,
)

__all__ = ["TYPE_CASES"]

_X = field("x", "int")
_NO_DEFAULT = "has no default, and the writer lacks it"

_ENUMS = [
    AvroCase("an enum stays", enum("A", "B"), enum("A", "B"), "BF"),
    AvroCase("a symbol is added", enum("A"), enum("A", "B"), "B", "lacks the writer's symbols B"),
    AvroCase("a symbol is removed", enum("A", "B"), enum("A"), "F", "lacks the writer's symbols B"),
    AvroCase(
        "a symbol is added where the old has a default",
        enum("A", default="A"),
        enum("A", "B", default="A"),
        "BF",
    ),
    AvroCase(
        "a symbol is removed where the new has a default",
        enum("A", "B"),
        enum("A", default="A"),
        "BF",
    ),
    AvroCase("symbols change places", enum("A", "B"), enum("B", "A"), "BF"),
    AvroCase("a symbol is renamed", enum("A", "B"), enum("A", "C"), "", "symbols B"),
    AvroCase(
        "a symbol is renamed where the new has a default",
        enum("A", "B"),
        enum("A", "C", default="A"),
        "B",
        "symbols C",
    ),
    AvroCase(
        "the default of an enum changes",
        enum("A", "B", default="A"),
        enum("A", "B", default="B"),
        "BF",
    ),
    AvroCase(
        "the default of an enum is removed", enum("A", "B", default="A"), enum("A", "B"), "BF"
    ),
    AvroCase(
        "an enum is renamed", enum("A"), enum("A", name="State"), "", "cannot read enum Status"
    ),
    AvroCase(
        "an enum is renamed with an alias",
        enum("A"),
        enum("A", name="State", aliases=["Status"]),
        "B",
        "enum Status cannot read enum State",
    ),
    AvroCase("an enum gets a namespace", enum("A"), enum("A", namespace="shop"), "BF"),
    AvroCase("an enum becomes a string", enum("A"), "string", "", "string cannot read enum Status"),
    AvroCase("an enum becomes an int", enum("A"), "int", "", "int cannot read enum Status"),
    AvroCase(
        "an enum in a field with a default of the field",
        record(field("s", enum("A"), default="A")),
        record(field("s", enum("A", "B"), default="A")),
        "B",
        "lacks the writer's symbols B",
    ),
]

_FIXED = [
    AvroCase("a fixed stays", fixed(16), fixed(16), "BF"),
    AvroCase("a fixed grows", fixed(16), fixed(32), "", "has 32 bytes, the writer's has 16"),
    AvroCase("a fixed is renamed", fixed(16), fixed(16, "Digest"), "", "cannot read fixed Hash"),
    AvroCase(
        "a fixed is renamed with an alias",
        fixed(16),
        fixed(16, "Digest", aliases=["Hash"]),
        "B",
        "fixed Hash cannot read fixed Digest",
    ),
    AvroCase("a fixed becomes bytes", fixed(16), "bytes", "", "bytes cannot read fixed Hash"),
    AvroCase("a fixed becomes a string", fixed(16), "string", "", "string cannot read fixed Hash"),
    AvroCase("an empty fixed", fixed(0), fixed(0), "BF"),
    AvroCase("a fixed gets a namespace", fixed(4), fixed(4, namespace="a.b"), "BF"),
]

_COLLECTIONS = [
    AvroCase("an array stays", array("int"), array("int"), "BF"),
    AvroCase("items are promoted", array("int"), array("long"), "B", "int cannot read long"),
    AvroCase("items change", array("int"), array("string"), "", "string cannot read int"),
    AvroCase(
        "items become nullable", array("int"), array(["null", "int"]), "B", "int cannot read null"
    ),
    AvroCase("an array becomes a map", array("int"), mapping("int"), "", "map cannot read array"),
    AvroCase("an array becomes its item", array("int"), "int", "", "int cannot read array"),
    AvroCase(
        "arrays of arrays are promoted",
        array(array("int")),
        array(array("double")),
        "B",
        "int cannot",
    ),
    AvroCase("a map stays", mapping("int"), mapping("int"), "BF"),
    AvroCase(
        "values are promoted", mapping("float"), mapping("double"), "B", "float cannot read double"
    ),
    AvroCase("values change", mapping("int"), mapping("boolean"), "", "boolean cannot read int"),
    AvroCase("strings become bytes in a map", mapping("string"), mapping("bytes"), "BF"),
    AvroCase(
        "records in an array get a field with a default",
        array(record(_X)),
        array(record(_X, field("y", default=""))),
        "BF",
    ),
    AvroCase(
        "records in an array get a field without a default",
        array(record(_X)),
        array(record(_X, field("y"))),
        "F",
        _NO_DEFAULT,
    ),
    AvroCase("a property of an array changes", array("int"), array("int", unit="ms"), "BF"),
]

_UNIONS = [
    AvroCase("a union stays", ["null", "int"], ["null", "int"], "BF"),
    AvroCase("branches change places", ["null", "int"], ["int", "null"], "BF"),
    AvroCase(
        "a branch is added",
        ["null", "int"],
        ["null", "int", "string"],
        "B",
        "the writer's union has string",
    ),
    AvroCase("a branch is removed", ["null", "int"], ["int"], "F", "the writer's union has null"),
    AvroCase(
        "a type becomes a union with it", "int", ["null", "int"], "B", "the writer's union has null"
    ),
    AvroCase(
        "a type becomes a union without it",
        "int",
        ["null", "string"],
        "",
        "no type of the union reads int",
    ),
    AvroCase(
        "a type becomes a union that reads it",
        "int",
        ["null", "long"],
        "B",
        "the writer's union has null",
    ),
    AvroCase("a union of one becomes its type", ["int"], "int", "BF"),
    AvroCase("a union of one is promoted", ["int"], "long", "B", "no type of the union reads long"),
    AvroCase(
        "a branch is promoted",
        ["null", "int"],
        ["null", "long"],
        "B",
        "the writer's union has long",
    ),
    AvroCase("a branch goes where another reads it", ["int", "long"], ["long"], "BF"),
    AvroCase("strings where bytes are read", ["null", "string"], ["null", "bytes"], "BF"),
    AvroCase(
        "both branches change",
        ["int", "string"],
        ["long", "bytes"],
        "B",
        "the writer's union has long",
    ),
    AvroCase(
        "nothing is shared", ["null", "int"], ["boolean", "string"], "", "the writer's union has"
    ),
    AvroCase(
        "a record in a union gets a field with a default",
        ["null", record(_X)],
        ["null", record(_X, field("y", default=""))],
        "BF",
    ),
    AvroCase(
        "a record in a union gets a field without a default",
        ["null", record(_X)],
        ["null", record(_X, field("y"))],
        "F",
        "the writer's union has record Order",
    ),
    AvroCase(
        "a record is added to a union of records",
        [record(_X, name="A")],
        [record(_X, name="A"), record(_X, name="B")],
        "B",
        "the writer's union has record B",
    ),
    AvroCase(
        "a record of a union is renamed with an alias",
        ["null", record(_X, name="A")],
        ["null", record(_X, name="B", aliases=["A"])],
        "B",
        "the writer's union has record B",
    ),
    AvroCase(
        "an enum in a union gets a symbol",
        ["null", enum("A")],
        ["null", enum("A", "B")],
        "B",
        "enum Status",
    ),
    AvroCase(
        "an array in a union is promoted",
        ["null", array("int")],
        ["null", array("long")],
        "B",
        "array",
    ),
    AvroCase(
        "a field becomes nullable",
        record(field("x", "int")),
        record(field("x", ["null", "int"])),
        "B",
        "the writer's union has null",
    ),
    AvroCase(
        "a field becomes required",
        record(field("x", ["null", "int"])),
        record(field("x", "int")),
        "F",
        "the writer's union has null",
    ),
    AvroCase(
        "a nullable field is promoted",
        record(field("x", ["null", "int"])),
        record(field("x", ["null", "double"])),
        "B",
        "the writer's union has double",
    ),
    AvroCase(
        "a map in a union changes", ["null", mapping("int")], ["null", mapping("string")], "", "map"
    ),
]

_LOGICAL = [
    AvroCase("a decimal stays", decimal(9, 2), decimal(9, 2), "BF"),
    AvroCase(
        "the precision of a decimal changes",
        decimal(9, 2),
        decimal(10, 2),
        "",
        "decimal(10, 2) cannot read",
    ),
    AvroCase(
        "the scale of a decimal changes",
        decimal(9, 2),
        decimal(9, 3),
        "",
        "decimal(9, 3) cannot read",
    ),
    AvroCase("a scale of 0 is said", decimal(9), decimal(9, 0), "BF"),
    AvroCase("a decimal becomes bytes", decimal(9, 2), "bytes", "BF"),
    AvroCase("a decimal becomes a string", decimal(9, 2), "string", "BF"),
    AvroCase("a decimal becomes a double", decimal(9, 2), "double", "", "double cannot read bytes"),
    AvroCase(
        "the scale of a fixed decimal changes",
        fixed(8, logicalType="decimal", precision=9, scale=2),
        fixed(8, logicalType="decimal", precision=9, scale=4),
        "",
        "decimal(9, 4) cannot read",
    ),
    AvroCase("a date becomes an int", logical("int", "date"), "int", "BF"),
    AvroCase("a date becomes a time", logical("int", "date"), logical("int", "time-millis"), "BF"),
    AvroCase(
        "milliseconds become microseconds",
        logical("long", "timestamp-millis"),
        logical("long", "timestamp-micros"),
        "BF",
    ),
    AvroCase(
        "a date becomes a timestamp",
        logical("int", "date"),
        logical("long", "timestamp-millis"),
        "B",
        "int",
    ),
    AvroCase("a string becomes a uuid", "string", logical("string", "uuid"), "BF"),
    AvroCase(
        "a uuid becomes an int", logical("string", "uuid"), "int", "", "int cannot read string"
    ),
    AvroCase("an unknown logical type is added", "long", logical("long", "weight"), "BF"),
    AvroCase(
        "a duration stays",
        fixed(12, logicalType="duration"),
        fixed(12, logicalType="duration"),
        "BF",
    ),
]

TYPE_CASES = [*_ENUMS, *_FIXED, *_COLLECTIONS, *_UNIONS, *_LOGICAL]
