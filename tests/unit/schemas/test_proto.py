"""Protobuf schemas: what parses, which evolutions are compatible, which values conform.

Protobuf's own runtime writes and reads the values that the answers are compared with.
"""

import importlib

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Level, NamedSource, SchemaJob, SchemaSource, SchemaType, Written
from goqueue.schemas import (
    DEPTH_MAX,
    CheckBudget,
    SchemaChecker,
    SchemaInvalid,
    create_validator,
    parse_proto,
    proto_incompatibilities,
)
from tests.unit.schemas.proto_cases import PROTO_CASES, SCALAR_NAMES, ProtoCase

_HEAD = 'syntax = "proto3"; '
_OLD = 'syntax = "proto2"; '
_VALUES: dict[str, object] = {
    "string": "tä",
    "bytes": b"\xff",
    "bool": True,
    "double": 1.5,
    "float": 1.5,
}


def test_the_table_has_enough_cases_with_different_names() -> None:
    assert len({case.name for case in PROTO_CASES}) == len(PROTO_CASES) >= 150


def _source(text: str, *references: NamedSource) -> SchemaSource:
    return SchemaSource(type=SchemaType.PROTOBUF, text=text, references=references)


def _answer(case: ProtoCase, level: Level) -> tuple[str, ...]:
    old = Written(version=1, id=1, source=_source(case.old))
    job = SchemaJob(
        source=_source(case.new),
        against=() if level is Level.NONE else (old,),
        is_backward=level.is_backward,
        is_forward=level.is_forward,
    )
    checked = SchemaChecker().check(1, job)
    assert checked.canonical is not None, (case.name, checked.reason)
    return checked.messages


def test_each_evolution_has_its_answer_at_every_level() -> None:
    for case in PROTO_CASES:
        for level in Level:
            needed = "B" * level.is_backward + "F" * level.is_forward
            messages = _answer(case, level)
            is_allowed = all(direction in case.readable for direction in needed)
            assert (not messages) == is_allowed, (case.name, level, messages)
            assert not messages or case.reason in messages[0], (case.name, level, messages)
        assert bool(case.reason) == (case.readable != "BF"), case.name


def _class_of(type_: str, *, is_repeated: bool) -> type[Message]:
    """A message with one field, made by Protobuf's own runtime."""
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", syntax="proto3")
    field = file.message_type.add(name="M").field.add(name="a", number=1)
    field.type = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{type_.upper()}")
    label = "LABEL_REPEATED" if is_repeated else "LABEL_OPTIONAL"
    field.label = descriptor_pb2.FieldDescriptorProto.Label.Value(label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))
    return made


_KINDS = [(type_, is_repeated) for type_ in SCALAR_NAMES for is_repeated in (False, True)]


def _text(type_: str, *, is_repeated: bool) -> str:
    return f"{_HEAD}message M {{ {'repeated ' * is_repeated}{type_} a = 1; }}"


def _written(type_: str, *, is_repeated: bool) -> bytes:
    value = _VALUES.get(type_, 7)
    made = _class_of(type_, is_repeated=is_repeated)(a=[value, value] if is_repeated else value)
    return bytes(made.SerializeToString())


def test_data_of_a_compatible_writer_is_read_by_the_runtime_of_protobuf() -> None:
    parsed = {kind: parse_proto(_text(kind[0], is_repeated=kind[1]), ()) for kind in _KINDS}
    classes = {kind: _class_of(kind[0], is_repeated=kind[1]) for kind in _KINDS}
    for old in _KINDS:
        data = _written(old[0], is_repeated=old[1])
        for new in _KINDS:
            found = list(proto_incompatibilities(parsed[new], parsed[old], CheckBudget()))
            if found:
                continue
            message = classes[new].FromString(data)
            # A field that the reader took for an unknown one is not set.
            assert message.ListFields(), (old, new)


def test_what_the_runtime_of_protobuf_writes_conforms_and_other_types_do_not() -> None:
    for type_, is_repeated in _KINDS:
        validator = create_validator(_source(_text(type_, is_repeated=is_repeated)))
        data = _written(type_, is_repeated=is_repeated)
        assert validator.explain(b"\0" + data) is None, type_
        assert validator.explain(b"\2\0" + data) is None, type_
        wrong = (
            b"\x0d" + b"\0" * 4 if "32" not in type_ and type_ != "float" else b"\x09" + b"\0" * 8
        )
        assert validator.explain(b"\0" + wrong) is not None, type_
        assert validator.explain(b"\0" + data[:-1]) is not None, type_


_NESTED = f"""{_HEAD}
import "google/protobuf/timestamp.proto";
message Order {{ int32 id = 1; Item item = 2; google.protobuf.Timestamp at = 3;
  message Item {{ string name = 1; repeated Item parts = 2; }}
  map<string, Item> by_name = 4; }}
"""


@pytest.mark.parametrize(
    ("payload", "path", "reason"),
    [
        (b"", "", "ends too early"),
        (b"\1", "", "not valid"),
        (b"\2\4", "", "no message at [2]"),
        (b"\0\x08", "", "ends too early"),
        (b"\0\x00\x01", "", "number 0"),
        (b"\0\x12\x03\x0a\x01\xff", "/item/name", "not UTF-8"),
        (b"\0\x12\x03\x0a\x05\xff" + b"\x08\x01" * 3, "/item", "longer than its message"),
        (b"\0\x0c", "", "wire type 4"),
        (b"\0\x1a\x02\x0a\x00", "/at/seconds", "wire type 2"),
        (b"\0" + b"\x08" + b"\xff" * 11, "", "more than 10 bytes"),
    ],
)
def test_values_that_do_not_conform_are_explained(payload: bytes, path: str, reason: str) -> None:
    found = create_validator(_source(_NESTED)).explain(payload)

    assert found is not None
    assert found[0] == path
    assert reason in found[1]


def test_a_nested_message_is_named_by_its_indexes() -> None:
    validator = create_validator(_source(_NESTED))

    # Map entries do not count: the first nested message is Item.
    assert validator.explain(b"\4\0\0\x0a\x01a") is None
    assert validator.explain(b"\4\0\2") is not None


def test_values_are_not_followed_deeper_than_the_limit() -> None:
    data = b""
    for _ in range(100):
        data = b"\x12" + _varint(len(data)) + data
    found = create_validator(_source(_NESTED)).explain(b"\4\0\0" + data)

    assert found is not None
    assert "deeper" in found[1]


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _varint(value >> 7)


@given(st.binary(max_size=60))
def test_any_bytes_are_judged_and_what_is_accepted_is_read_by_protobuf(data: bytes) -> None:
    validator = create_validator(_source(_text("string", is_repeated=True)))
    if validator.explain(b"\0" + data) is None:
        try:
            _class_of("string", is_repeated=True).FromString(data)
        except DecodeError as error:  # pragma: no cover - the assertion of this test
            raise AssertionError(data) from error


_REFUSED = [
    ("", "has no message"),
    ('syntax = "proto4"; message M {}', "neither proto2 nor proto3"),
    ('edition = "2023"; message M {}', "editions"),
    (f"{_HEAD}message M {{ int32 a = 0; }}", "no number of a field"),
    (f"{_HEAD}message M {{ int32 a = 19000; }}", "no number of a field"),
    (f"{_HEAD}message M {{ int32 a = 536870912; }}", "no number of a field"),
    (f"{_HEAD}message M {{ int32 a = 1; int32 b = 1; }}", "have the number 1"),
    (f"{_HEAD}message M {{ int32 a = 1; int32 a = 2; }}", "two fields a"),
    (f"{_HEAD}message M {{ reserved 1 to 3; int32 a = 2; }}", "is reserved"),
    (f'{_HEAD}message M {{ reserved "a"; int32 a = 2; }}', "is reserved"),
    (f"{_HEAD}message M {{ Other a = 1; }}", "unknown type Other"),
    (f"{_HEAD}message M {{ required int32 a = 1; }}", "no required fields"),
    (f"{_HEAD}message M {{ optional group G = 1 {{}} }}", "no groups"),
    (f"{_HEAD}message M {{ map<float, int32> a = 1; }}", "key of a map"),
    (f"{_HEAD}message M {{ repeated map<int32, int32> a = 1; }}", "no label"),
    (f"{_HEAD}message M {{ oneof o {{ repeated int32 a = 1; }} }}", "no label"),
    (f"{_HEAD}message M {{ oneof o {{ }} }}", "has no fields"),
    (f"{_HEAD}message M {{}} message M {{}}", "defined twice"),
    (f"{_HEAD}enum E {{ A = 1; }} message M {{}}", "is not 0"),
    (f"{_HEAD}enum E {{ A = 0; B = 0; }} message M {{}}", "one number"),
    (f"{_HEAD}enum E {{}} message M {{}}", "has no values"),
    (f"{_HEAD}enum E {{ A = 0; }} enum F {{ A = 0; }} message M {{}}", "A is defined twice"),
    (f"{_HEAD}message M {{ enum E {{ A = 0; }} message A {{}} }}", "M.A is defined twice"),
    (f"{_HEAD}message M {{ int32 foo_bar = 1; int32 fooBar = 2; }}", "one name in JSON"),
    (f'{_HEAD}message M {{ int32 a = 1; int32 b = 2 [json_name = "a"]; }}', "one name in JSON"),
    (f"{_OLD}message M {{}} extend M {{ optional int32 e = 9; }}", "not left to extensions"),
    (f"{_OLD}message M {{ extensions 9; optional int32 e = 9; }}", "left to extensions"),
    (f"{_OLD}message M {{ extensions 9; }} extend M {{ required int32 e = 9; }}", "not required"),
    (f"{_OLD}extend N {{ optional int32 e = 9; }} message M {{}}", "is no message"),
    (f'{_HEAD}import "x.proto"; message M {{}}', "not among the references"),
    ('syntax = "proto2"; message M { int32 a = 1; }', "optional, required or repeated"),
    (f"{_HEAD}message M {{", "ends too early"),
    (f"{_HEAD}message M {{ int32 a = 1 }}", "expected ';'"),
    (f"{_HEAD}message M {{ $ }}", "unexpected '$'"),
    (f"{_HEAD}/* never closed", "unexpected"),
    (f"{_HEAD}{'message M { ' * (DEPTH_MAX + 1)}{'}' * (DEPTH_MAX + 1)}", "deeper than 32"),
    (f"{_HEAD}option (a) = {'{' * 100_000}", "deeper than 32"),
]


@pytest.mark.parametrize(("text", "reason"), _REFUSED)
def test_what_is_no_schema_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(SchemaInvalid) as refused:
        parse_proto(text, ())
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("reserved", "taken"),
    [
        ("5 to 9, 1 to 3", (1, 2, 3, 5, 7, 9)),
        ("1 to 9, 2 to 3", (1, 2, 3, 4, 9)),
        ("8, 2, 4 to max", (2, 4, 8, 536_870_911)),
    ],
)
def test_numbers_are_reserved_in_whatever_order_their_ranges_stand(
    reserved: str, taken: tuple[int, ...]
) -> None:
    for number in taken:
        with pytest.raises(SchemaInvalid):
            parse_proto(f"{_HEAD}message M {{ reserved {reserved}; int32 a = {number}; }}", ())
    with pytest.raises(SchemaInvalid, match="reserved"):
        parse_proto(f"{_HEAD}message M {{ int32 a = {taken[0]}; reserved {reserved}; }}", ())
    parse_proto(f"{_HEAD}message M {{ reserved 1 to 3, 5; int32 a = 4; }}", ())


_KNOWN_TYPES = [
    *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct"),
    *("timestamp", "type", "wrappers"),
]


@pytest.mark.parametrize("name", [f"google.protobuf.{each}_pb2" for each in _KNOWN_TYPES])
def test_a_built_in_file_has_the_fields_of_the_original(name: str) -> None:
    original = importlib.import_module(name).DESCRIPTOR
    text = f'{_HEAD}import "{original.name}"; message M {{}}'
    ours = parse_proto(text, ()).messages
    for message in original.message_types_by_name.values():
        wanted = {
            (field.number, field.name, (field.message_type or field.enum_type or field).full_name)
            for field in message.fields
            if field.message_type or field.enum_type
        }
        found = ours[message.full_name]
        assert found.fields.keys() == {field.number for field in message.fields}
        assert wanted <= {(each.number, each.name, each.type) for each in found.fields.values()}


def test_a_file_may_come_by_two_imports() -> None:
    text = f"""{_HEAD}import "google/protobuf/timestamp.proto"; import "google/type/interval.proto";
    message M {{ google.type.Interval a = 1; google.protobuf.Timestamp b = 2; }}"""

    assert parse_proto(text, ()).messages["M"].fields[1].type == "google.type.Interval"


def test_comments_and_space_are_no_content() -> None:
    plain = parse_proto(f"{_HEAD}message M {{ int32 a = 1; }}", ())
    worded = parse_proto(f"{_HEAD}/* all */ message  M\n{{ // one\n int32 a=1;}}", ())

    assert plain.canonical() == worded.canonical()
    assert plain.canonical() != parse_proto(f"{_HEAD}message M {{ int64 a = 1; }}", ()).canonical()


def test_a_reference_is_imported_by_its_name() -> None:
    money = NamedSource("money.proto", f"{_HEAD}package bank; message Money {{ int64 cents = 1; }}")
    text = f'{_HEAD}import "money.proto"; message Bill {{ bank.Money sum = 1; }}'
    validator = create_validator(_source(text, money))

    assert validator.explain(b"\0\x0a\x02\x08\x07") is None
    assert validator.explain(b"\0\x0a\x02\x0a\x07") is not None


def test_names_are_found_from_the_innermost_scope_outwards() -> None:
    text = f"""{_HEAD}package a.b; message T {{ int32 x = 1; }}
    message M {{ message T {{ string y = 1; }} T inner = 1; .a.b.T outer = 2; b.T also = 3; }}"""
    fields = parse_proto(text, ()).messages["a.b.M"].fields

    assert [field.type for field in fields.values()] == ["a.b.M.T", "a.b.T", "a.b.T"]


def test_a_large_file_is_parsed_within_the_budget_of_a_check() -> None:
    fields = "".join(f"repeated string field_{number} = {number}; " for number in range(1, 6000))
    text = f"{_HEAD}message M {{ {fields} }}"

    assert len(text) < 256 * 1024
    assert SchemaChecker().check(1, SchemaJob(source=_source(text))).canonical is not None
