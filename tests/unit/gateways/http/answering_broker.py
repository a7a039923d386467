"""A broker that gives the answers it was told to, in order, and notes what it was asked."""

import asyncio

import msgspec

from goqueue.gateways import NodeFacts
from goqueue.gateways.http import HttpApi
from goqueue.gateways.http.server.application import HttpRequest, HttpResponse
from goqueue.model import Caller, Refused
from goqueue.model.requests import Command, Reply
from tests.unit.gateways.http.refusing_broker import LOCAL, NOW

__all__ = ["AnsweringBroker", "send"]


class AnsweringBroker:
    """Answers each command with the next of its replies; a refusal is raised."""

    def __init__(self, *replies: Reply | Refused) -> None:
        self.asked: list[Command] = []
        self._replies = list(replies)

    async def ask(self, command: Command, _: Caller) -> Reply:
        self.asked.append(command)
        reply = self._replies.pop(0)
        if isinstance(reply, Refused):
            raise reply
        return reply


def send(broker: AnsweringBroker, method: str, target: str, body: object = b"") -> HttpResponse:
    """One request to an API in front of this broker."""
    api = HttpApi(broker, NodeFacts(version="1.2.3", started_at=NOW), clock=lambda: NOW)
    path, _, query = target.encode().partition(b"?")
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    found = api.resolve(method, path)
    request = HttpRequest(method, path, query, LOCAL, bytearray(content), "127.0.0.1", found)
    return asyncio.run(api.answer(request))
