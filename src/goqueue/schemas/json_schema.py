"""JSON Schema: parsed, checked against its draft, and written back in one form.

Drafts 4, 6, 7, 2019-09 and 2020-12; without `$schema` it is draft 7. The library `jsonschema-rs`,
of the extra `schemas`, checks a schema against the schema of its draft and compiles it; nothing is
fetched: a reference leads into the schema, or to a registered one by its name.

Hostile input: at most `DEPTH_MAX` levels of JSON. Regular expressions run in linear time, or, with
look-around and back references, for a bounded number of steps.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Protocol

import msgspec

from goqueue.model import NamedSource, ways_to_install
from goqueue.schemas.errors import DEPTH_MAX, SchemaInvalid
from goqueue.schemas.json_dialect import (
    DRAFT_DEFAULT,
    LITERAL_INTEGER,
    Json,
    JsonObject,
    NormalSchema,
    draft_of,
)
from goqueue.schemas.json_partition import partition

__all__ = ["JsonDocument", "Validator", "compile_part", "compile_pattern", "parse_json_schema"]

_DRAFT_COMPARED = "https://json-schema.org/draft/2020-12/schema"
_REGEX_STEPS_MAX = 10_000
_REGEX_BYTES_MAX = 1024 * 1024
_ENCODER = msgspec.json.Encoder(order="sorted")


class JsonDocument:
    """A schema of any draft, with the schemas that it refers to by their names."""

    __slots__ = ("_canonical", "_normal", "references", "root")

    def __init__(self, root: Json, references: Mapping[str, Json]) -> None:
        self.root = root
        self.references = references
        self._canonical = _ENCODER.encode(root).decode()
        self._normal: NormalSchema | None = None

    def canonical(self) -> str:
        """The schema with the members of each object sorted, and no white space."""
        return self._canonical

    def normal(self) -> NormalSchema:
        """The schema in the dialect in which schemas are compared."""
        if self._normal is None:
            self._normal = NormalSchema(self.root, self.references)
        return self._normal

    def validator(self) -> "Validator":
        """The schema, compiled; a large one in several steps."""
        resources = [(name, _with_draft(each)) for name, each in self.references.items()]
        parts = partition(_with_draft(self.root))
        return Validator([_compile_whole(each, resources) for each in parts])


def _with_draft(schema: Json) -> Json:
    """A schema that names its draft."""
    if isinstance(schema, dict) and "$schema" not in schema:
        return {"$schema": DRAFT_DEFAULT, **schema}
    return schema


def parse_json_schema(text: str, references: Sequence[NamedSource] = ()) -> JsonDocument:
    """Parse a schema; raises SchemaInvalid."""
    root = _decode(text, "")
    if not isinstance(root, dict | bool):
        raise SchemaInvalid("", "a schema is an object, or true or false")
    named = {each.name: _decode(each.text, each.name) for each in references}
    for each in (root, *named.values()):
        if draft_of(each) is None:
            raise SchemaInvalid("/$schema", "is no draft from 4 to 2020-12")
    document = JsonDocument(root, named)
    document.validator()
    return document


def _decode(text: str, name: str) -> Json:
    try:
        decoded: Json = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise SchemaInvalid(name, f"not JSON: {error}") from error
    except RecursionError:
        raise SchemaInvalid(name, f"deeper than {DEPTH_MAX}") from None
    _check_depth(decoded, "", 0)
    return decoded


def _check_depth(value: Json, path: str, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise SchemaInvalid(path, f"deeper than {DEPTH_MAX}")
    if isinstance(value, dict):
        for key, each in value.items():
            _check_depth(each, f"{path}/{key}", depth + 1)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _check_depth(each, f"{path}/{index}", depth + 1)


def _library() -> ModuleType:
    try:
        import jsonschema_rs
    except ImportError:
        reason = f"JSON Schema needs the extra `schemas`: {ways_to_install('schemas')}"
        raise SchemaInvalid("", reason) from None
    return jsonschema_rs


class _Found(Protocol):
    instance_path: list[str | int]
    message: str


class _Compiled(Protocol):
    """A validator of the library."""

    def is_valid(self, value: object, /) -> bool: ...

    def iter_errors(self, value: object, /) -> Iterable[_Found]: ...


class Validator:
    """A compiled schema: one object of the library, or several that a value must all pass."""

    __slots__ = ("_parts", "accepts")

    def __init__(self, parts: "list[_Compiled]") -> None:
        self._parts = parts
        # Whether a decoded value conforms. Mostly the library's own: it is called for each value.
        is_one = len(parts) == 1
        self.accepts: Callable[[object], bool] = parts[0].is_valid if is_one else self._is_valid

    def _is_valid(self, value: object) -> bool:
        return all(part.is_valid(value) for part in self._parts)

    def explain(self, value: object) -> tuple[str, str] | None:
        """Where a value does not conform, as a JSON pointer, and why; None: it does."""
        for part in self._parts:
            for error in part.iter_errors(value):
                path = "".join(f"/{each}" for each in error.instance_path)
                return path, str(error.message)[:500]
        return None


def compile_pattern(pattern: str) -> Validator:
    """A validator of texts that match a regular expression; raises SchemaInvalid."""
    return _compile({"$schema": _DRAFT_COMPARED, "pattern": pattern})


def compile_part(schema: NormalSchema, part: JsonObject) -> Validator:
    """A validator of a part of a schema in the dialect of comparisons; raises SchemaInvalid."""
    whole: JsonObject = {"$schema": _DRAFT_COMPARED, "allOf": [part]}
    if b'"$ref"' in _ENCODER.encode(part):
        whole["$defs"] = dict(schema.targets)
    return _compile(_without_literals(whole) if schema.has_literal_integers else whole)


def _without_literals(schema: Json) -> Json:
    """With integers in the place of literal ones, which the library's draft does not have."""
    if isinstance(schema, list):
        return [_without_literals(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _without_literals(each) for key, each in schema.items()}
    if isinstance(types := found.get("type"), list):
        found["type"] = ["integer" if each == LITERAL_INTEGER else each for each in types]
    return found


def _compile(schema: Json) -> Validator:
    return Validator([_compile_whole(schema, [])])


def _compile_whole(schema: Json, resources: list[tuple[str, Json]]) -> _Compiled:
    library = _library()

    def refuse(address: str) -> object:
        raise ValueError(f"{address[:200]} is not registered: nothing is fetched")

    try:
        registry = library.Registry(resources, retriever=refuse) if resources else None
        options = library.FancyRegexOptions(
            backtrack_limit=_REGEX_STEPS_MAX,
            size_limit=_REGEX_BYTES_MAX,
            dfa_size_limit=_REGEX_BYTES_MAX,
        )
        compiled: _Compiled = library.validator_for(
            schema,
            registry=registry,
            retriever=refuse,
            pattern_options=options,
            validate_formats=False,
        )
    except library.ValidationError as error:
        path = "".join(f"/{each}" for each in error.instance_path)
        raise SchemaInvalid(path, str(error.message)[:500]) from None
    except (library.ReferencingError, ValueError) as error:
        raise SchemaInvalid("", str(error)[:500]) from None
    return compiled
