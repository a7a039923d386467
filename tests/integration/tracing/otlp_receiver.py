"""A receiver of OTLP as a process of its own: real HTTP or gRPC, the protocol's own messages.

    python otlp_receiver.py http|grpc taking|refusing|silent FILE PORT

Prints its port, which is any free one for 0. Every span that it takes becomes a line of FILE. One
that refuses answers as an overloaded collector does; one that is silent lets callers in and never
answers.
"""

import gzip
import json
import socketserver
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

FOREVER = threading.Event()


class Inbox:
    """Writes what comes, in the words of the protocol."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()

    def take(self, request: ExportTraceServiceRequest) -> None:
        lines = [
            json.dumps(described(span, resource=attributes(each.resource.attributes)))
            for each in request.resource_spans
            for scope in each.scope_spans
            for span in scope.spans
        ]
        with self._turn, self._path.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))


def attributes(pairs: "list[KeyValue]") -> dict[str, str | int]:
    return {
        pair.key: pair.value.int_value
        if pair.value.WhichOneof("value") == "int_value"
        else pair.value.string_value
        for pair in pairs
    }


def described(span: Span, resource: dict[str, str | int]) -> dict[str, Any]:
    return {
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_span_id": span.parent_span_id.hex(),
        "name": span.name,
        "kind": Span.SpanKind.Name(span.kind),
        "start": span.start_time_unix_nano,
        "end": span.end_time_unix_nano,
        "attributes": attributes(list(span.attributes)),
        "events": [[event.time_unix_nano, event.name] for event in span.events],
        "links": [[link.trace_id.hex(), link.span_id.hex()] for link in span.links],
        "status": Status.StatusCode.Name(span.status.code),
        "message": span.status.message,
        "resource": resource,
    }


def tell(port: object) -> None:
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


def serve_http(mode: str, inbox: Inbox, port: int) -> None:
    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if mode == "silent":
                FOREVER.wait()
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            is_taken = mode == "taking" and self.path == "/v1/traces"
            if is_taken:
                inbox.take(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200 if is_taken else 503)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    socketserver.TCPServer.allow_reuse_address = True
    server = ThreadingHTTPServer(("127.0.0.1", port), Door)
    server.daemon_threads = True
    tell(server.server_address[1])
    server.serve_forever()


def serve_grpc(mode: str, inbox: Inbox, port: int) -> None:
    class Door(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(  # noqa: N802 - the protocol's name
            self, request: ExportTraceServiceRequest, context: grpc.ServicerContext
        ) -> ExportTraceServiceResponse:
            if mode == "silent":
                FOREVER.wait()
            if mode == "refusing":
                context.abort(grpc.StatusCode.UNAVAILABLE, "overloaded")
            inbox.take(request)
            return ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(4))
    # Generated code has no types.
    add_door = cast(
        "Callable[[Door, object], None]", trace_service_pb2_grpc.add_TraceServiceServicer_to_server
    )
    add_door(Door(), server)
    tell(server.add_insecure_port(f"127.0.0.1:{port}"))
    server.start()
    FOREVER.wait()


def main() -> None:
    protocol, mode, path, port = sys.argv[1:]
    assert mode in {"taking", "refusing", "silent"}
    serve = {"http": serve_http, "grpc": serve_grpc}[protocol]
    serve(mode, Inbox(Path(path)), int(port))


if __name__ == "__main__":
    main()
