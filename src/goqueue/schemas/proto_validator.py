"""Whether bytes are a value of a Protobuf schema, in the framing of registries.

A payload begins with the place of its message in the file: a count and indexes as zigzag varints,
or a single 0 for the first message. The rest is walked once, and nothing is built. A field that
the schema does not know is skipped; one that it knows must have the bytes of its type. Texts are
UTF-8 where syntax 3 says so, and required fields are there.

Hostile input: every length is checked, and depth is bounded. Each step moves on, so the work is
linear in the length of the payload.
"""

from array import array
from collections.abc import Sequence

from goqueue.schemas.proto import ProtoField, ProtoFile, ProtoMessage

__all__ = ["ProtoValidator"]

_DEPTH_MAX = 64
_INDEXES_MAX = 32
_VARINT_BYTES_MAX = 10
_VARINT, _FIXED64, _LENGTH, _START, _END, _FIXED32 = range(6)
_WIRE_TYPES = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool"), _VARINT),
    **dict.fromkeys(("fixed64", "sfixed64", "double"), _FIXED64),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), _FIXED32),
    **dict.fromkeys(("string", "bytes"), _LENGTH),
}
_PACKABLE = (_VARINT, _FIXED64, _FIXED32)
_SIZES = {_FIXED64: 8, _FIXED32: 4}


class _Invalid(Exception):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


class ProtoValidator:
    """Values of one file."""

    values_per_unit = 1
    bytes_per_unit = 64

    def __init__(self, file: ProtoFile) -> None:
        self._file = file
        self._required = {
            name: tuple(
                number for number, field in message.fields.items() if field.label == "required"
            )
            for name, message in file.messages.items()
        }

    def find_refused(
        self, data: bytearray, starts: "array[int]", ends: "array[int]"
    ) -> Sequence[int]:
        """Which of the values data[start:end] are none of the schema, by their indexes."""
        explain = self.explain
        return [
            index
            for index, start in enumerate(starts)
            if explain(bytes(data[start : ends[index]])) is not None
        ]

    def explain(self, payload: bytes) -> tuple[str, str] | None:
        """Where bytes are no value of the schema, and why; None: they are one."""
        try:
            message, position = self._find_message(payload)
            self._walk(payload, position, len(payload), message, "")
        except _Invalid as invalid:
            return invalid.path, invalid.reason
        except IndexError:
            return "", "ends too early"
        return None

    def _find_message(self, payload: bytes) -> tuple[ProtoMessage, int]:
        count, position = _zigzag(payload, 0)
        indexes = [0] if count == 0 else []
        if not 0 <= count <= _INDEXES_MAX:
            raise _Invalid("", "the place of the message is not valid")
        for _ in range(count):
            index, position = _zigzag(payload, position)
            indexes.append(index)
        message = self._file.message_at(indexes)
        if message is None:
            raise _Invalid("", f"the schema has no message at {indexes}")
        return message, position

    def _walk(
        self, payload: bytes, position: int, end: int, message: ProtoMessage, path: str
    ) -> None:
        """Go through the fields of a message with a stack of its own: input decides the depth."""
        waiting = [(position, end, message, path, 0)]
        while waiting:
            position, end, message, path, depth = waiting.pop()
            if depth > _DEPTH_MAX:
                raise _Invalid(path, f"is nested deeper than {_DEPTH_MAX}")
            seen: dict[int, None] = {}
            while position < end:
                tag, position = _varint(payload, position)
                number, wire = tag >> 3, tag & 7
                after = _skip(payload, position, number, wire)
                if after > end:
                    raise _Invalid(path, "a field is longer than its message")
                field = message.fields.get(number)
                if field is not None:
                    seen[number] = None
                    where = f"{path}/{field.name}"
                    inner = self._check(payload, position, after, wire, message, field, where)
                    if inner is not None:
                        waiting.append((*inner, where, depth + 1))
                position = after
            for number in self._required[message.name]:
                if number not in seen:
                    missing = message.fields[number].name
                    raise _Invalid(f"{path}/{missing}", "is required and missing")

    def _check(  # noqa: PLR0917 - a field, and where it is
        self,
        payload: bytes,
        position: int,
        after: int,
        wire: int,
        message: ProtoMessage,
        field: ProtoField,
        path: str,
    ) -> tuple[int, int, ProtoMessage] | None:
        """Check one field; returns what is to be walked into."""
        inner = self._file.messages.get(field.type)
        if inner is not None:
            if wire != (_START if field.is_group else _LENGTH):
                raise _Invalid(path, f"has wire type {wire}, and is a message")
            if field.is_group:
                return position, after - len(_encode_varint(field.number << 3 | _END)), inner
            _, start = _varint(payload, position)
            return start, after, inner
        wanted = _WIRE_TYPES.get(field.type, _VARINT)
        if wire == wanted:
            if field.type == "string" and self._file.is_text_checked[message.name]:
                _, start = _varint(payload, position)
                _check_text(payload[start:after], path)
            return None
        if wire == _LENGTH and wanted in _PACKABLE and field.label == "repeated":
            _, start = _varint(payload, position)
            _check_packed(payload, start, after, wanted, path)
            return None
        raise _Invalid(path, f"has wire type {wire}, and {field.type} has {wanted}")


def _check_text(text: bytes, path: str) -> None:
    try:
        text.decode()
    except UnicodeDecodeError:
        raise _Invalid(path, "is not UTF-8") from None


def _check_packed(payload: bytes, position: int, end: int, wire: int, path: str) -> None:
    if wire == _VARINT:
        while position < end:
            _, position = _varint(payload, position)
        is_whole = position == end
    else:
        is_whole = (end - position) % _SIZES[wire] == 0
    if not is_whole:
        raise _Invalid(path, "packed numbers do not end with the field")


def _skip(payload: bytes, position: int, number: int, wire: int) -> int:
    """Past one field, whatever it is."""
    if number == 0:
        raise _Invalid("", "a field has number 0")
    if wire != _START:
        return _skip_simple(payload, position, wire)
    open_groups = [number]
    while open_groups:
        if len(open_groups) > _DEPTH_MAX:
            raise _Invalid("", f"is nested deeper than {_DEPTH_MAX}")
        tag, position = _varint(payload, position)
        number, wire = tag >> 3, tag & 7
        if wire == _START:
            open_groups.append(number)
        elif wire == _END:
            if open_groups.pop() != number:
                raise _Invalid("", "a group ends that did not begin")
        else:
            position = _skip_simple(payload, position, wire)
    return position


def _skip_simple(payload: bytes, position: int, wire: int) -> int:
    if wire == _VARINT:
        return _varint(payload, position)[1]
    if wire == _LENGTH:
        length, position = _varint(payload, position)
        position += length
    elif wire in _SIZES:
        position += _SIZES[wire]
    else:
        raise _Invalid("", f"wire type {wire} is not valid here")
    if position > len(payload):
        raise _Invalid("", "ends too early")
    return position


def _varint(payload: bytes, position: int) -> tuple[int, int]:
    value = payload[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    for shift in range(7, 7 * _VARINT_BYTES_MAX, 7):
        octet = payload[position]
        position += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
    raise _Invalid("", "a number has more than 10 bytes")


def _zigzag(payload: bytes, position: int) -> tuple[int, int]:
    value, position = _varint(payload, position)
    return (value >> 1) ^ -(value & 1), position


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
