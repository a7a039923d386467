"""Examples of answers, made from their structs, so that none is missing and none is outdated.

A field shows the example of its type, or what is usual for its name; the names of the API mean the
same wherever they stand. Optional fields are left out, unless a struct has no others.
"""

from typing import Any

import msgspec
from msgspec import inspect

from goqueue.model import format_duration
from goqueue.model.requests import TOPIC_SETTINGS, SettingKind, TopicSetting

__all__ = ["example_of"]

_TIME = "2025-01-31T12:00:00.123456789Z"
_RECEIPT = "orders:0:41:1:2.1.7.5f2a9c01d3e4b687"
_TRACE = "0af7651916cd43dd8448eb211c80319c"

# What fields are called, and what usually stands there.
_BY_NAME: dict[str, Any] = {
    "assigned_partitions": "orders-0",
    "build_time": _TIME,
    "cause": "max_deliveries",
    "client_id": "worker-1",
    "code": "topic_not_found",
    "created_at": _TIME,
    "deadline": _TIME,
    "delivery_count": 1,
    "duration": "1.5s",
    "end_offset": 42,
    "error": "There is no such topic.",
    "git_commit": "4f1c2d7a9b3e",
    "group": "billing",
    "group_id": "billing",
    "groups": "billing",
    "handle": "orders:0:1:2.1.7.5f2a9c01d3e4b687",
    "headers": {"source": "web"},
    "high_watermark": 42,
    "id": _TRACE,
    "in_flight": 3,
    "key": "user-100",
    "leader_id": "worker-1-5f2a9c01d3e4b687",
    "member_id": "worker-1-5f2a9c01d3e4b687",
    "members": "worker-1-5f2a9c01d3e4b687",
    "name": "orders",
    "new_deadline": _TIME,
    "next_offset": 42,
    "node_id": "node-1",
    "offset": 41,
    "origin": "orders",
    "partitions": 3,
    "priority": "normal",
    "python_version": "3.11.7",
    "reason": "as many messages as asked for",
    "receipt_handle": _RECEIPT,
    "span_id": "b7ad6b7169203331",
    "status": "ok",
    "timestamp": _TIME,
    "topic": "orders",
    "topics": "orders",
    "trace_id": _TRACE,
    "transaction_id": "7-3",
    "transactional_id": "billing-1",
    "uptime": "1h30m0s",
    "value": "hello",
    "version": "0.1.0",
}


def _usual_setting(setting: TopicSetting) -> Any:  # noqa: ANN401 - whatever it is in JSON
    """The default of a topic setting, as an answer shows it."""
    if setting.kind is SettingKind.DURATION:
        assert isinstance(setting.default, int)
        return format_duration(setting.default)
    return setting.default


_BY_NAME |= {each.name: _usual_setting(each) for each in TOPIC_SETTINGS}
_BY_NAME |= {"dead_letter_topic": "orders.dlq"}
# Left out where all fields are optional: of what failed, and of delayed messages.
_UNUSUAL = frozenset({"code", "delayed", "deliverAt", "error"})
_DEPTH_MAX = 6


def example_of(kind: type[msgspec.Struct]) -> Any:  # noqa: ANN401 - whatever the struct is in JSON
    """An answer of this kind, as JSON has it."""
    return _Example().of(inspect.type_info(kind), "")


class _Example:
    """One example; a struct within itself is left out."""

    def __init__(self) -> None:
        self._within: list[type] = []

    def of(self, found: inspect.Type, name: str) -> Any:  # noqa: ANN401, C901 - one line for each kind of type
        if isinstance(found, inspect.Metadata):
            schema = found.extra_json_schema or {}
            if "examples" in schema and name not in _BY_NAME:
                return schema["examples"][0]
            return self.of(found.type, name)
        if isinstance(found, inspect.StructType):
            return self._struct(found)
        if isinstance(found, inspect.UnionType):
            kinds = [each for each in found.types if not isinstance(each, inspect.NoneType)]
            return self.of(kinds[0], name)
        if isinstance(found, inspect.LiteralType):
            return _BY_NAME[name] if _BY_NAME.get(name) in found.values else found.values[0]
        if isinstance(found, inspect.EnumType):
            return next(iter(found.cls)).value
        if isinstance(found, inspect.ListType | inspect.VarTupleType | inspect.SetType):
            if isinstance(usual := _BY_NAME.get(name), tuple):
                return list(usual)
            return [self.of(found.item_type, name)]
        if isinstance(found, inspect.TupleType):
            return [self.of(each, name) for each in found.item_types]
        usual = _BY_NAME.get(name)
        if isinstance(found, inspect.DictType):
            if isinstance(usual, dict):
                return usual
            is_enum = isinstance(found.key_type, inspect.EnumType | inspect.LiteralType)
            key = self.of(found.key_type, "") if is_enum else "orders-0"
            return {key: self.of(found.value_type, "")}
        if isinstance(found, inspect.StrType):
            return usual if isinstance(usual, str) else "text"
        if isinstance(found, inspect.IntType):
            is_number = isinstance(usual, int) and not isinstance(usual, bool)
            return usual if is_number else found.ge or 0
        if isinstance(found, inspect.FloatType):
            return 0.5
        if isinstance(found, inspect.BoolType):
            return usual if isinstance(usual, bool) else True
        return usual if usual is not None else "text"

    def _struct(self, found: inspect.StructType) -> dict[str, Any]:
        if found.cls in self._within or len(self._within) >= _DEPTH_MAX:
            return {}
        self._within.append(found.cls)
        fields = [each for each in found.fields if each.required] or [
            each for each in found.fields if each.encode_name not in _UNUSUAL
        ]
        made = {each.encode_name: self.of(each.type, each.encode_name) for each in fields}
        self._within.pop()
        return made
