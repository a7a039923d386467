"""Messages of brokers with random fields: each of the right types, and none that anybody meant."""

import random

import msgspec
from msgspec import inspect

from goqueue.model import PeerMessage

__all__ = ["random_message"]

_NUMBERS = (0, 1, 2, 3, 7, 255, 2**31, 2**32, 2**53 - 1, 2**53)
_TEXTS = (
    "",
    "a",
    "attacked",
    "other",
    "orders",
    "__metadata",
    "../x",
    "\x00",
    "é" * 100,
    "x" * 5000,
)
_ITEMS_MAX = 4


def random_message(kind: type[PeerMessage], chance: random.Random) -> PeerMessage | None:
    """A message of a kind; None if its fields are out of their ranges."""
    info = inspect.type_info(kind)
    try:
        message: PeerMessage = msgspec.convert(_value(info, chance), kind)
    except msgspec.ValidationError:
        return None
    return message


def _value(info: inspect.Type, chance: random.Random) -> object:
    """Something that a field of a type may hold."""
    match info:
        case inspect.StructType(fields=fields, tag=tag, array_like=True):
            values = [_value(field.type, chance) for field in fields]
            return values if tag is None else [tag, *values]
        case inspect.StructType(fields=fields, tag=tag, tag_field=tag_field):
            named: dict[str | None, object] = {} if tag is None else {tag_field: tag}
            named.update({each.encode_name: _value(each.type, chance) for each in fields})
            return named
        case inspect.NamedTupleType(fields=fields):
            return [_value(field.type, chance) for field in fields]
        case inspect.TupleType(item_types=types):
            return [_value(each, chance) for each in types]
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return [_value(item, chance) for _ in range(chance.randrange(_ITEMS_MAX))]
        case inspect.DictType(key_type=key, value_type=value):
            count = chance.randrange(_ITEMS_MAX)
            return {_value(key, chance): _value(value, chance) for _ in range(count)}
        case inspect.UnionType(types=types):
            return _value(chance.choice(types), chance)
        case inspect.Metadata(type=inner):
            return _value(inner, chance)
        case _:
            return _scalar(info, chance)


def _scalar(info: inspect.Type, chance: random.Random) -> object:
    match info:
        case inspect.IntType():
            return chance.choice(_NUMBERS)
        case inspect.FloatType():
            return chance.choice((0.0, -1.0, 1e308))
        case inspect.BoolType():
            return chance.random() < 0.5
        case inspect.StrType():
            return chance.choice(_TEXTS)
        case inspect.BytesType():
            return chance.randbytes(chance.randrange(50))
        case inspect.NoneType():
            return None
        case inspect.EnumType(cls=cls):
            return chance.choice(list(cls)).value
        case inspect.LiteralType(values=values):
            return chance.choice(values)
        case _:
            raise AssertionError(f"no value for {info}")
