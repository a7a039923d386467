"""A road to a node that breaks: requests arrive, and answers get lost on the way back.

Carries bytes between a client and the node, one exchange at a time on each connection, as HTTP/1.1
without pipelining has it. Asked before each answer whether to cut: then the node has done what was
asked, and the client never learns of it. Asked before each request, too: then the node gets part
of it, and does nothing.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

__all__ = ["Proxy", "cutting"]

Judge = Callable[[str], bool]

_CHUNK = 64 * 1024


def _never(_: str) -> bool:
    return False


class Proxy:
    """Told by a test what to cut, by the first line of the request."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        assert parts.hostname is not None
        assert parts.port is not None
        self._upstream = parts.hostname, parts.port
        self._carrying: set[asyncio.Task[None]] = set()
        self.url = ""
        self.cuts_answer: Judge = _never
        self.cuts_request: Judge = _never
        self.cut = 0

    async def open(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def close(self) -> None:
        for task in list(self._carrying):
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            answers, requests = await asyncio.open_connection(*self._upstream)
            try:
                await self._exchange(reader, writer, answers, requests)
            finally:
                for each in (requests, writer):
                    each.transport.abort()

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        requests: asyncio.StreamWriter,
    ) -> None:
        line = ""
        coming = asyncio.ensure_future(reader.read(_CHUNK))
        going = asyncio.ensure_future(answers.read(_CHUNK))
        try:
            while True:
                await asyncio.wait({coming, going}, return_when=asyncio.FIRST_COMPLETED)
                if coming.done():
                    data = coming.result()
                    if data.startswith((b"GET ", b"POST ", b"DELETE ")):
                        line = data.split(b"\r\n", 1)[0].decode()
                        if self.cuts_request(line):
                            self.cut += 1
                            requests.write(data[: len(data) // 2])
                            return
                    if not data:
                        return
                    requests.write(data)
                    coming = asyncio.ensure_future(reader.read(_CHUNK))
                if going.done():
                    data = going.result()
                    if data.startswith(b"HTTP/1.1 ") and self.cuts_answer(line):
                        self.cut += 1
                        return
                    if not data:
                        return
                    writer.write(data)
                    going = asyncio.ensure_future(answers.read(_CHUNK))
        finally:
            coming.cancel()
            going.cancel()
            await asyncio.gather(coming, going, return_exceptions=True)


@contextlib.asynccontextmanager
async def cutting(upstream: str) -> AsyncIterator[Proxy]:
    """A proxy in front of a node, while the block runs."""
    proxy = Proxy(upstream)
    server = await proxy.open()
    async with server:
        try:
            yield proxy
        finally:
            await proxy.close()
