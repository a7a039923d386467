"""A broker that notes what it is asked and refuses it, and a way to send requests past it."""

import asyncio
from typing import Unpack

import msgspec

from goqueue.gateways import UNOBSERVED, NodeFacts, RequestObserver
from goqueue.gateways.http import ApiLimits, CorsPolicy, HttpApi
from goqueue.gateways.http.server.application import HttpRequest, HttpResponse
from goqueue.model import Caller, Code, Facts, Refused, Timestamp
from goqueue.model.requests import Command, Reply

NOW = Timestamp(1_700_000_000_000_000_000)
LOCAL = {b"host": b"127.0.0.1:8080"}


class RefusingBroker:
    """Refuses every command, and keeps them."""

    def __init__(self, code: Code = Code.BROKER_UNAVAILABLE, **facts: Unpack[Facts]) -> None:
        self.asked: list[Command] = []
        self._refusal = Refused(code, **facts)

    async def ask(self, command: Command, _: Caller) -> Reply:
        self.asked.append(command)
        raise self._refusal


class BrokenBroker:
    """Fails in a way that nobody foresaw."""

    async def ask(self, command: Command, _: Caller) -> Reply:
        raise RuntimeError(f"a secret inside: {command}")


class SilentBroker:
    """Never answers."""

    async def ask(self, command: Command, _: Caller) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError(command)


class Client:
    """Sends requests to an API and reads the answers."""

    def __init__(
        self,
        broker: RefusingBroker | BrokenBroker | SilentBroker | None = None,
        *,
        cors: CorsPolicy | None = None,
        limits: ApiLimits | None = None,
        requests: RequestObserver = UNOBSERVED,
    ) -> None:
        self.broker = RefusingBroker() if broker is None else broker
        facts = NodeFacts(version="1.2.3", started_at=Timestamp(NOW - 1_500_000_000))
        self.api = HttpApi(
            self.broker, facts, cors=cors, limits=limits, clock=lambda: NOW, requests=requests
        )

    def send(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: dict[bytes, bytes] | None = None,
    ) -> HttpResponse:
        path, _, query = target.encode().partition(b"?")
        sent = LOCAL if headers is None else {**LOCAL, **headers}
        found = self.api.resolve(method, path)
        request = HttpRequest(method, path, query, sent, bytearray(body), "127.0.0.1", found)
        return asyncio.run(self.api.answer(request))

    def get(self, target: str) -> HttpResponse:
        return self.send("GET", target)

    def post(self, target: str, body: object) -> HttpResponse:
        return self.send("POST", target, msgspec.json.encode(body))

    def asked(self) -> Command:
        """The only command that got through."""
        assert isinstance(self.broker, RefusingBroker)
        [command] = self.broker.asked
        return command


def read(response: HttpResponse) -> dict[str, object]:
    """The JSON object of a response."""
    assert isinstance(response.body, bytes | bytearray)
    return msgspec.json.decode(response.body, type=dict[str, object])


def code_of(response: HttpResponse) -> object:
    return read(response)["code"]


def header(response: HttpResponse, name: bytes) -> bytes | None:
    return dict(response.headers).get(name)
