"""Numbers in messages between brokers: each has a range, and nothing else is decoded."""

from collections.abc import Iterator

import msgspec
import pytest
from msgspec import inspect

from goqueue.model import LOCAL, PEER_MESSAGES, Heartbeat, PeerMessage
from goqueue.runtime.peers.frames import Frame, FrameInvalid, decode_message

Path = tuple[int | str, ...]
Value = int | str | bytes | list["Value"] | dict[str, "Value"]

# Wall clocks, which may be before 1970.
_NEGATIVE = {(Heartbeat, (4,))}


def example(kind: inspect.Type, name: str = "") -> Value:
    """What a message of this type looks like before it is encoded."""
    match kind:
        case inspect.VarTupleType(item_type):
            return [example(item_type)]
        case inspect.TupleType(item_types):
            return [example(each) for each in item_types]
        case inspect.UnionType(types):
            return example(next(each for each in types if not isinstance(each, inspect.NoneType)))
        case inspect.StructType():
            return _example_of_struct(kind, name)
        case inspect.EnumType(cls):
            return next(iter(cls)).value  # type: ignore[no-any-return]  # of any enumeration
        case _:
            return _EXAMPLES[type(kind)]


_EXAMPLES: dict[type[inspect.Type], Value] = {
    inspect.IntType: 1,
    inspect.BoolType: True,
    inspect.StrType: "a",
    inspect.BytesType: b"",
    inspect.DictType: {},
}


def _example_of_struct(kind: inspect.StructType, name: str) -> Value:
    if name == "caller":
        # Whom a node has proven is checked where it is believed.
        return msgspec.to_builtins(LOCAL, builtin_types=(bytes,))  # type: ignore[no-any-return]  # it is a dict
    values = {each.encode_name: example(each.type, each.name) for each in kind.fields}
    if not kind.array_like:
        return values
    assert kind.tag is None or isinstance(kind.tag, int)
    return [*([] if kind.tag is None else [kind.tag]), *values.values()]


def number_paths(value: Value, above: Path = ()) -> Iterator[Path]:
    """Where a message has numbers; the first of a message is its kind."""
    if isinstance(value, list | dict):
        if above[-1:] == ("caller",):
            return
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in items:
            yield from number_paths(each, (*above, key))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield above


def replaced(value: Value, path: Path, number: int) -> Value:
    if not path:
        return number
    key, *rest = path
    if isinstance(value, dict):
        assert isinstance(key, str)
        return {**value, key: replaced(value[key], tuple(rest), number)}
    assert isinstance(value, list)
    assert isinstance(key, int)
    return [*value[:key], replaced(value[key], tuple(rest), number), *value[key + 1 :]]


def decode(message: type[PeerMessage], value: Value) -> object:
    tag = message.__struct_config__.tag
    assert isinstance(tag, int)
    return decode_message(Frame(tag, memoryview(msgspec.msgpack.encode(value)), ()))


@pytest.mark.parametrize("message", PEER_MESSAGES, ids=lambda each: each.__name__)
def test_a_message_with_a_number_out_of_range_is_refused(message: type[PeerMessage]) -> None:
    valid = example(inspect.type_info(message))
    decode(message, valid)

    for path in number_paths(valid):
        for number in (
            *(() if (message, path) in _NEGATIVE else (-1,)),
            -(2**63),
            2**63,
            2**64 - 1,
        ):
            with pytest.raises(FrameInvalid):
                decode(message, replaced(valid, path, number))
