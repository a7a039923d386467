"""One request as its route sees it: checked parameters, the decoded body, the way to the broker.

Never decides anything about the domain.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

import msgspec

from goqueue.gateways.http.authentication import HttpAuthentication
from goqueue.gateways.http.bodies import decoder_of, read_body
from goqueue.gateways.http.routing.parameter import Parameter
from goqueue.gateways.http.server.application import HttpRequest, HttpResponse
from goqueue.gateways.key_maker import KeyMaker
from goqueue.gateways.port import Broker, NodeFacts, Scrape, ask
from goqueue.model import HOUR, Caller, Code, Refused, Timestamp
from goqueue.model.requests import Command, Reply

__all__ = ["ApiContext", "ApiLimits", "Call", "OpenCount", "ParameterValues"]

Value = TypeVar("Value")
Body = TypeVar("Body", bound=msgspec.Struct)
Expected = TypeVar("Expected", bound=Reply)
Outcome = TypeVar("Outcome")

_MIB = 1024 * 1024
_DECODERS: dict[type[msgspec.Struct], msgspec.json.Decoder[Any]] = {}


class ApiLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a caller may send, and how long it may take."""

    body_bytes_max: int = _MIB
    publish_body_bytes_max: int = 16 * _MIB
    handling_seconds: float = 30.0
    probe_seconds: float = 5.0
    delay_ns_max: int = 366 * 24 * HOUR
    streams_max: int = 2_000
    requests_max: int = 10_000


class OpenCount:
    """How many responses of a kind are open; each is a connection that lasts."""

    __slots__ = ("_count", "_count_max", "_kind")

    def __init__(self, count_max: int, kind: str) -> None:
        self._count = 0
        self._count_max = count_max
        self._kind = kind

    def check(self) -> None:
        """Refuse one more than there may be."""
        if self._count >= self._count_max:
            raise Refused(Code.BROKER_UNAVAILABLE, reason=f"too many {self._kind} are open")

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1


class ApiContext(msgspec.Struct, frozen=True, kw_only=True):
    """What every route has at hand. `clock` is wall time, `ticks` is monotonic."""

    broker: Broker
    facts: NodeFacts
    limits: ApiLimits
    clock: Callable[[], Timestamp]
    ticks: Callable[[], int]
    metrics: Scrape
    document: Callable[[], bytes]
    page: HttpResponse
    streams: OpenCount
    requests: OpenCount
    key_maker: KeyMaker
    authentication: HttpAuthentication
    # Protobuf as text to its descriptor in base64; slow for long texts.
    encode_descriptor: Callable[[str], str]


class ParameterValues(msgspec.Struct, frozen=True):
    """The value of every parameter of a route, and the names of those that the caller gave."""

    by_name: dict[str, Any]
    given: frozenset[str]


class Call:
    """The parameters and the body of a request, for the code of its route."""

    __slots__ = ("_values", "caller", "context", "request")

    def __init__(
        self, request: HttpRequest, values: ParameterValues, context: ApiContext, caller: Caller
    ) -> None:
        self.request = request
        self.context = context
        self.caller = caller
        self._values = values

    def __getitem__(self, parameter: Parameter[Value]) -> Value:
        value: Value = self._values.by_name[parameter.name]
        return value

    def has(self, parameter: Parameter[Value]) -> bool:
        """Whether the caller gave it, rather than the default."""
        return parameter.name in self.given

    @property
    def given(self) -> frozenset[str]:
        """The names of the parameters that the caller gave."""
        return self._values.given

    def body(self, kind: type[Body]) -> Body:
        """The JSON body; an empty one is an object without fields."""
        decoder = _DECODERS.get(kind)
        if decoder is None:
            decoder = _DECODERS[kind] = decoder_of(kind)
        read: Body = read_body(decoder, self.request.body or b"{}")
        return read

    async def run(self, steps: Generator[None, None, Outcome]) -> Outcome:
        """Do long work step by step; everybody else gets a turn between two of them."""
        while True:
            try:
                next(steps)
            except StopIteration as done:
                outcome: Outcome = done.value
                return outcome
            await asyncio.sleep(0)

    def ask(self, command: Command, expected: type[Expected]) -> Coroutine[Any, Any, Expected]:
        """Ask the broker; every command has one type of reply."""
        return ask(self.context.broker, command, expected, self.caller)
