"""How many small requests a second our HTTP transport carries, and uvicorn beside it.

`python bench/broker/http_transport.py --help`. A server of its own process answers a fixed body to
every publish; the client holds 64 keep-alive connections with one request on each. One JSON line
per server: requests a second, and the server's processor time per request, which other load on
the machine disturbs less. uvicorn is left out where it is not installed.
"""

import argparse
import asyncio
import importlib
import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import uvloop

from goqueue.gateways.http.server.application import Target
from goqueue.model import ProvenKey

ROOT = Path(__file__).resolve().parents[2]
BODY = b'{"messages":[{"key":"customer-17","value":"one small message of an ordinary size"}]}'
REPLY = b'{"results":[{"partition":0,"offset":123456789}]}'
REQUEST = (
    b"POST /topics/orders/messages HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: */*\r\n"
    b"Accept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\nUser-Agent: bench\r\n"
    b"Content-Length: %d\r\nContent-Type: application/json\r\n\r\n%b" % (len(BODY), BODY)
)
CONNECTIONS = 64

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, object]], Awaitable[None]]


# ---- servers, each in its own process ------------------------------------------------------


class FixedTarget(msgspec.Struct, frozen=True):
    """The same limits for every request."""

    body_bytes_max: int = 1 << 20
    may_be_large: bool = False
    handling_s: float = 30.0
    keeps_body: bool = True
    is_last: bool = False


class Unlimited:
    """A connection without a tenant."""

    def admit(self, target: Target, _: ProvenKey | None) -> Target:
        return target

    def close(self) -> None:
        """Nothing was counted."""


async def serve_ours(done: asyncio.Event) -> None:
    from goqueue.gateways import Endpoint
    from goqueue.gateways.connection_limits import ConnectionBytes
    from goqueue.gateways.http import http_listener
    from goqueue.gateways.http.server.application import HttpRequest, HttpResponse
    from goqueue.model import Code

    target = FixedTarget()

    class Fixed:
        """Answers every request alike."""

        guard = None

        def resolve(self, _method: str, _path: bytes) -> FixedTarget:
            return target

        def connected(self, _held: ConnectionBytes) -> Unlimited:
            return Unlimited()

        async def answer(self, _request: HttpRequest) -> HttpResponse:
            return HttpResponse(200, REPLY)

        def refusal(
            self,
            status: int,
            code: Code,
            sentence: str,
            _details: Mapping[str, int],
            _headers: Mapping[bytes, bytes],
            *,
            client: str,  # noqa: ARG002 - named by the protocol
        ) -> HttpResponse:
            return HttpResponse(status, json.dumps({"error": sentence, "code": code}).encode())

    listener = http_listener(Fixed(), Endpoint("127.0.0.1", 0))
    _, port = await listener.open()
    await listener.serve()
    print(port, flush=True)
    await done.wait()
    await listener.stop(grace_s=10)


async def serve_uvicorn(done: asyncio.Event) -> None:
    uvicorn: Any = importlib.import_module("uvicorn")

    async def app(scope: Mapping[str, object], receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        body = bytearray()
        is_more = True
        while is_more:
            part = await receive()
            body += part.get("body", b"")
            is_more = part.get("more_body", False)
        headers = [
            (b"content-type", b"application/json"),
            (b"cache-control", b"no-store"),
            (b"content-length", b"%d" % len(REPLY)),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": REPLY})

    config = uvicorn.Config(
        app,
        port=0,
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="error",
        server_header=False,
        date_header=False,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn sets a flag and no event
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await done.wait()
    server.should_exit = True
    await task


async def serve(which: str) -> None:
    """Serve until told to stop, then say how much processor time it took."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), done.set)
    before = time.process_time()
    await (serve_ours if which == "ours" else serve_uvicorn)(done)
    print(time.process_time() - before, flush=True)


# ---- the client ----------------------------------------------------------------------------


class Caller(asyncio.Protocol):
    """Sends a request whenever the one before is answered."""

    def __init__(self, until: float, loop: asyncio.AbstractEventLoop) -> None:
        self.answered = 0
        self.finished: asyncio.Future[None] = loop.create_future()
        self._until = until
        self._loop = loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods without being of the class.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        # A response this small comes in one piece or two; its end is that of the body.
        if not data.endswith(REPLY):
            return
        self.answered += 1
        if self._loop.time() < self._until:
            self._transport.write(REQUEST)
        else:
            self._transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        self.finished.set_result(None)


async def call(port: int, seconds: float) -> int:
    """How many requests were answered."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    callers: list[Caller] = []
    for _ in range(CONNECTIONS):
        _, caller = await loop.create_connection(lambda: Caller(until, loop), "127.0.0.1", port)
        callers.append(caller)
    async with asyncio.timeout(seconds + 10):
        await asyncio.gather(*(caller.finished for caller in callers))
    return sum(caller.answered for caller in callers)


def line_of(pipe: IO[str] | None) -> str:
    assert pipe is not None
    return pipe.readline()


def measure(which: str, seconds: float) -> dict[str, float | str]:
    child = subprocess.Popen(
        [sys.executable, __file__, "--serve", which],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = int(line_of(child.stdout))
        started = time.perf_counter()
        answered = uvloop.run(call(port, seconds))
        elapsed = time.perf_counter() - started
        assert child.stdin is not None
        child.stdin.write("stop\n")
        child.stdin.flush()
        processor_s = float(line_of(child.stdout))
        child.wait(10)
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
        child.communicate()
    return {
        "server": which,
        "requests_per_s": round(answered / elapsed),
        "server_us_per_request": round(processor_s / max(answered, 1) * 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", choices=("ours", "uvicorn"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve(options.serve))
        return
    servers = ["ours"]
    if importlib.util.find_spec("uvicorn") is not None:
        servers.append("uvicorn")
    for _ in range(options.rounds):
        for which in servers:
            print(json.dumps(measure(which, options.seconds)), flush=True)


if __name__ == "__main__":
    # Python put this file's folder here, where `goqueue` is not.
    sys.path[0] = str(ROOT / "src")
    main()
