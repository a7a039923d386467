"""Whether data written with one Protobuf schema can be read with another.

Follows what the bytes say: fields are known by their numbers, names do not matter, and a type may
become another one that has the same bytes. Refused is what makes a parser fail, or what it would
silently lose or misread: a required field that may be missing, a repeated number that becomes a
single one, `sint32` for `int32`, a field of a `oneof` that goes, several fields that move into one,
a value that a closed enum does not have, text that was never checked to be text.

Cost: a pair of messages is compared once, which also ends recursion; each field is paid from the
budget.
"""

from collections.abc import Iterator

from goqueue.schemas.budget import CheckBudget
from goqueue.schemas.errors import Incompatibility
from goqueue.schemas.proto import ProtoEnum, ProtoField, ProtoFile, ProtoMessage

__all__ = ["proto_incompatibilities"]

_VARINT = "varint"
_BYTES_OF = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), _VARINT),
    **dict.fromkeys(("sint32", "sint64"), "zigzag"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    **{name: name for name in ("float", "double", "string", "bytes")},
}
# What a reader of the first takes of a writer of the second.
_READABLE = frozenset((("bytes", "string"), ("bytes", "message")))
_NUMERIC = frozenset((_VARINT, "zigzag", "fixed32", "fixed64", "float", "double"))


def proto_incompatibilities(
    reader: ProtoFile, writer: ProtoFile, budget: CheckBudget
) -> Iterator[Incompatibility]:
    """What keeps the reader from reading data of the writer; nothing if it can read all of it."""
    comparison = _Comparison(reader, writer, budget)
    for name in writer.roots:
        relative = _relative(writer, name)
        own = f"{reader.package}.{relative}" if reader.package else relative
        message = reader.messages.get(own)
        if message is None or own not in reader.roots:
            yield Incompatibility(path=f"/{relative}", reason="the message is gone")
        else:
            yield from comparison.compare(message, writer.messages[name], f"/{relative}")
    yield from _nested(reader, writer, budget)


def _nested(reader: ProtoFile, writer: ProtoFile, budget: CheckBudget) -> Iterator[Incompatibility]:
    """A nested message that is no type of a field is there to be written by itself."""
    used = {field.type for each in writer.messages.values() for field in each.fields.values()}
    waiting = [nested for name in writer.roots for nested in writer.messages[name].nested]
    for name in waiting:
        budget.spend()
        waiting += writer.messages[name].nested
        relative = _relative(writer, name)
        own = f"{reader.package}.{relative}" if reader.package else relative
        if name not in used and own not in reader.messages:
            path = "/" + relative.replace(".", "/")
            yield Incompatibility(path=path, reason="the message is gone")


def _relative(file: ProtoFile, name: str) -> str:
    return name.removeprefix(f"{file.package}.") if file.package else name


class _Comparison:
    """One reader against one writer."""

    def __init__(self, reader: ProtoFile, writer: ProtoFile, budget: CheckBudget) -> None:
        self._reader = reader
        self._writer = writer
        self._budget = budget
        self._compared: dict[tuple[str, str], None] = {}

    def compare(
        self, reader: ProtoMessage, writer: ProtoMessage, path: str
    ) -> Iterator[Incompatibility]:
        """What keeps one message from being read as another."""
        pair = (reader.name, writer.name)
        if pair in self._compared:
            return
        self._compared[pair] = None
        self._budget.spend(1 + len(reader.fields) + len(writer.fields))
        for number, field in reader.fields.items():
            where = f"{path}/{field.name}"
            written = writer.fields.get(number)
            if field.label == "required" and (written is None or written.label != "required"):
                yield Incompatibility(path=where, reason="is required, and the writer may omit it")
            if written is None:
                continue
            yield from self._compare_field(field, written, where)
            is_checked = self._reader.is_text_checked[reader.name]
            if is_checked and field.type == written.type == "string":
                if not self._writer.is_text_checked[writer.name]:
                    reason = "is checked to be UTF-8, and the writer's syntax 2 does not check it"
                    yield Incompatibility(path=where, reason=reason)
        yield from _oneofs(reader, writer, path)

    def _compare_field(
        self, reader: ProtoField, writer: ProtoField, path: str
    ) -> Iterator[Incompatibility]:
        own, other = self._kind(self._reader, reader), self._kind(self._writer, writer)
        if own != other and (own, other) not in _READABLE:
            reason = f"field {reader.number} is {_shown(reader)}, and was written as "
            yield Incompatibility(path=path, reason=reason + _shown(writer))
            return
        if other in _NUMERIC and writer.label == "repeated" and reader.label != "repeated":
            reason = f"field {reader.number} is one number, and was written as several"
            yield Incompatibility(path=path, reason=reason)
        if (enum := self._reader.enums.get(reader.type)) is not None and enum.is_closed:
            yield from self._compare_closed(enum, writer, path)
        if own == other == "message" or own == other == "group":
            yield from self.compare(
                self._reader.messages[reader.type], self._writer.messages[writer.type], path
            )

    def _compare_closed(
        self, reader: ProtoEnum, writer: ProtoField, path: str
    ) -> Iterator[Incompatibility]:
        written = self._writer.enums.get(writer.type)
        if written is None:
            reason = f"has the values of {reader.name} only, and was written as {writer.type}"
            yield Incompatibility(path=path, reason=reason)
            return
        self._budget.spend(len(written.values) // 16)
        known = set(reader.values.values())
        for name, number in written.values.items():
            if number not in known:
                reason = f"{reader.name} has no value for {name} = {number} of the writer"
                yield Incompatibility(path=path, reason=reason)
                return

    @staticmethod
    def _kind(file: ProtoFile, field: ProtoField) -> str:
        if field.is_group:
            return "group"
        if field.type in file.enums:
            return _VARINT
        return _BYTES_OF.get(field.type, "message")


def _oneofs(reader: ProtoMessage, writer: ProtoMessage, path: str) -> Iterator[Incompatibility]:
    # What the fields of each oneof of the reader were for the writer.
    origins: dict[str, dict[str, None]] = {}
    for number, field in reader.fields.items():
        written = writer.fields.get(number)
        if field.oneof and written is not None:
            # Fields of one oneof are never there together; any other may be.
            origin = f"oneof {written.oneof}" if written.oneof else f"field {number}"
            origins.setdefault(field.oneof, {})[origin] = None
    for name, several in origins.items():
        if len(several) > 1:
            reason = f"{' and '.join(several)} of the writer are now in one oneof: only one is kept"
            yield Incompatibility(path=f"{path}/{name}", reason=reason)
    kept = {writer.fields[number].oneof for number in reader.fields if number in writer.fields}
    for number, field in writer.fields.items():
        if field.oneof and field.oneof in kept and number not in reader.fields:
            reason = f"{field.name} = {number} of oneof {field.oneof} is gone"
            yield Incompatibility(path=f"{path}/{field.name}", reason=reason)


def _shown(field: ProtoField) -> str:
    return f"group {field.type}" if field.is_group else field.type
