"""Evolutions of Protobuf schemas, with the answer that follows from the encoding of Protobuf.

`readable` has B if the new schema reads data of the old one, F if the old one reads data of the new
one; `reason` is part of what is said about the first that fails. The seven levels follow from the
two directions: BACKWARD needs B, FORWARD needs F, FULL both, and NONE nothing.
"""

from collections.abc import Iterator

import msgspec

__all__ = ["PROTO_CASES", "SCALAR_NAMES", "ProtoCase"]


class ProtoCase(msgspec.Struct, frozen=True):
    """One evolution: what was, what comes, who reads whom, and why not."""

    name: str
    old: str
    new: str
    readable: str
    reason: str = ""


SCALAR_NAMES = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)
# Types that are the same on the wire, by the documentation of Protobuf.
_ALIKE = (
    {"int32", "int64", "uint32", "uint64", "bool"},
    {"sint32", "sint64"},
    {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"},
)
_3 = 'syntax = "proto3"; '
_2 = 'syntax = "proto2"; '


def _message(body: str) -> str:
    return f"{_3}message M {{ {body} }}"


def _old(body: str) -> str:
    return f"{_2}message M {{ {body} }}"


def _scalars() -> Iterator[ProtoCase]:
    for old in SCALAR_NAMES:
        for new in SCALAR_NAMES:
            readable = ""
            if old == new or any({old, new} <= alike for alike in _ALIKE):
                readable = "BF"
            elif (old, new) == ("string", "bytes"):
                readable = "B"
            elif (old, new) == ("bytes", "string"):
                readable = "F"
            yield ProtoCase(
                f"{old} becomes {new}",
                _message(f"{old} a = 1;"),
                _message(f"{new} a = 1;"),
                readable,
                "" if readable == "BF" else "was written as",
            )


def _labels() -> Iterator[ProtoCase]:
    for name in SCALAR_NAMES:
        is_text = name in ("string", "bytes")
        yield ProtoCase(
            f"one {name} becomes several",
            _message(f"{name} a = 1;"),
            _message(f"repeated {name} a = 1;"),
            "BF" if is_text else "B",
            "" if is_text else "was written as several",
        )


_INNER = "message I { int32 x = 1; } message J { string x = 1; } message K { int64 y = 1; }"
_ENUM = "enum E { A = 0; B = 1; } enum F { C = 0; }"
_GONE = "is gone"
_REQUIRED = "is required"
_IN_ONE = "only one is kept"
_AS = "was written as"
_ROWS = (
    ("a field is added", "int32 a = 1;", "int32 a = 1; string b = 2;", "BF", ""),
    ("a field is removed", "int32 a = 1; string b = 2;", "int32 a = 1;", "BF", ""),
    ("a field gets another name", "int32 a = 1;", "int32 b = 1;", "BF", ""),
    ("a field gets another number", "int32 a = 1;", "int32 a = 2;", "BF", ""),
    ("a number is used again", "int32 a = 1;", "string b = 1;", "", _AS),
    ("a number is reserved", "int32 a = 1; int32 b = 2;", "reserved 2; int32 a = 1;", "BF", ""),
    ("the order changes", "int32 a = 1; int32 b = 2;", "int32 b = 2; int32 a = 1;", "BF", ""),
    ("a field becomes explicit", "int32 a = 1;", "optional int32 a = 1;", "BF", ""),
    ("a message becomes bytes", f"{_INNER} I a = 1;", f"{_INNER} bytes a = 1;", "B", _AS),
    ("a message becomes text", f"{_INNER} I a = 1;", f"{_INNER} string a = 1;", "", _AS),
    ("a message becomes a number", f"{_INNER} I a = 1;", f"{_INNER} int32 a = 1;", "", _AS),
    ("a message of other fields", f"{_INNER} I a = 1;", f"{_INNER} J a = 1;", "", _AS),
    ("a message of like fields", f"{_INNER} I a = 1;", f"{_INNER} K a = 1;", "BF", ""),
    ("one message becomes several", f"{_INNER} I a = 1;", f"{_INNER} repeated I a = 1;", "BF", ""),
    ("an enum becomes a number", f"{_ENUM} E a = 1;", f"{_ENUM} int32 a = 1;", "BF", ""),
    ("an enum becomes another", f"{_ENUM} E a = 1;", f"{_ENUM} F a = 1;", "BF", ""),
    ("an enum becomes text", f"{_ENUM} E a = 1;", f"{_ENUM} string a = 1;", "", _AS),
    ("an enum becomes zigzag", f"{_ENUM} E a = 1;", f"{_ENUM} sint32 a = 1;", "", _AS),
    ("several enums become one", f"{_ENUM} repeated E a = 1;", f"{_ENUM} E a = 1;", "F", "several"),
    ("an enum gets a value", "enum E { A = 0; } E a = 1;", f"{_ENUM} E a = 1;", "BF", ""),
    ("a field moves into a new oneof", "int32 a = 1;", "oneof o { int32 a = 1; }", "BF", ""),
    (
        "two fields move into a oneof",
        "int32 a = 1; int32 b = 2;",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "F",
        _IN_ONE,
    ),
    (
        "a field moves into an old oneof",
        "int32 a = 1; oneof o { int32 b = 2; }",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "F",
        _IN_ONE,
    ),
    (
        "two oneofs become one",
        "oneof o { int32 a = 1; } oneof p { int32 b = 2; }",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "F",
        _IN_ONE,
    ),
    (
        "a oneof gets a field",
        "oneof o { int32 a = 1; }",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "B",
        _GONE,
    ),
    (
        "a oneof goes as a whole",
        "int32 c = 3; oneof o { int32 a = 1; int32 b = 2; }",
        "int32 c = 3;",
        "BF",
        "",
    ),
    ("a oneof gets another name", "oneof o { int32 a = 1; }", "oneof p { int32 a = 1; }", "BF", ""),
    ("a map gets wider values", "map<string, int32> a = 1;", "map<string, int64> a = 1;", "BF", ""),
    ("a map gets other values", "map<string, int32> a = 1;", "map<string, string> a = 1;", "", _AS),
    ("a map gets other keys", "map<string, int32> a = 1;", "map<int32, int32> a = 1;", "", _AS),
    ("a map becomes a number", "map<string, int32> a = 1;", "int32 a = 1;", "", _AS),
    (
        "a map becomes its entries",
        "message N { string k = 1; int32 v = 2; } map<string, int32> a = 1;",
        "message N { string k = 1; int32 v = 2; } repeated N a = 1;",
        "BF",
        "",
    ),
    (
        "deep inside a field changes",
        "message I { message D { int32 x = 1; } D d = 1; } I a = 1;",
        "message I { message D { string x = 1; } D d = 1; } I a = 1;",
        "",
        "/M/a/d/x",
    ),
    ("a nested message that no field uses goes", "message N {}", "", "F", _GONE),
    (
        "a recursive message gets a field",
        "M next = 1; int32 a = 2;",
        "M next = 1; int32 a = 2; int32 b = 3;",
        "BF",
        "",
    ),
    (
        "a recursive message changes a type",
        "M next = 1; int32 a = 2;",
        "M next = 1; string a = 2;",
        "",
        _AS,
    ),
)
_OLD_ROWS = (
    (
        "a closed enum loses a value",
        "enum E { A = 0; B = 1; } optional E a = 1;",
        "enum E { A = 0; } optional E a = 1;",
        "F",
        "no value for B = 1",
    ),
    (
        "a number becomes a closed enum",
        "optional int32 a = 1;",
        "enum E { A = 0; } optional E a = 1;",
        "F",
        "was written as int32",
    ),
    ("a required field is added", "", "required int32 a = 1;", "F", _REQUIRED),
    ("a required field is removed", "required int32 a = 1;", "", "B", _REQUIRED),
    ("required becomes optional", "required int32 a = 1;", "optional int32 a = 1;", "B", _REQUIRED),
    ("an optional field is added", "", "optional int32 a = 1;", "BF", ""),
    ("a default changes", "optional int32 a = 1 [default = 1];", "optional int32 a = 1;", "BF", ""),
    (
        "an option is packed",
        "repeated int32 a = 1;",
        "repeated int32 a = 1 [packed=true];",
        "BF",
        "",
    ),
    (
        "a group gets a field",
        "optional group G = 1 { }",
        "optional group G = 1 { optional int32 a = 1; }",
        "BF",
        "",
    ),
    (
        "a group becomes a message",
        "optional group G = 1 { }",
        "message G { } optional G g = 1;",
        "",
        _AS,
    ),
    ("extensions open", "", "extensions 100 to max;", "BF", ""),
)


def _extended(type_: str) -> str:
    return _old("extensions 100 to max;") + f" extend M {{ optional {type_} e = 100; }}"


_KNOWN = "google/protobuf"
_TIME = f'{_3}import "{_KNOWN}/timestamp.proto"; message M {{ google.protobuf.Timestamp a = 1; }}'
_WORD = f'{_3}import "{_KNOWN}/wrappers.proto"; message M {{ google.protobuf.StringValue a = 1; }}'
_ONE, _TWO = f"{_3}message M {{}}", f"{_3}message N {{}}"
_FILES = (
    ("a message is added", _ONE, f"{_ONE} message N {{}}", "B", _GONE),
    ("messages change places", f"{_ONE} message N {{}}", f"{_TWO} message M {{}}", "BF", ""),
    ("a message gets another name", _ONE, _TWO, "", _GONE),
    ("the package changes", _ONE, f"{_3}package b.c; message M {{}}", "BF"),
    ("the syntax changes", _old("optional int32 a = 1;"), _message("int32 a = 1;"), "BF"),
    ("text is checked", _old("optional string a = 1;"), _message("string a = 1;"), "F", "UTF-8"),
    ("an extension gets another type", _extended("int32"), _extended("string"), "", _AS),
    ("an extension is added", _old("extensions 100 to max;"), _extended("int32"), "BF"),
    ("a service is added", _ONE, f"{_ONE} service S {{ rpc A (M) returns (M) {{}} }}", "BF"),
    ("an import changes the type", _TIME, _WORD, "", _AS),
)

PROTO_CASES = (
    *_scalars(),
    *_labels(),
    *(ProtoCase(name, _message(old), _message(new), *rest) for name, old, new, *rest in _ROWS),
    *(ProtoCase(name, _old(old), _old(new), *rest) for name, old, new, *rest in _OLD_ROWS),
    *(ProtoCase(*row) for row in _FILES),
)
