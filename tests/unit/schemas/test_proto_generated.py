"""Protobuf messages made by chance: what is called compatible is read by Protobuf's runtime."""

import base64

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from goqueue.schemas import CheckBudget, parse_proto, proto_incompatibilities
from goqueue.schemas.proto_descriptor import encode_descriptor
from tests.unit.schemas.proto_cases import SCALAR_NAMES

_INNER = {
    2: "message I { optional int32 x = 1; repeated string y = 2; } enum E { A = 0; B = 1; }",
    3: "message I { int64 x = 1; repeated string y = 2; } enum E { A = 0; B = 1; C = 2; }",
}
_KINDS = (*SCALAR_NAMES, "I", "E", "map<string, I>", "map<int32, bytes>")
_LABELS = ("optional", "repeated", "required", "oneof")


class _Field(msgspec.Struct, frozen=True):
    number: int
    kind: str
    label: str

    def text(self, syntax: int) -> str:
        is_bare = self.label == "oneof" or self.kind.startswith("map")
        label = "" if is_bare or (syntax == 3 and self.label == "required") else self.label
        return f"{label} {self.kind} f{self.number} = {self.number};"


_FIELDS = st.builds(
    _Field,
    number=st.integers(1, 4),
    kind=st.sampled_from(_KINDS),
    label=st.sampled_from(_LABELS),
)
_MESSAGES = st.lists(_FIELDS, min_size=1, max_size=4, unique_by=lambda field: field.number)


@st.composite
def _evolutions(draw: st.DrawFn) -> tuple[str, str]:
    """Two texts whose fields are partly the same."""
    syntax = draw(st.sampled_from([2, 3]))
    old = draw(_MESSAGES)
    new = {field.number: field for field in old}
    for field in draw(st.lists(_FIELDS, max_size=2)):
        new[field.number] = field
    if draw(st.booleans()):
        new.pop(draw(st.sampled_from(sorted(new))))
    syntaxes = [syntax, draw(st.sampled_from([syntax, syntax, 2, 3]))]
    return _text(old, syntaxes[0]), _text(list(new.values()), syntaxes[1])


def _text(fields: list[_Field], syntax: int) -> str:
    chosen = [each for each in fields if each.label == "oneof" and not each.kind.startswith("map")]
    plain = [each.text(syntax) for each in fields if each not in chosen]
    inner = "".join(each.text(syntax) for each in chosen)
    body = " ".join(plain) + (f" oneof o {{ {inner} }}" if inner else "")
    return f'syntax = "proto{syntax}"; message M {{ {_INNER[syntax]} {body} }}'


def _class_of(text: str) -> type[Message]:
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(encode_descriptor(text)))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))
    return made


_SCALARS: dict[str, st.SearchStrategy[object]] = {
    "string": st.text(max_size=3),
    "bytes": st.binary(max_size=3),
    "bool": st.just(True),
    "double": st.sampled_from([1.5, -2.0]),
    "float": st.sampled_from([1.5, -2.0]),
    "E": st.sampled_from([0, 1]),
}


def _fill(draw: st.DrawFn, message: Message) -> set[int]:
    """Set some fields; returns the numbers of those."""
    chosen: set[int] = set()
    for field in message.DESCRIPTOR.fields:
        is_oneof = field.containing_oneof is not None and message.WhichOneof(
            field.containing_oneof.name
        )
        if not field.is_required and (is_oneof or not draw(st.booleans())):
            continue
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            made = getattr(message, field.name)
            if entry.fields_by_name["value"].message_type is None:
                made[7] = b"x"
            else:
                made["k"].x = 7
        elif entry is not None:
            inner = getattr(message, field.name)
            inner = inner.add() if field.is_repeated else inner
            inner.y.append("x")
        else:
            kind = "E" if field.enum_type else _TYPE_NAMES[field.type]
            values = _SCALARS.get(kind, st.integers(1, 100))
            if field.is_repeated:
                getattr(message, field.name).extend(draw(st.lists(values, min_size=1, max_size=3)))
            else:
                setattr(message, field.name, draw(values))
        chosen.add(field.number)
    return {field.number for field, _ in message.ListFields()}


_TYPE_NAMES = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(texts=_evolutions(), data=st.data())
def test_data_of_a_compatible_writer_is_read_whole(
    texts: tuple[str, str], data: st.DataObject
) -> None:
    old, new = (parse_proto(text, ()) for text in texts)
    is_compatible = not list(proto_incompatibilities(new, old, CheckBudget()))
    event(f"compatible: {is_compatible}")
    assume(is_compatible)
    written = _class_of(texts[0])()
    numbers = _fill(data.draw, written)  # type: ignore[arg-type]  # draws as a composite does
    read = _class_of(texts[1]).FromString(written.SerializeToString())

    assert read.IsInitialized()
    kept = {field.number for field, _ in read.ListFields()}
    # A zero that the reader does not tell from a missing field is no loss.
    known = {field.number for field in read.DESCRIPTOR.fields if field.has_presence}
    assert numbers & known <= kept
