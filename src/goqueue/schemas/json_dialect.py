"""JSON Schema of any draft, brought to one dialect in which schemas can be compared.

The dialect is draft 2020-12 without words: keywords that a draft does not know are dropped, as
validators ignore them, and every reference is a number in the table of `targets`, so a schema means
the same wherever it stands. A reference that cannot be followed with certainty, such as one that
depends on the way to it, becomes `UNKNOWN`, about which nothing can be said.
"""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

import msgspec

__all__ = [
    "ANYTHING",
    "DRAFTS",
    "DRAFT_DEFAULT",
    "LITERAL_INTEGER",
    "NEVER",
    "UNKNOWN",
    "Json",
    "JsonObject",
    "NormalSchema",
    "draft_of",
    "is_never",
    "json_equal",
]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject = dict[str, Json]

DRAFTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
DRAFT_DEFAULT = "http://json-schema.org/draft-07/schema"
ANYTHING: JsonObject = {}
NEVER: JsonObject = {"not": {}}
UNKNOWN: JsonObject = {"$unknown": True}
# An integer of draft 4: 1.0 is none.
LITERAL_INTEGER = "literal integer"

_BASE = "http://schema.invalid/"
_ONE = frozenset(
    (
        "not",
        "if",
        "then",
        "else",
        "contains",
        "propertyNames",
        "additionalProperties",
        "additionalItems",
        "unevaluatedItems",
        "unevaluatedProperties",
        "items",
    )
)
_LISTED = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_NAMED = frozenset(
    ("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions")
)
_PLAIN = (
    "multipleOf",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
)


def draft_of(schema: Json) -> str | None:
    """The address of the draft that a schema names, or that of the default; None: not known."""
    given = schema.get("$schema", DRAFT_DEFAULT) if isinstance(schema, dict) else DRAFT_DEFAULT
    address = given.rstrip("#") if isinstance(given, str) else ""
    return address if address in DRAFTS else None


def is_never(schema: JsonObject) -> bool:
    return schema.get("not") == {} and len(schema) == 1


def json_equal(one: Json, other: Json) -> bool:
    """Equality of JSON: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(json_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(json_equal(one[key], other[key]) for key in one)
    return one == other


class _Place(msgspec.Struct, frozen=True):
    """A schema, with the base of its references and its draft."""

    schema: Json
    base: str
    draft: int


class NormalSchema:
    """A schema of any draft in the one dialect, with all that it refers to."""

    def __init__(self, root: Json, references: Mapping[str, Json]) -> None:
        self._resources: dict[str, _Place | None] = {}
        self._anchors: dict[str, _Place | None] = {}
        self._dynamic: dict[str, int] = {}
        self._recursive = 0
        self._numbers: dict[str, str] = {}
        self._waiting: list[tuple[str, _Place]] = []
        self.targets: dict[str, JsonObject] = {}
        # Whether every reference could be followed.
        self.is_certain = True
        self.has_literal_integers = False
        places = [self._enter(root, _BASE)]
        places += [self._enter(each, urljoin(_BASE, name)) for name, each in references.items()]
        for place in places:
            self._collect(place)
        self.root = self.targets[self._target(_BASE, places[0])]
        if self._has_endless_references():
            self.is_certain = False
            self.root = UNKNOWN

    def follow(self, schema: JsonObject) -> JsonObject:
        """What a reference leads to."""
        return self.targets[str(schema["$ref"]).rpartition("/")[2]]

    # What references lead to

    def _enter(self, schema: Json, base: str) -> _Place:
        """A whole document, under its name."""
        draft = DRAFTS[draft_of(schema) or DRAFT_DEFAULT]
        place = _Place(schema, base, draft)
        self._add(self._resources, base, place)
        return place

    def _add(self, known: dict[str, _Place | None], name: str, place: _Place) -> None:
        """Two under one name cannot be told apart."""
        before = known.get(name, place)
        known[name] = place if before is not None and before.schema is place.schema else None

    def _collect(self, place: _Place) -> None:
        """Find all that has an id or an anchor."""
        if not isinstance(place.schema, dict):
            return
        inner = _based(place)
        if inner.base != place.base:
            self._add(self._resources, inner.base, inner)
        if inner.draft >= 2019:
            self._recursive += place.schema.get("$recursiveAnchor") is True
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := place.schema.get(keyword), str):
                    self._add(self._anchors, f"{inner.base}#{name}", inner)
                    if keyword == "$dynamicAnchor":
                        self._dynamic[name] = self._dynamic.get(name, 0) + 1
        elif isinstance(name := place.schema.get(_id_keyword(inner.draft)), str):
            if name.startswith("#") and "$ref" not in place.schema:
                self._add(self._anchors, f"{inner.base}{name}", inner)
        for each in _parts_of(place.schema):
            self._collect(_Place(each, inner.base, inner.draft))

    def _find(self, address: str, fragment: str) -> _Place | None:
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(f"{address}#{fragment}")
        place = self._resources.get(address)
        for part in fragment.split("/")[1:]:
            if place is None:
                return None
            place = _step(_based(place), part.replace("~1", "/").replace("~0", "~"))
        return place

    def _target(self, address: str, place: _Place) -> str:
        """The number of a target, which is brought into the dialect once."""
        if (number := self._numbers.get(address)) is not None:
            return number
        is_first = not self._numbers
        number = self._numbers[address] = str(len(self._numbers))
        self._waiting.append((number, place))
        if is_first:
            # Targets found on the way wait: a chain of references is no recursion.
            while self._waiting:
                each, waiting = self._waiting.pop()
                self.targets[each] = self._normal(waiting)
        return number

    def _refer(self, reference: Json, base: str) -> JsonObject:
        name, _, fragment = reference.partition("#") if isinstance(reference, str) else ("", "", "")
        address, fragment = urljoin(base, name) if name else base, unquote(fragment)
        found = self._find(address, fragment) if isinstance(reference, str) else None
        if found is None:
            self.is_certain = False
            return UNKNOWN
        whole = f"{address}#{fragment}" if fragment else address
        return {"$ref": f"#/$defs/{self._target(whole, found)}"}

    def _refer_dynamically(self, schema: JsonObject, place: _Place) -> JsonObject | None:
        """One whose target is the same whatever way leads to it, or an unknown one."""
        if place.draft == 2020 and "$dynamicRef" in schema:
            given = schema["$dynamicRef"]
            anchor = unquote(given.partition("#")[2]) if isinstance(given, str) else ""
            is_fixed = self._dynamic.get(anchor, 0) <= 1
        elif place.draft == 2019 and "$recursiveRef" in schema:
            given = schema["$recursiveRef"]
            is_fixed = self._recursive <= 1
        else:
            return None
        return self._refer(given if is_fixed else None, place.base)

    def _has_endless_references(self) -> bool:
        """Whether a schema leads to itself for the very same value: then it says nothing."""
        found: dict[str, set[str]] = {}
        for number, schema in self.targets.items():
            found[number] = set()
            waiting = [schema]
            while waiting:
                each = waiting.pop()
                if "$ref" in each:
                    found[number].add(str(each["$ref"]).rpartition("/")[2])
                waiting += [part for part in _parts_in_place(each) if isinstance(part, dict)]
        try:
            TopologicalSorter(found).prepare()
        except CycleError:
            return True
        return False

    # The dialect

    def _normal(self, place: _Place) -> JsonObject:
        if place.schema is False:
            return NEVER
        if not isinstance(place.schema, dict):
            return ANYTHING
        place = _based(place)
        schema = place.schema
        assert isinstance(schema, dict)
        named = schema.get("$schema")
        if named is not None and DRAFTS.get(draft_of(schema) or "") != place.draft:
            self.is_certain = False
            return UNKNOWN
        if "$ref" in schema and place.draft <= 7:
            return self._refer(schema["$ref"], place.base)
        found = _plain_keywords(schema, place.draft)
        if place.draft == 4 and "integer" in (types := found.get("type", [])):  # type: ignore[operator]  # a list of names
            found["type"] = [LITERAL_INTEGER if each == "integer" else each for each in types]  # type: ignore[union-attr]  # as above
            self.has_literal_integers = True
        self._add_items(found, schema, place)
        self._add_members(found, schema, place)
        self._add_combinations(found, schema, place)
        return found

    def _one(self, schema: Json, place: _Place) -> JsonObject:
        return self._normal(_Place(schema, place.base, place.draft))

    def _add_items(self, found: JsonObject, schema: JsonObject, place: _Place) -> None:
        given = schema.get("items")
        first: Json = schema.get("prefixItems") if place.draft == 2020 else None
        if isinstance(given, list):
            first, given = given, schema.get("additionalItems")
        if isinstance(first, list):
            found["prefixItems"] = [self._one(each, place) for each in first]
        if given is not None:
            found["items"] = self._one(given, place)
        elif place.draft >= 2019 and "unevaluatedItems" in schema:
            found["unevaluatedItems"] = self._one(schema["unevaluatedItems"], place)
        if place.draft < 6 or "contains" not in schema:
            return
        contained: JsonObject = {"contains": self._one(schema["contains"], place)}
        contained["minContains"] = schema.get("minContains", 1) if place.draft >= 2019 else 1
        if place.draft >= 2019 and "maxContains" in schema:
            contained["maxContains"] = schema["maxContains"]
        if place.draft == 2019 and "unevaluatedItems" in found:
            # In 2019-09 an item is not evaluated by `contains`; behind `not` none is.
            found["allOf"] = [{"not": {"not": contained}}]
        else:
            found.update(contained)

    def _add_members(self, found: JsonObject, schema: JsonObject, place: _Place) -> None:
        for keyword in ("properties", "patternProperties"):
            if isinstance(given := schema.get(keyword), dict):
                found[keyword] = {name: self._one(each, place) for name, each in given.items()}
        if "additionalProperties" in schema:
            found["additionalProperties"] = self._one(schema["additionalProperties"], place)
        elif place.draft >= 2019 and "unevaluatedProperties" in schema:
            found["unevaluatedProperties"] = self._one(schema["unevaluatedProperties"], place)
        if place.draft >= 6 and "propertyNames" in schema:
            found["propertyNames"] = self._one(schema["propertyNames"], place)
        names: dict[str, Json] = {}
        schemas: dict[str, Json] = {}
        keywords = ["dependencies"]
        if place.draft >= 2019:
            keywords += ["dependentRequired", "dependentSchemas"]
        for keyword in keywords:
            given = schema.get(keyword)
            for name, each in given.items() if isinstance(given, dict) else ():
                if isinstance(each, list):
                    before = names.get(name)
                    names[name] = [*(before if isinstance(before, list) else ()), *each]
                else:
                    one = self._one(each, place)
                    schemas[name] = {"allOf": [schemas[name], one]} if name in schemas else one
        if names:
            found["dependentRequired"] = names
        if schemas:
            found["dependentSchemas"] = schemas

    def _add_combinations(self, found: JsonObject, schema: JsonObject, place: _Place) -> None:
        for keyword in ("anyOf", "oneOf"):
            if isinstance(given := schema.get(keyword), list):
                found[keyword] = [self._one(each, place) for each in given]
        if "not" in schema:
            found["not"] = self._one(schema["not"], place)
        if place.draft >= 7 and "if" in schema:
            for keyword in ("if", "then", "else"):
                if keyword in schema:
                    found[keyword] = self._one(schema[keyword], place)
        before = found.pop("allOf", None)
        every: list[Json] = [*before] if isinstance(before, list) else []
        if "$ref" in schema:
            every.append(self._refer(schema["$ref"], place.base))
        if (dynamic := self._refer_dynamically(schema, place)) is not None:
            every.append(dynamic)
        if isinstance(given := schema.get("allOf"), list):
            every += [self._one(each, place) for each in given]
        if not found and len(every) == 1 and isinstance(only := every[0], dict):
            found.update(only)
        elif every:
            found["allOf"] = every


def _plain_keywords(schema: JsonObject, draft: int) -> JsonObject:
    """Keywords that hold no schemas."""
    found: JsonObject = {key: schema[key] for key in _PLAIN if key in schema}
    for plain, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        given = schema.get(exclusive)
        if draft > 4 and given is not None:
            found[exclusive] = given
        elif given is True and plain in found:
            # Draft 4: a switch beside the limit.
            found[exclusive] = found.pop(plain)
    if isinstance(types := schema.get("type"), str | list):
        found["type"] = [types] if isinstance(types, str) else types
    if isinstance(required := schema.get("required"), list) and required:
        found["required"] = required
    if schema.get("uniqueItems") is True:
        found["uniqueItems"] = True
    values = schema.get("enum")
    if draft > 4 and "const" in schema:
        only = schema["const"]
        has_it = not isinstance(values, list) or any(json_equal(each, only) for each in values)
        values = [only] if has_it else []
    if isinstance(values, list):
        found["enum"] = values
    return found


def _id_keyword(draft: int) -> str:
    return "id" if draft == 4 else "$id"


def _based(place: _Place) -> _Place:
    """A place with the base that its own id sets."""
    if not isinstance(place.schema, dict) or (place.draft <= 7 and "$ref" in place.schema):
        return place
    given = place.schema.get(_id_keyword(place.draft))
    if not isinstance(given, str) or given.startswith("#"):
        return place
    return _Place(place.schema, urldefrag(urljoin(place.base, given))[0], place.draft)


def _step(place: _Place, key: str) -> _Place | None:
    """One part of a JSON pointer further."""
    schema = place.schema
    if isinstance(schema, dict) and key in schema:
        return _Place(schema[key], place.base, place.draft)
    if isinstance(schema, list) and key.isdecimal() and int(key) < len(schema):
        return _Place(schema[int(key)], place.base, place.draft)
    return None


def _parts_in_place(schema: JsonObject) -> list[Json]:
    """The schemas right inside of a schema that are about the same value as itself."""
    found = [schema[each] for each in ("not", "if", "then", "else") if each in schema]
    for each in ("allOf", "anyOf", "oneOf"):
        given = schema.get(each)
        found += given if isinstance(given, list) else ()
    given = schema.get("dependentSchemas")
    return found + (list(given.values()) if isinstance(given, dict) else [])


def _parts_of(schema: JsonObject) -> list[Json]:
    """The schemas right inside of a schema."""
    found: list[Json] = []
    for keyword, each in schema.items():
        if keyword in _NAMED and isinstance(each, dict):
            found += each.values()
        elif keyword in _LISTED and isinstance(each, list):
            found += each
        elif keyword in _ONE:
            found.append(each)
    return found
