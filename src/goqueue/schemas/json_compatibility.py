"""Whether all values that one JSON Schema allows are allowed by another.

A reader is compatible with a writer if it accepts every value that the writer accepts. Content
models decide most: an open one allows any member that it does not name, so a reader that gives such
a member a type may meet one of another. Defaults play no part: validators do not fill them in.

Both are compared in one dialect. What cannot be decided counts as incompatible. So an answer may be
too strict, never too lenient: where the writer's schema is simplified it becomes wider, and where
the reader's is, narrower.

Cost: every pair of schemas is paid from a budget. A pair that is being compared counts as
compatible, which ends recursion: it is about a smaller value.
"""

from collections.abc import Iterator

import msgspec

from goqueue.schemas.budget import CheckBudget, TooComplex
from goqueue.schemas.errors import Incompatibility, SchemaInvalid
from goqueue.schemas.json_dialect import (
    ANYTHING,
    LITERAL_INTEGER,
    Json,
    JsonObject,
    NormalSchema,
    is_never,
    json_equal,
)
from goqueue.schemas.json_keywords import (
    Members,
    are_apart,
    as_object,
    compare_bounds,
    compare_numbers,
    compare_texts,
    covers,
    has_evaluated_only_here,
    items_of,
    listed,
    members_of,
    merge,
    names_in,
    types_of,
)
from goqueue.schemas.json_schema import JsonDocument, Validator, compile_part, compile_pattern

__all__ = ["json_incompatibilities"]

_UNFOLDED_MAX = 1000
# Text that is written as fast as two schemas are compared.
_UNIT_BYTES = 4096


def json_incompatibilities(
    reader: JsonDocument, writer: JsonDocument, budget: CheckBudget
) -> Iterator[Incompatibility]:
    """What the reader refuses of the writer's values; nothing if it accepts all of them."""
    comparison = _Comparison(reader.normal(), writer.normal(), budget)
    yield from comparison.compare(reader.normal().root, writer.normal().root, "")


class _Comparison:
    """One reader against one writer."""

    def __init__(
        self,
        reader: NormalSchema,
        writer: NormalSchema,
        budget: CheckBudget,
        back: "_Comparison | None" = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._budget = budget
        self._back = back
        # Pairs that are being compared: in the one dialect equal texts mean the same everywhere.
        self._open: set[tuple[bytes, bytes]] = set()
        self._validators: dict[bytes, Validator | None] = {}
        self._patterns: dict[str, Validator] = {}

    @property
    def back(self) -> "_Comparison":
        """The same with the sides exchanged."""
        if self._back is None:
            self._back = _Comparison(self._writer, self._reader, self._budget, self)
        return self._back

    def compare(
        self, reader: JsonObject, writer: JsonObject, path: str
    ) -> Iterator[Incompatibility]:
        pair = (msgspec.json.encode(reader), msgspec.json.encode(writer))
        self._budget.spend(1 + (len(pair[0]) + len(pair[1])) // _UNIT_BYTES)
        if pair in self._open or (pair[0] == pair[1] and not _depends(pair[0])):
            return
        self._open.add(pair)
        try:
            yield from self._compare(reader, writer, path)
        finally:
            self._open.discard(pair)

    def accepts(self, reader: JsonObject, writer: JsonObject) -> bool:
        """Whether the reader accepts all values of the writer."""
        return next(self.compare(reader, writer, ""), None) is None

    def _compare(
        self, ours: JsonObject, theirs: JsonObject, path: str
    ) -> Iterator[Incompatibility]:
        if is_never(theirs) or not ours:
            return
        if is_never(ours):
            yield Incompatibility(path=path, reason="forbids what the writer allows")
        elif "$unknown" in theirs or "$unknown" in ours:
            whose = "reader" if "$unknown" in ours else "writer"
            reason = f"a reference of the {whose} cannot be followed in every case"
            yield Incompatibility(path=path, reason=reason)
        elif "$ref" in theirs:
            yield from self.compare(ours, self._writer.follow(theirs), path)
        elif "$ref" in ours:
            yield from self.compare(self._reader.follow(ours), theirs, path)
        elif "allOf" in theirs:
            yield from self.compare(ours, self._merge_all(theirs), path)
        elif "oneOf" in theirs and "oneOf" in ours and self._are_equal(ours, theirs):
            # What the branches evaluate is no longer seen.
            dropped = ("oneOf", "unevaluatedProperties", "unevaluatedItems")
            yield from self.compare(_without(ours, "oneOf"), _without(theirs, *dropped), path)
        elif "anyOf" in theirs or "oneOf" in theirs:
            yield from self._compare_branches(ours, theirs, path)
        elif "enum" in theirs:
            yield from self._compare_values(ours, theirs, path)
        else:
            yield from self._compare_with(ours, theirs, path)

    # Combinations

    def _are_equal(self, ours: JsonObject, theirs: JsonObject) -> bool:
        """Whether both have the same branches in the same order, of which exactly one holds."""
        mine, other = listed(ours, "oneOf"), listed(theirs, "oneOf")
        return len(mine) == len(other) and all(map(self._mean_the_same, mine, other))

    def _mean_the_same(self, mine: JsonObject, other: JsonObject) -> bool:
        return self.accepts(mine, other) and self.back.accepts(other, mine)

    def _compare_branches(
        self, ours: JsonObject, theirs: JsonObject, path: str
    ) -> Iterator[Incompatibility]:
        """Each of them must be readable, as values may be of any."""
        rest = _without(theirs, "anyOf", "oneOf")
        for branch in listed(theirs, "anyOf" if "anyOf" in theirs else "oneOf"):
            yield from self.compare(ours, merge(branch, rest) if rest else branch, path)

    def _merge_all(self, theirs: JsonObject) -> JsonObject:
        own = _without(theirs, "allOf")
        parts = self._unfold(theirs)
        merged = _without(own, "unevaluatedProperties", "unevaluatedItems")
        for part in parts:
            self._budget.spend()
            merged = merge(merged, part)
        if is_never(merged):
            return merged
        for keyword, here in (("unevaluatedProperties", True), ("unevaluatedItems", False)):
            if keyword in theirs and _are_evaluated_by_name((own, *parts), is_member=here):
                merged["additionalProperties" if here else "items"] = theirs[keyword]
        return merged

    def _unfold(self, theirs: JsonObject) -> list[JsonObject]:
        """The parts of `allOf`, and of what these consist of, without references."""
        parts: list[JsonObject] = []
        waiting = listed(theirs, "allOf")[::-1]
        seen: set[bytes] = set()
        while waiting:
            part = waiting.pop()
            self._budget.spend()
            text = msgspec.json.encode(part)
            if text in seen:
                continue
            seen.add(text)
            if len(seen) > _UNFOLDED_MAX:
                raise TooComplex
            if "$ref" in part:
                waiting.append(self._writer.follow(part))
                continue
            waiting += listed(part, "allOf")[::-1]
            parts.append(_without(part, "allOf") if "allOf" in part else part)
        return parts

    def _compare_with(
        self, ours: JsonObject, theirs: JsonObject, path: str
    ) -> Iterator[Incompatibility]:
        types = types_of(theirs)
        yield from self._compare_applied(ours, theirs, types, path)
        if "enum" in ours:
            yield Incompatibility(path=path, reason="the reader lists values, the writer does not")
            return
        accepted = types_of(ours)
        missing = sorted(each for each in types if not covers(accepted, each))
        if missing:
            reason = f"does not accept the writer's type {', '.join(missing)}"
            yield Incompatibility(path=f"{path}/type", reason=reason)
        if {"integer", "number", LITERAL_INTEGER} & types:
            yield from compare_numbers(ours, theirs, path)
        if "string" in types:
            yield from compare_texts(ours, theirs, path)
        if "array" in types:
            yield from self._compare_arrays(ours, theirs, path)
        if "object" in types:
            yield from self._compare_objects(ours, theirs, path)

    def _compare_applied(
        self, ours: JsonObject, theirs: JsonObject, types: set[str], path: str
    ) -> Iterator[Incompatibility]:
        """What the reader says by further schemas."""
        for index, each in enumerate(listed(ours, "allOf")):
            yield from self.compare(each, theirs, f"{path}/allOf/{index}")
        for name in ("anyOf", "oneOf"):
            if name in ours:
                yield from self._compare_any(listed(ours, name), theirs, f"{path}/{name}")
        if "oneOf" in ours:
            yield from self._check_one(listed(ours, "oneOf"), theirs, f"{path}/oneOf")
        if "not" in ours and not self._is_excluded(as_object(ours["not"]), theirs):
            yield _other(path, "not")
        if ("then" in ours or "else" in ours) and not self._satisfies_condition(ours, theirs):
            yield _other(path, "if")
        if "array" in types and "contains" in ours and not self._contains(ours, theirs):
            yield _other(path, "contains")
        if "object" not in types:
            return
        if "propertyNames" in ours and not self._has_names(
            as_object(ours["propertyNames"]), theirs
        ):
            yield _other(path, "propertyNames")
        yield from self._compare_dependencies(ours, theirs, path)

    def _compare_any(
        self, branches: list[JsonObject], theirs: JsonObject, path: str
    ) -> Iterator[Incompatibility]:
        """Some branch must accept all; or one branch for each type of the writer."""
        types = types_of(theirs)
        for kind in sorted(types) if len(types) > 1 else [""]:
            part = theirs | {"type": [kind]} if kind else theirs
            found = [next(self.compare(each, part, path), None) for each in branches]
            if None not in found:
                what = f"values of type {kind}" if kind else "the writer's values"
                reason = f"no branch accepts {what}"
                if found and found[0] is not None:
                    reason += f": {found[0].reason}"
                yield Incompatibility(path=path, reason=reason)
                return

    def _check_one(
        self, branches: list[JsonObject], theirs: JsonObject, path: str
    ) -> Iterator[Incompatibility]:
        """No two branches may accept a value of the writer."""
        near = [_resolved(self._reader, each) for each in branches]
        near = [each for each in near if not are_apart(each, theirs)]
        self._budget.spend(len(near) ** 2)
        for index, one in enumerate(near):
            if any(not are_apart(one, other) for other in near[:index]):
                reason = "two branches may accept the same value of the writer"
                yield Incompatibility(path=path, reason=reason)
                return

    # Further schemas

    def _is_excluded(self, excluded: JsonObject, theirs: JsonObject) -> bool:
        """Whether no value of the writer is one that the reader excludes."""
        if are_apart(_resolved(self._reader, excluded), theirs):
            return True
        return "not" in theirs and self.back.accepts(as_object(theirs["not"]), excluded)

    def _satisfies_condition(self, ours: JsonObject, theirs: JsonObject) -> bool:
        is_same = "if" in theirs and self._mean_the_same(
            as_object(ours["if"]), as_object(theirs["if"])
        )
        for name in ("then", "else"):
            if name not in ours:
                continue
            then = as_object(ours[name])
            if is_same and name in theirs and self.accepts(then, as_object(theirs[name])):
                continue
            if not self.accepts(then, theirs):
                return False
        return True

    def _contains(self, ours: JsonObject, theirs: JsonObject) -> bool:
        least, most = _count(ours, "minContains"), _count(ours, "maxContains")
        if not least and most is None:
            return True
        if "contains" not in theirs:
            return False
        mine, other = as_object(ours["contains"]), as_object(theirs["contains"])
        if least and (
            least > (_count(theirs, "minContains") or 0) or not self.accepts(mine, other)
        ):
            return False
        their_most = _count(theirs, "maxContains")
        if most is None:
            return True
        return their_most is not None and their_most <= most and self.back.accepts(other, mine)

    def _has_names(self, names: JsonObject, theirs: JsonObject) -> bool:
        given = as_object(theirs.get("propertyNames", ANYTHING))
        wanted = merge(given, {"type": ["string"]})
        if self.accepts(names, wanted):
            return True
        members = members_of(theirs, is_writer=True)
        if members.patterns or not is_never(as_object(members.additional)):
            return False
        known: list[Json] = list(members.named)
        return next(self._compare_values(names, {"enum": known}, ""), None) is None

    def _compare_dependencies(
        self, ours: JsonObject, theirs: JsonObject, path: str
    ) -> Iterator[Incompatibility]:
        required = set(names_in(theirs.get("required")))
        mine, other = ours.get("dependentRequired"), theirs.get("dependentRequired")
        for name, names in mine.items() if isinstance(mine, dict) else ():
            also = names_in(other.get(name)) if isinstance(other, dict) else []
            if not required.issuperset(set(names_in(names)) - set(also)):
                yield _other(path, "dependencies")
        mine, other = ours.get("dependentSchemas"), theirs.get("dependentSchemas")
        for name, schema in mine.items() if isinstance(mine, dict) else ():
            if isinstance(other, dict) and name in other:
                if self.accepts(as_object(schema), as_object(other[name])):
                    continue
            if not self.accepts(as_object(schema), theirs):
                yield _other(path, "dependencies")

    # Values

    def _compare_values(
        self, ours: JsonObject, theirs: JsonObject, path: str
    ) -> Iterator[Incompatibility]:
        given = theirs["enum"]
        values = given if isinstance(given, list) else []
        self._budget.spend(len(values))
        refused = [each for each in values if not self.is_accepted(each, ours, theirs)]
        if refused and len(theirs) > 1:
            # What the writer itself refuses, by what stands beside its list, is not written.
            refused = [
                each for each in refused if self.back.is_accepted(each, theirs, theirs) is not False
            ]
        if refused:
            shown = msgspec.json.encode(refused[0]).decode()[:100]
            where = f"{path}/enum" if "enum" in ours else path
            yield Incompatibility(path=where, reason=f"does not accept the writer's value {shown}")

    def is_accepted(self, value: Json, ours: JsonObject, theirs: JsonObject) -> bool | None:
        """Whether the reader accepts a value of the writer's list; None: cannot be said."""
        if ours.keys() <= {"enum", "type"}:
            known = ours.get("enum")
            self._budget.spend(len(known) // 16 if isinstance(known, list) else 0)
            return covers(types_of(ours), _type_of(value, theirs)) and (
                not isinstance(known, list) or any(json_equal(value, each) for each in known)
            )
        if not self._reader.is_certain:
            return None
        if self._reader.has_literal_integers and _has_whole_number(value):
            return None
        validator = self._validator(ours)
        return None if validator is None else validator.accepts(value)

    def _validator(self, ours: JsonObject) -> Validator | None:
        key = msgspec.json.encode(ours)
        if key not in self._validators:
            self._budget.spend(10)
            try:
                self._validators[key] = compile_part(self._reader, ours)
            except SchemaInvalid:
                self._validators[key] = None
        return self._validators[key]

    # Arrays

    def _compare_arrays(
        self, ours: JsonObject, theirs: JsonObject, path: str
    ) -> Iterator[Incompatibility]:
        yield from compare_bounds(ours, theirs, "minItems", "maxItems", path)
        if ours.get("uniqueItems") is True and theirs.get("uniqueItems") is not True:
            yield Incompatibility(path=f"{path}/uniqueItems", reason="the writer's may repeat")
        first, rest = items_of(ours)
        their_first, their_rest = items_of(theirs, is_writer=True)
        longest = theirs.get("maxItems")
        most = longest if isinstance(longest, int) else None
        count = max(len(first), len(their_first))
        for index in range(count if most is None else min(count, most)):
            mine = first[index] if index < len(first) else rest
            other = their_first[index] if index < len(their_first) else their_rest
            yield from self.compare(mine, other, f"{path}/items/{index}")
        if most is None or most > count:
            yield from self.compare(rest, their_rest, f"{path}/items")

    # Objects

    def _compare_objects(
        self, ours: JsonObject, theirs: JsonObject, path: str
    ) -> Iterator[Incompatibility]:
        required = set(names_in(theirs.get("required")))
        for name in names_in(ours.get("required")):
            if name not in required:
                reason = f"requires {name!r}, which the writer may leave out"
                yield Incompatibility(path=f"{path}/required", reason=reason)
        yield from compare_bounds(ours, theirs, "minProperties", "maxProperties", path)
        mine, other = members_of(ours), members_of(theirs, is_writer=True)
        for name in dict.fromkeys((*mine.named, *other.named)):
            self._budget.spend()
            theirs_part = self._schema_for(name, other)
            where = f"{path}/properties/{name}"
            for ours_part in self._schemas_for(name, mine):
                if name not in other.named and not theirs_part:
                    found = next(self.compare(ours_part, theirs_part, where), None)
                    if found is not None:
                        reason = f"the writer's open content model allows any value: {found.reason}"
                        yield Incompatibility(path=where, reason=reason)
                    continue
                yield from self.compare(ours_part, theirs_part, where)
        yield from self._compare_patterns(mine, other, path)

    def _compare_patterns(
        self, mine: Members, other: Members, path: str
    ) -> Iterator[Incompatibility]:
        """Members that neither side names."""
        additional, their_additional = as_object(mine.additional), as_object(other.additional)
        for pattern, schema in mine.patterns.items():
            where = f"{path}/patternProperties/{pattern}"
            if pattern in other.patterns:
                theirs = as_object(other.patterns[pattern])
                yield from self.compare(as_object(schema), theirs, where)
                continue
            for theirs in (*map(as_object, other.patterns.values()), their_additional):
                yield from self.compare(as_object(schema), theirs, where)
        where = f"{path}/additionalProperties"
        for pattern, schema in other.patterns.items():
            if pattern not in mine.patterns:
                yield from self.compare(additional, as_object(schema), where)
        found = next(self.compare(additional, their_additional, where), None)
        if found is not None:
            is_open = not their_additional
            reason = "the writer's content model is open: " if is_open else ""
            yield Incompatibility(path=where, reason=reason + found.reason)

    def _schemas_for(self, name: str, members: Members) -> list[JsonObject]:
        """All that a member of this name has to conform to, in the reader."""
        found = [members.named[name]] if name in members.named else []
        found += [
            schema for pattern, schema in members.patterns.items() if self._matches(pattern, name)
        ]
        return [as_object(each) for each in found or [members.additional]]

    def _schema_for(self, name: str, members: Members) -> JsonObject:
        """Something that a member of this name conforms to, in the writer."""
        if name in members.named:
            return as_object(members.named[name])
        for pattern, schema in members.patterns.items():
            if self._matches(pattern, name):
                return as_object(schema)
        return as_object(members.additional)

    def _matches(self, pattern: str, name: str) -> bool:
        """By the library, whose steps are bounded, as they are when values are validated."""
        self._budget.spend()
        if pattern not in self._patterns:
            self._budget.spend(10)
            try:
                self._patterns[pattern] = compile_pattern(pattern)
            except SchemaInvalid as invalid:
                raise TooComplex from invalid
        return self._patterns[pattern].accepts(name)


def _depends(text: bytes) -> bool:
    """Whether a schema may mean something else in another document."""
    return b'"$ref"' in text or b'"$unknown"' in text


def _without(schema: JsonObject, *keywords: str) -> JsonObject:
    return {key: each for key, each in schema.items() if key not in keywords}


def _other(path: str, keyword: str) -> Incompatibility:
    reason = f"the writer's `{keyword}` is not the same"
    return Incompatibility(path=f"{path}/{keyword}", reason=reason)


def _count(schema: JsonObject, keyword: str) -> int | None:
    given = schema.get(keyword)
    return int(given) if isinstance(given, int | float) else None


def _resolved(document: NormalSchema, schema: JsonObject) -> JsonObject:
    for _ in range(32):
        if "$ref" not in schema:
            return schema
        schema = document.follow(schema)
    return ANYTHING


def _are_evaluated_by_name(parts: tuple[JsonObject, ...], *, is_member: bool) -> bool:
    """Whether the parts of `allOf` evaluate what they name together, and nothing else."""
    named = "patternProperties" if is_member else "prefixItems"
    further: tuple[str, ...] = ("additionalProperties", "unevaluatedProperties")
    if not is_member:
        further = ("items", "contains", "unevaluatedItems")
    return (
        sum(named in part for part in parts) <= 1
        and all(has_evaluated_only_here(part) for part in parts)
        and not any(each in part for part in parts[1:] for each in further)
        and not any(each in parts[0] for each in further if not each.startswith("unevaluated"))
    )


def _type_of(value: Json, theirs: JsonObject) -> str:
    """The type of a value that the writer lists."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            if not _is_whole(value):
                return "number"
            # 1 in a list stands for 1.0 too, unless the type beside the list refuses that.
            return "integer" if covers(types_of(theirs), "integer") else LITERAL_INTEGER
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"


def _is_whole(value: int | float) -> bool:
    return isinstance(value, int) or value.is_integer()


def _has_whole_number(value: Json) -> bool:
    if isinstance(value, int | float):
        return not isinstance(value, bool) and _is_whole(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(_has_whole_number, inner))
