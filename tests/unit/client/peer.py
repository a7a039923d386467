"""A server at the other end of a socket that answers as a test tells it to.

Speaks plain HTTP/1.1 through asyncio's streams, apart from everything that the client is made of.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

__all__ = [
    "HANG_UP",
    "Answer",
    "Answering",
    "Asked",
    "Script",
    "json_answer",
    "peer",
    "refusal_answer",
]


class Asked(msgspec.Struct, frozen=True):
    """A request as it came over the wire; `connection` counts connections from 0."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


class Answer(msgspec.Struct, frozen=True):
    """What to send back."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = {}


HANG_UP = Answer(status=0)

Answering = Callable[[Asked], Awaitable[Answer]]


def json_answer(body: object, status: int = 200) -> Answer:
    return Answer(status=status, body=msgspec.json.encode(body))


def refusal_answer(status: int, code: str, **details: object) -> Answer:
    body = {"error": f"a sentence about {code}", "code": code, "status": status}
    return json_answer({**body, "details": details}, status)


class Script:
    """Answers one after the other, the last one again and again; keeps what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[Asked] = []

    async def __call__(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@contextlib.asynccontextmanager
async def peer(answering: Answering) -> AsyncIterator[str]:
    """The URL of the server, while it runs; at the end nothing of it is left."""
    serving: list[asyncio.Task[None]] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = _serve(reader, writer, answering, len(serving))
        serving.append(asyncio.ensure_future(served))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answering: Answering, number: int
) -> None:
    try:
        while (asked := await _read(reader, number)) is not None:
            answer = await answering(asked)
            if answer is HANG_UP:
                break
            writer.write(_words(answer))
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _read(reader: asyncio.StreamReader, connection: int) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, target, headers, body, connection)


def _words(answer: Answer) -> bytes:
    headers = {"Content-Length": str(len(answer.body)), **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} Answer"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + answer.body
