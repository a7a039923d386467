"""A second gateway, as docs/development/add-a-gateway.md builds it: a line protocol over TCP.

    PUBLISH <topic> <value>             ->  OK <partition> <offset>
    READ <topic> <partition> <offset>   ->  MESSAGE <offset> <value as JSON>, for each message
                                            END <next offset>
    WAIT <topic> <partition> <offset>   ->  the same, but waits for a message
    AUTH <secret>                       ->  OK, and all that follows is asked with this key

A refusal is `ERROR <code>`. Replies leave in the order of their commands.
"""

import asyncio
import json
from typing import cast

from goqueue.gateways import (
    AbortedRanges,
    Admission,
    Broker,
    Endpoint,
    Gateway,
    GatewayPort,
    Listener,
    TcpListener,
    ask,
    offset_after,
    peer_of,
    visible_records,
)
from goqueue.model import SECOND, Caller, Code, Message, Offset, ProvenKey, Refused
from goqueue.model.requests import Publish, Published, Read, Records
from goqueue.records import build

__all__ = ["line_gateway"]

LINE_BYTES_MAX = 64 * 1024
# Commands that were read and not answered yet, on one connection; at this number reading pauses.
LINES_MAX = 16
MESSAGES_MAX = 100
READ_BYTES_MAX = 1024 * 1024
WAIT_NS = 30 * SECOND
IDLE_S = 60.0
WRITE_S = 30.0


def line_gateway(endpoint: Endpoint) -> Gateway:
    """The line protocol on one endpoint."""

    def create(port: GatewayPort) -> Listener:
        return TcpListener(
            "line",
            endpoint,
            lambda listener: LineConnection(port, listener),
            port.capacity,
            waits_for_node=True,
        )

    return create


async def execute(broker: Broker, line: bytes, caller: Caller) -> bytes:
    """Carry out one command; the lines of its reply."""
    try:
        match line.split(b" ", 3):
            case [b"PUBLISH", topic, *rest]:
                return await publish(broker, topic.decode(), b" ".join(rest), caller)
            case [b"READ" | b"WAIT" as verb, topic, partition, offset]:
                read = Read(
                    topic=topic.decode(),
                    partition=int(partition),
                    offset=Offset(int(offset)),
                    bytes_max=READ_BYTES_MAX,
                    wait_ns=WAIT_NS if verb == b"WAIT" else 0,
                )
                return encode(await ask(broker, read, Records, caller))
    except Refused as refused:
        return error(refused.code)
    except ValueError:
        # What should be a number or UTF-8 is not.
        return error(Code.REQUEST_INVALID)
    return error(Code.REQUEST_INVALID)


def error(code: Code) -> bytes:
    return b"ERROR %b\n" % code.value.encode()


async def publish(broker: Broker, topic: str, value: bytes, caller: Caller) -> bytes:
    command = Publish(topic=topic, batch=build([Message(value=value)]))
    published = await ask(broker, command, Published, caller)
    placed = published.placed[0]
    if placed.refused is not None:
        raise Refused(placed.refused)
    return b"OK %d %d\n" % (placed.partition, placed.first)


def encode(records: Records) -> bytes:
    """The messages that a committed reader may see, and where to continue."""
    lines: list[bytes] = []
    following = offset_after(records)
    aborted = AbortedRanges(records.aborted)
    for piece in records.data:
        room = MESSAGES_MAX - len(lines)
        for record in visible_records(piece, records.offset, room, aborted):
            value = json.dumps((record.value or b"").decode("utf-8", "backslashreplace"))
            lines.append(b"MESSAGE %d %b\n" % (record.offset, value.encode()))
            if len(lines) == MESSAGES_MAX:
                following = record.offset + 1
        if len(lines) == MESSAGES_MAX:
            break
    return b"".join((*lines, b"END %d\n" % following))


class LineConnection(asyncio.Protocol):
    """One client: reads lines, answers them in order, and holds no more than its limits."""

    def __init__(self, port: GatewayPort, listener: TcpListener) -> None:
        self._broker = port.broker
        self._authenticator = port.authenticator
        self._key: ProvenKey | None = None
        self._listener = listener
        self._capacity = listener.capacity
        self._traffic = listener.traffic
        self._worker: asyncio.Task[None] | None = None
        # Commands in order; after the last, the code of a refusal, or None for a plain end.
        self._lines: asyncio.Queue[bytes | Code | None] = asyncio.Queue()
        self._buffer = bytearray()
        self._held = 0
        self._unsent = 0
        self._is_ended = False
        self._writable = asyncio.Event()
        self._writable.set()

    # ---- what the listener calls -----------------------------------------------------------

    @property
    def worker(self) -> asyncio.Task[None] | None:
        return self._worker

    def drain(self) -> None:
        self._end(None)

    def cut(self) -> None:
        self._transport.abort()

    # ---- what the event loop calls ---------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._peer = peer_of(transport)
        match self._listener.admit(self, self._peer):
            case Admission.ACCEPTED:
                self._worker = asyncio.get_running_loop().create_task(self._serve())
            case Admission.OVERFULL | Admission.EXPIRED:
                self.cut()
            case Admission.FULL | Admission.STOPPING:
                self._close(Code.BROKER_UNAVAILABLE)

    def data_received(self, data: bytes) -> None:
        if self._is_ended:
            return
        self._traffic.bytes_in += len(data)
        if not self._capacity.requests.take(len(data)):
            self._end(Code.BROKER_UNAVAILABLE)
            return
        self._held += len(data)
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        for line in lines:
            if len(line) > LINE_BYTES_MAX:
                self._end(Code.BODY_TOO_LARGE)
                return
            self._lines.put_nowait(bytes(line))
        if len(rest) > LINE_BYTES_MAX:
            self._end(Code.BODY_TOO_LARGE)
        elif self._lines.qsize() >= LINES_MAX:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        self.drain()
        # Commands before the end are still answered, except under TLS, which has no half-close.
        return not self._peer.is_tls

    def pause_writing(self) -> None:
        self._writable.clear()
        self._record_unsent(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._writable.set()
        self._record_unsent(0)

    def connection_lost(self, _error: Exception | None) -> None:
        self._is_ended = True
        self._record_unsent(0)
        self._capacity.requests.give_back(self._held)
        self._held = 0
        if self._worker is not None:
            self._worker.cancel()
        self._listener.forget(self, self._peer)

    # ---- inside ----------------------------------------------------------------------------

    async def _reply(self, line: bytes) -> bytes:
        if line.startswith(b"AUTH ") and self._authenticator.is_on:
            self._key = self._authenticator.prove(line.removeprefix(b"AUTH "))
            return error(Code.UNAUTHENTICATED) if self._key is None else b"OK\n"
        caller = self._authenticator.caller(self._key, "line", self._peer.address, "")
        return await execute(self._broker, line, caller)

    async def _serve(self) -> None:
        try:
            while True:
                async with asyncio.timeout(IDLE_S):
                    line = await self._lines.get()
                if not isinstance(line, bytes):
                    self._close(line)
                    return
                self._write(await self._reply(line))
                self._traffic.requests_total += 1
                self._give_back(len(line) + 1)
                async with asyncio.timeout(WRITE_S):
                    await self._writable.wait()
                if self._lines.empty():
                    self._transport.resume_reading()
        except TimeoutError:
            self._transport.abort()

    def _end(self, code: Code | None) -> None:
        """Read nothing more, and close when the commands so far are answered."""
        if not self._is_ended:
            self._is_ended = True
            self._lines.put_nowait(code)

    def _close(self, code: Code | None) -> None:
        self._is_ended = True
        if code is not None:
            self._write(error(code))
        self._transport.close()

    def _write(self, reply: bytes) -> None:
        self._traffic.bytes_out += len(reply)
        self._transport.write(reply)

    def _give_back(self, size: int) -> None:
        size = min(size, self._held)
        self._held -= size
        self._capacity.requests.give_back(size)

    def _record_unsent(self, size: int) -> None:
        self._capacity.unsent.replace(self._unsent, size)
        self._unsent = size
