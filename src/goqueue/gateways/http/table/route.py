"""One route: everything that routing, reading, answering and the document need to know about it.

Never runs by itself; the table of routes is the only list there is.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from goqueue.gateways.http.bodies import JsonSchema
from goqueue.gateways.http.table.call import Call
from goqueue.gateways.http.table.parameter import Parameter
from goqueue.gateways.http.transport import HttpResponse
from goqueue.model import Code

__all__ = ["JSON", "RECORDS", "SCHEMA_REF", "Answer", "Route", "Run"]

JSON = "application/json"
RECORDS = "application/vnd.goqueue.records"

# Where the document keeps the schema of a struct.
SCHEMA_REF = "#/components/schemas/{name}"

Answer = msgspec.Struct | HttpResponse
Run = Callable[[Call], Awaitable[Answer]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A method on a path. `errors` names what is special to the route; the rest is derived.

    `body_schema` is for a body whose struct cannot tell all, such as which fields go together.
    A route that waits has no time limit of its own. Routes of the service have no version and
    are told apart by `is_service`.
    """

    method: str
    path: str
    section: str
    summary: str
    run: Run
    parameters: tuple[Parameter[Any], ...] = ()
    body: type[msgspec.Struct] | None = None
    body_media: str = JSON
    body_schema: JsonSchema | None = None
    answer: type[msgspec.Struct] | None = None
    answer_media: str = JSON
    answer_headers: tuple[str, ...] = ()
    failing: type[msgspec.Struct] | None = None
    status: int = 200
    errors: tuple[Code, ...] = ()
    waits: bool = False
    writes: bool = False
    is_publish: bool = False
    is_service: bool = False
    has_effect: bool = False
    example: Any = None

    @property
    def methods(self) -> tuple[str, ...]:
        """What the Allow header names; HEAD goes with a GET that has no effect."""
        is_plain = self.method == "GET" and not self.has_effect
        return ("GET", "HEAD") if is_plain else (self.method,)

    @property
    def is_body_required(self) -> bool:
        """Whether an empty body cannot stand for an object without fields."""
        if self.body is None:
            return self.body_media != JSON
        return any(field.required for field in msgspec.structs.fields(self.body))
