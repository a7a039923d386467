"""A large JSON Schema as several small ones, all of which a value must conform to.

The library compiles a schema in one go, and nothing else runs meanwhile. A schema whose size comes
from `properties` is the conjunction of schemas that each have some of them, and of one that has the
rest and all names. Each is compiled by itself, so others get their turn in between.

Never changes what conforms: a schema whose references could mean something else in a part stays
whole. Those to `definitions` and `$defs` are taken along.
"""

import re
from collections.abc import Iterator

import msgspec

from goqueue.schemas.json_dialect import Json, JsonObject

__all__ = ["PART_BYTES", "partition"]

# About 4 ms of the library.
PART_BYTES = 40 * 1024
_ENCODER = msgspec.json.Encoder(order="sorted")
_REFERENCE = re.compile(rb'"\$ref":"#/(definitions|\$defs)/([^"/%~\\]+)"')
# Words by which a part of a schema names itself, or refers to something by the way to it.
_ANCHORS = (b'"$id":', b'"id":"', b'"$anchor":', b'"$dynamic', b'"$recursive')

_Name = tuple[str, str]


def partition(schema: Json, part_bytes: int = PART_BYTES) -> list[Json]:
    """Schemas that a value conforms to exactly if it conforms to this one.

    A part brings along what it refers to, if that is at most half of its size.
    """
    text = _ENCODER.encode(schema)
    if len(text) <= part_bytes or not isinstance(schema, dict) or not _is_separable(text):
        return [schema]
    draft = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    first, *others = _conjuncts(schema, part_bytes)
    parts: list[Json] = [first]
    for each in others:
        taken = _definitions_of(each, schema, part_bytes // 2)
        if taken is None:
            return [schema]
        parts.append({**draft, **taken, **each})
    return parts


def _is_separable(text: bytes) -> bool:
    if any(anchor in text for anchor in _ANCHORS):
        return False
    return text.count(b'"$ref":') == len(_REFERENCE.findall(text))


def _conjuncts(schema: JsonObject, part_bytes: int) -> list[JsonObject]:
    """The schema without what its properties demand, then parts that demand that."""
    properties = schema.get("properties")
    # Beside a reference other words may mean nothing.
    if not isinstance(properties, dict) or "$ref" in schema:
        return [schema]
    groups = list(_groups(properties, part_bytes))
    if len(groups) == 1:
        return [schema]
    # Draft 4 has no `true` in the place of a schema.
    rest: JsonObject = {**schema, "properties": {name: {} for name in properties}}
    parts: list[JsonObject] = [{"properties": group} for group in groups]
    return [rest, *parts]


def _groups(properties: JsonObject, part_bytes: int) -> Iterator[JsonObject]:
    group: JsonObject = {}
    room = part_bytes
    for name, each in properties.items():
        size = len(name) + len(_ENCODER.encode(each))
        if size > part_bytes and isinstance(each, dict):
            for conjunct in _conjuncts(each, part_bytes):
                yield {name: conjunct}
            continue
        if group and size > room:
            yield group
            group, room = {}, part_bytes
        group[name] = each
        room -= size
    if group or not properties:
        yield group


def _definitions_of(part: JsonObject, schema: JsonObject, bytes_max: int) -> JsonObject | None:
    """What a part refers to; None: it is too much, or is not there."""
    taken: dict[_Name, Json] = {}
    size = 0
    waiting = [_ENCODER.encode(part)]
    while waiting:
        for table, name in _REFERENCE.findall(waiting.pop()):
            known: _Name = table.decode(), name.decode()
            if known in taken:
                continue
            definitions = schema.get(known[0])
            if not isinstance(definitions, dict) or known[1] not in definitions:
                return None
            taken[known] = definitions[known[1]]
            text = _ENCODER.encode(taken[known])
            size += len(text)
            if size > bytes_max:
                return None
            waiting.append(text)
    found: dict[str, JsonObject] = {}
    for (table, name), each in taken.items():
        found.setdefault(table, {})[name] = each
    return dict(found)
