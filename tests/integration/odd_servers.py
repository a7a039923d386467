"""HTTP servers that are no GoQueue node: gateways without one behind them, and other programs."""

import contextlib
import http.client
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

__all__ = ["OddReply", "answering", "gateway", "speaking"]


class OddReply(msgspec.Struct, frozen=True):
    """What such a server says to every request."""

    status: int
    body: bytes = b""
    content_type: str = "text/html"


Answer = Callable[[str], OddReply | None]


@contextlib.contextmanager
def answering(reply: OddReply) -> Iterator[str]:
    """A server that says the same to everybody; its address."""
    with _serving(lambda _path: reply, "") as url:
        yield url


@contextlib.contextmanager
def gateway(node: str, answer: Answer) -> Iterator[str]:
    """A gateway to a node that answers some paths by itself; its address."""
    with _serving(answer, node) as url:
        yield url


@contextlib.contextmanager
def _serving(answer: Answer, node: str) -> Iterator[str]:
    class OddResponder(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = answer(self.path) or self._forwarded(body)
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _answer  # noqa: N815 - their names

        def _forwarded(self, body: bytes) -> OddReply:
            client = http.client.HTTPConnection(urllib.parse.urlsplit(node).netloc, timeout=30)
            with contextlib.closing(client):
                headers = {"Content-Type": self.headers.get("Content-Type", "")}
                client.request(self.command, self.path, body, headers)
                reply = client.getresponse()
                kind = reply.getheader("Content-Type", "")
                return OddReply(reply.status, reply.read(), kind)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), OddResponder)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def speaking(said: bytes) -> Iterator[str]:
    """A server that says some bytes to everybody and hangs up; its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    is_over = threading.Event()

    def serve() -> None:
        while not is_over.is_set():
            with contextlib.suppress(OSError):
                client, _ = listener.accept()
                with client:
                    client.recv(65536)
                    client.sendall(said)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        is_over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
