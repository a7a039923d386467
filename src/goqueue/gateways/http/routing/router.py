"""The route of a request: found by method and path, with the values of its parameters.

A `Route` holds everything that routing, decoding, answering and the OpenAPI document need to know;
the table of routes is the only list. Owns percent-decoding and the rules about slashes and `/v1`.
Paths are matched segment by segment and never normalized: `..` is a name like any other, and an
invalid one.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from goqueue.gateways.http.authentication import Gate
from goqueue.gateways.http.bodies import JsonSchema, unknown_name
from goqueue.gateways.http.routing.call import Call, ParameterValues
from goqueue.gateways.http.routing.parameter import Parameter, ParameterLocation
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.model import JSON_MEDIA, Code, Refused

__all__ = [
    "SCHEMA_REF",
    "Answer",
    "Match",
    "MethodUnknown",
    "Route",
    "Router",
    "Run",
    "parse_query",
]

# Where the document keeps the schema of a struct.
SCHEMA_REF = "#/components/schemas/{name}"

Answer = msgspec.Struct | HttpResponse
Run = Callable[[Call], Awaitable[Answer]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A method on a path. `errors` names what is special to the route; the rest is derived.

    `body_schema` is for a body whose struct cannot tell all, such as which fields go together.
    An example of the answer is made from its struct, unless there is one here.
    A route that waits has no time limit of its own. Routes of the service have no version and
    are told apart by `is_service`. `gate` says who needs no key. `answer_schema` is for an answer
    that is no object; `failure` is the body of its refusals, if that is another than everywhere.
    With `takes_any_query` unknown parameters are ignored.
    """

    method: str
    path: str
    section: str
    summary: str
    run: Run
    parameters: tuple[Parameter[Any], ...] = ()
    body: type[msgspec.Struct] | None = None
    body_media: str = JSON_MEDIA
    body_schema: JsonSchema | None = None
    answer: type[msgspec.Struct] | None = None
    answer_schema: JsonSchema | None = None
    answer_media: str = JSON_MEDIA
    answer_headers: tuple[str, ...] = ()
    failing: type[msgspec.Struct] | None = None
    failure: type[msgspec.Struct] | None = None
    takes_any_query: bool = False
    status: int = 200
    errors: tuple[Code, ...] = ()
    waits: bool = False
    writes: bool = False
    is_publish: bool = False
    is_service: bool = False
    has_effect: bool = False
    gate: Gate = Gate.KEY
    example: Any = None
    answer_example: Any = None

    @property
    def methods(self) -> tuple[str, ...]:
        """What the Allow header names; HEAD goes with a GET that has no effect."""
        is_plain = self.method == "GET" and not self.has_effect
        return ("GET", "HEAD") if is_plain else (self.method,)

    @property
    def is_body_required(self) -> bool:
        """Whether an empty body cannot stand for an object without fields."""
        if self.body is None:
            return self.body_media != JSON_MEDIA
        if any(field.required for field in msgspec.structs.fields(self.body)):
            return True
        # One of several fields may be required, whichever.
        choices = (self.body_schema or {}).get("anyOf", ())
        return bool(choices) and all(choice.get("required") for choice in choices)


_VERSION = b"v1"
_QUERY_PAIRS_MAX = 100
_HEX = frozenset(b"0123456789abcdefABCDEF")


class MethodUnknown(Exception):
    """The path exists, the method does not; `allowed` are those that do."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(allowed)
        self.allowed = allowed


class Match:
    """A route and the segments of the path that stand for its parameters, undecoded."""

    __slots__ = ("_segments", "_without_query", "route")

    def __init__(self, route: Route, segments: tuple[bytes, ...]) -> None:
        self.route = route
        self._segments = segments
        self._without_query: ParameterValues | None = None

    @property
    def topic(self) -> str:
        """The topic that the path names; empty if it names none, or none that can be."""
        try:
            topic = self.values(b"").by_name.get("topic", "")
        except Refused:
            return ""
        return topic if isinstance(topic, str) else ""

    def values(self, query: bytes) -> ParameterValues:
        """Every parameter, read and checked; those of a path alone only once."""
        if query:
            return self._read(parse_query(query))
        if self._without_query is None:
            self._without_query = self._read({})
        return self._without_query

    def _read(self, given: dict[str, list[str]]) -> ParameterValues:
        values: dict[str, Any] = {}
        segments = iter(self._segments)
        present = []
        for parameter in self.route.parameters:
            if parameter.location is ParameterLocation.PATH:
                values[parameter.name] = parameter.read(_decoded(next(segments), parameter))
                continue
            texts = given.get(parameter.name)
            if texts is None:
                values[parameter.name] = _absent(parameter)
                continue
            if len(texts) > 1:
                raise Refused(Code.REQUEST_INVALID, field=parameter.name, reason="is given twice")
            values[parameter.name] = parameter.read(texts[0])
            present.append(parameter.name)
        if len(present) < len(given) and not self.route.takes_any_query:
            known = tuple(
                each.name
                for each in self.route.parameters
                if each.location is ParameterLocation.QUERY
            )
            unknown = next(name for name in given if name not in known)
            raise unknown_name(unknown, known)
        return ParameterValues(values, frozenset(present))


class _Node:
    """A point in the tree of paths."""

    __slots__ = ("literal", "parameter", "routes")

    def __init__(self) -> None:
        self.literal: dict[bytes, _Node] = {}
        self.parameter: _Node | None = None
        self.routes: dict[str, Route] = {}


class Router:
    """The routes as a tree of path segments."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def find(self, method: str, path: bytes) -> Match:
        """The route; refuses unknown paths, and raises MethodUnknown for unknown methods."""
        segments = path.split(b"/")
        if segments[-1] == b"" and len(segments) > 2:
            segments.pop()
            if not segments[-1]:
                raise Refused(Code.ROUTE_NOT_FOUND)
        start = 1
        is_versioned = len(segments) > 2 and segments[1] == _VERSION
        if is_versioned:
            start = 2
        node, taken = self._walk(segments, start)
        if segments[0] or node is None or not node.routes:
            raise Refused(Code.ROUTE_NOT_FOUND)
        route = node.routes.get(method)
        if is_versioned and any(route.is_service for route in node.routes.values()):
            raise Refused(Code.ROUTE_NOT_FOUND)
        if route is None:
            raise MethodUnknown(tuple(sorted(node.routes)))
        return Match(route, taken)

    def _walk(self, segments: list[bytes], start: int) -> tuple[_Node | None, tuple[bytes, ...]]:
        node = self._root
        taken: list[bytes] = []
        for segment in segments[start:]:
            literal = node.literal.get(unquote_to_bytes(segment) if b"%" in segment else segment)
            if literal is not None:
                node = literal
            elif node.parameter is not None and segment:
                node = node.parameter
                taken.append(segment)
            else:
                return None, ()
        return node, tuple(taken)

    def _add(self, route: Route) -> None:
        node = self._root
        names = []
        for segment in route.path.split("/")[1:]:
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.literal.setdefault(segment.encode(), _Node())
        expected = [
            each.name for each in route.parameters if each.location is ParameterLocation.PATH
        ]
        assert names == expected, f"{route.path} has other parameters than it declares"
        for method in route.methods:
            assert method not in node.routes, f"{method} {route.path} is there twice"
            node.routes[method] = route


def parse_query(query: bytes) -> dict[str, list[str]]:
    """The names and values of a query, decoded once; refuses what is not percent-encoded UTF-8."""
    pairs = query.split(b"&", _QUERY_PAIRS_MAX)
    if len(pairs) > _QUERY_PAIRS_MAX:
        raise Refused(Code.REQUEST_INVALID, reason="the query has more than 100 parameters")
    values: dict[str, list[str]] = {}
    for pair in pairs:
        if not pair:
            continue
        name, _, value = pair.replace(b"+", b" ").partition(b"=")
        try:
            values.setdefault(_unquoted(name), []).append(_unquoted(value))
        except ValueError:
            raise Refused(
                Code.REQUEST_INVALID, reason="the query is not percent-encoded UTF-8"
            ) from None
    return values


def _absent(parameter: Parameter[Any]) -> object:
    if parameter.is_required:
        raise Refused(Code.REQUEST_INVALID, field=parameter.name, reason="is missing")
    return parameter.default


def _decoded(segment: bytes, parameter: Parameter[Any]) -> str:
    try:
        return _unquoted(segment)
    except ValueError:
        reason = "is not percent-encoded UTF-8"
        raise Refused(parameter.error, field=parameter.name, reason=reason) from None


def _unquoted(text: bytes) -> str:
    """Percent-decoded once; a `%` without two digits is an error rather than a literal."""
    if b"%" not in text:
        return text.decode()
    for piece in text.split(b"%")[1:]:
        if len(piece) < 2 or piece[0] not in _HEX or piece[1] not in _HEX:
            raise ValueError("not percent-encoded")
    return unquote_to_bytes(text).decode()
