"""Keywords of JSON Schema one by one: what they say of types, members, items, limits and values.

Of schemas in the dialect of comparisons. Follows no references. Where two are merged or compared,
what cannot be said is on the safe side.
"""

from collections.abc import Iterator
from fractions import Fraction

import msgspec

from goqueue.schemas.errors import Incompatibility
from goqueue.schemas.json_dialect import (
    ANYTHING,
    LITERAL_INTEGER,
    NEVER,
    Json,
    JsonObject,
    is_never,
    json_equal,
)

__all__ = [
    "Members",
    "are_apart",
    "as_object",
    "compare_bounds",
    "compare_numbers",
    "compare_texts",
    "covers",
    "has_evaluated_only_here",
    "items_of",
    "listed",
    "members_of",
    "merge",
    "names_in",
    "types_of",
]

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
# Of values that are compared one by one.
_PAIRS_MAX = 10_000
_EVALUATORS = ("allOf", "anyOf", "oneOf", "if", "dependentSchemas", "$ref", "$unknown")


class Members(msgspec.Struct, frozen=True):
    """What an object may have."""

    named: dict[str, Json]
    patterns: dict[str, Json]
    additional: Json


def members_of(schema: JsonObject, *, is_writer: bool = False) -> Members:
    named, patterns = schema.get("properties"), schema.get("patternProperties")
    additional = schema.get("additionalProperties")
    if additional is None and (not is_writer or has_evaluated_only_here(schema)):
        # A reader that counts fewer members as evaluated is stricter than it is.
        additional = schema.get("unevaluatedProperties")
    return Members(
        named if isinstance(named, dict) else {},
        patterns if isinstance(patterns, dict) else {},
        ANYTHING if additional is None else additional,
    )


def has_evaluated_only_here(schema: JsonObject) -> bool:
    """Whether no further schema beside the keywords evaluates members or items."""
    return not any(each in schema for each in _EVALUATORS)


def as_object(schema: Json) -> JsonObject:
    """A part of a schema in the dialect of comparisons, where all of them are objects."""
    assert isinstance(schema, dict)
    return schema


def listed(schema: JsonObject, keyword: str) -> list[JsonObject]:
    """The schemas of a keyword that has several."""
    given = schema.get(keyword)
    return [as_object(each) for each in given] if isinstance(given, list) else []


def types_of(schema: JsonObject) -> set[str]:
    given = schema.get("type")
    return set(names_in(given)) if isinstance(given, list) else set(TYPES)


def covers(types: set[str], one: str) -> bool:
    """Whether values of a type are of one of some types."""
    if one in types:
        return True
    if one == LITERAL_INTEGER:
        return covers(types, "integer")
    return one == "integer" and "number" in types


def names_in(given: Json) -> list[str]:
    return [each for each in given if isinstance(each, str)] if isinstance(given, list) else []


def items_of(schema: JsonObject, *, is_writer: bool = False) -> tuple[list[JsonObject], JsonObject]:
    """The schemas of the first items, and that of the others."""
    rest = schema.get("items")
    is_plain = has_evaluated_only_here(schema) and "contains" not in schema
    if rest is None and (not is_writer or is_plain):
        rest = schema.get("unevaluatedItems")
    return listed(schema, "prefixItems"), ANYTHING if rest is None else as_object(rest)


def are_apart(one: JsonObject, other: JsonObject) -> bool:
    """Whether surely no value conforms to both: by its type, or by a member that tells them."""
    both = _both_types(types_of(one), types_of(other))
    if not both:
        return True
    values, other_values = _values_of(one), _values_of(other)
    if values is not None and other_values is not None:
        is_short = len(values) * len(other_values) <= _PAIRS_MAX
        return is_short and _both_values(values, other_values) == []
    if both != ["object"]:
        return False
    mine, theirs = members_of(one).named, members_of(other).named
    required = set(names_in(one.get("required"))) & set(names_in(other.get("required")))
    return any(
        are_apart(as_object(mine[name]), as_object(theirs[name]))
        for name in sorted(required)
        if name in mine and name in theirs
    )


def _values_of(schema: JsonObject) -> list[Json] | None:
    values = schema.get("enum")
    return values if isinstance(values, list) else None


# Numbers and texts


def _number(given: Json) -> Fraction | None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    try:
        return Fraction(given)
    except (ValueError, OverflowError):
        return None


class _Bound(msgspec.Struct, frozen=True):
    """A limit; above all for a smallest value, where the larger one is the stricter."""

    value: Fraction
    is_exclusive: bool

    def allows(self, other: "_Bound", *, is_lower: bool) -> bool:
        """Whether all that is within the other limit is within this."""
        if self.value != other.value:
            return (self.value < other.value) is is_lower
        return not self.is_exclusive or other.is_exclusive


def _bound(schema: JsonObject, plain: str, exclusive: str, *, is_lower: bool) -> _Bound | None:
    value, number = _number(schema.get(plain)), _number(schema.get(exclusive))
    closed = None if value is None else _Bound(value, False)
    opened = None if number is None else _Bound(number, True)
    if closed is None or opened is None:
        return closed or opened
    return closed if opened.allows(closed, is_lower=is_lower) else opened


def compare_numbers(ours: JsonObject, theirs: JsonObject, path: str) -> Iterator[Incompatibility]:
    for plain, exclusive, is_lower in (
        ("minimum", "exclusiveMinimum", True),
        ("maximum", "exclusiveMaximum", False),
    ):
        mine = _bound(ours, plain, exclusive, is_lower=is_lower)
        other = _bound(theirs, plain, exclusive, is_lower=is_lower)
        if mine is not None and (other is None or not mine.allows(other, is_lower=is_lower)):
            name = exclusive if mine.is_exclusive else plain
            yield Incompatibility(path=f"{path}/{name}", reason="is stricter than the writer's")
    step = _number(ours.get("multipleOf"))
    if step is not None and step != 0:
        other_step = _number(theirs.get("multipleOf"))
        if other_step is None and "number" not in types_of(theirs):
            other_step = Fraction(1)
        if other_step is None or (other_step / step).denominator != 1:
            reason = "the writer's numbers are not multiples of it"
            yield Incompatibility(path=f"{path}/multipleOf", reason=reason)


def compare_texts(ours: JsonObject, theirs: JsonObject, path: str) -> Iterator[Incompatibility]:
    yield from compare_bounds(ours, theirs, "minLength", "maxLength", path)
    if "pattern" in ours and ours["pattern"] != theirs.get("pattern"):
        yield Incompatibility(path=f"{path}/pattern", reason="the writer's pattern is another")


def compare_bounds(
    ours: JsonObject, theirs: JsonObject, least: str, most: str, path: str
) -> Iterator[Incompatibility]:
    low, high = _number(ours.get(least)), _number(ours.get(most))
    their_low, their_high = _number(theirs.get(least)), _number(theirs.get(most))
    if low is not None and low > (their_low or 0):
        yield Incompatibility(path=f"{path}/{least}", reason="is larger than the writer's")
    if high is not None and (their_high is None or high < their_high):
        yield Incompatibility(path=f"{path}/{most}", reason="is smaller than the writer's")


# Both of two

# Keywords that mean something only together.
_MEMBERS = ("patternProperties", "additionalProperties")
_GROUPS = (_MEMBERS, ("prefixItems", "items"), ("if", "then", "else"))
_GROUPS_TOO = (("contains", "minContains", "maxContains"),)
# What they say depends on all that stands beside them.
_UNEVALUATED = frozenset(("unevaluatedProperties", "unevaluatedItems"))
_GROUPED = _UNEVALUATED.union(*_GROUPS, *_GROUPS_TOO)


def merge(one: JsonObject, other: JsonObject) -> JsonObject:
    """A schema of values that conform to both, or of more of them.

    Of what cannot be said by one keyword, that of `one` stays, and the other is left out.
    """
    if is_never(one) or is_never(other):
        return NEVER
    if "$ref" in one or "$ref" in other:
        return {"allOf": [one, other]}
    merged = {key: each for key, each in one.items() if key not in _UNEVALUATED}
    for group in (*_GROUPS, *_GROUPS_TOO):
        if not any(key in one for key in group):
            merged |= {key: other[key] for key in group if key in other}
    for key, each in other.items():
        if key not in _GROUPED:
            merged[key] = _merge_keyword(key, merged[key], each) if key in merged else each
    return merged


def _merge_keyword(key: str, one: Json, other: Json) -> Json:
    match key:
        case "required":
            return list(dict.fromkeys((*names_in(one), *names_in(other))))
        case "type":
            return list(_both_types(set(names_in(one)), set(names_in(other))))
        case "enum":
            return _both_values(one, other)
        case "allOf":
            assert isinstance(one, list)
            assert isinstance(other, list)
            return [*one, *other]
        case "properties":
            return _merge_members(as_object(one), as_object(other))
        case _:
            return one


def _both_types(one: set[str], other: set[str]) -> list[str]:
    return sorted(
        each for each in (*TYPES, LITERAL_INTEGER) if covers(one, each) and covers(other, each)
    )


def _both_values(one: Json, other: Json) -> Json:
    assert isinstance(one, list)
    assert isinstance(other, list)
    if len(one) * len(other) > _PAIRS_MAX:
        return one
    return [value for value in one if any(json_equal(value, two) for two in other)]


def _merge_members(one: JsonObject, other: JsonObject) -> JsonObject:
    merged = dict(one)
    for name, schema in other.items():
        known = name in merged
        merged[name] = merge(as_object(merged[name]), as_object(schema)) if known else schema
    return merged
