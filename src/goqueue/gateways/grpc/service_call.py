"""One call: its messages, its deadline, its answer, and the task that answers it.

Owns everything between the frames of a stream and the code of a service. A service is a coroutine
that takes a `ServiceCall`; it receives, asks the node, sends, and returns, or raises `Refused`.

Ends: the service returns or raises, the deadline passes, the client cancels or goes, the node
stops. In every case the task ends, which withdraws what it asked of the node, what it held of the
request budget is given back, and the call is reported once.

Invariant: a call sends its trailers at most once, and nothing after them.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from google.protobuf.message import DecodeError

from goqueue.gateways.grpc.http2.header_codec import encode_headers
from goqueue.gateways.grpc.http2.streams import Http2Stream, StreamEnded
from goqueue.gateways.grpc.message_reader import MessageReader, framed
from goqueue.gateways.grpc.statuses import trailers_of
from goqueue.gateways.port import ask
from goqueue.model import GRPC_MEDIA, Caller, Code, Refused
from goqueue.model.requests import Command, Reply

if TYPE_CHECKING:
    from goqueue.gateways.grpc.grpc_api import CallContext

__all__ = ["Method", "ServiceCall", "parse_timeout"]

_logger = logging.getLogger(__name__)

Expected = TypeVar("Expected", bound=Reply)
Request = TypeVar("Request")

_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNITS_S = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
# Above this, what a client sends is given back to its window only when it was taken.
_QUEUED_BYTES_MAX = 256 * 1024
# How many messages are taken at once.
_TAKEN_MAX = 1000
_HEAD = encode_headers(
    [
        (b":status", b"200"),
        (b"content-type", GRPC_MEDIA.encode()),
        (b"grpc-accept-encoding", b"identity,gzip"),
    ]
)


def parse_timeout(text: bytes) -> float | None:
    """The seconds of a `grpc-timeout`; None if it is none."""
    found = _TIMEOUT.fullmatch(text)
    return None if found is None else int(found[1]) * _UNITS_S[found[2]]


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One method of a service.

    `has_stream`: the client sends any number of messages. `waits`: it lasts as long as the client
    wants. `is_open`: no key is needed, unless health checks need one. `publishes`: one message, to
    be refused before it comes if its tenant is in debt; in a stream each message is answered for
    itself. `failure`: the message that tells a refusal before the stream ends, for clients that do
    not see its trailers.
    """

    run: "Callable[[ServiceCall], Coroutine[Any, Any, None]]"
    has_stream: bool = False
    waits: bool = False
    is_open: bool = False
    publishes: bool = False
    failure: Callable[[Refused], bytes] | None = None


class ServiceCall:
    """A call that is being answered."""

    def __init__(
        self,
        context: "CallContext",
        stream: Http2Stream,
        method: Method,
        caller: Caller,
        request_id: bytes,
    ) -> None:
        self.context = context
        self.stream = stream
        self.caller = caller
        self.request_id = request_id
        self.is_stopping = False
        self.sent_bytes = 0
        self._method = method
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        encoding = stream.headers.get(b"grpc-encoding", b"identity")
        self._reader = MessageReader(context.limits.message_bytes_max, encoding)
        # What is kept or being handled, counted for all connections and for the tenant of this one.
        self._budget = stream.held.requests
        self._held = 0
        self._withheld = 0
        # When the message that has begun must be whole, and the timer that looks.
        self._whole_by: float | None = None
        self._whole_timer: asyncio.TimerHandle | None = None
        self._arrival: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._has_head = False
        self._is_over = False
        # Why the task is being cancelled, if not by the client.
        self._cause: Refused | None = None

    def start(self) -> None:
        """Begin: at once if the client streams, otherwise when its message is whole."""
        given = self.stream.headers.get(b"grpc-timeout")
        timeout_s = None if given is None else parse_timeout(given)
        if given is not None and timeout_s is None:
            self.finish(Refused(Code.REQUEST_INVALID, field="grpc-timeout", reason="is no time"))
            return
        if not self._method.waits:
            limit_s = self.context.limits.handling_s
            timeout_s = limit_s if timeout_s is None else min(timeout_s, limit_s)
        if timeout_s is not None:
            self._timer = self._loop.call_later(timeout_s, self._expire)
        if self._method.has_stream:
            self._begin_task()
        elif self._method.waits:
            self._expect_message()

    # ---- what the connection calls ---------------------------------------------------------

    def receive(self, data: memoryview) -> None:
        """Bytes of the body."""
        size = len(data)
        if self._is_over or self._cause is not None:
            self.stream.give_back(size)
            return
        was_whole, count = self._reader.is_whole, len(self._reader.messages)
        try:
            self._hold(self._held + size)
            self._reader.feed(data)
        except Refused as refused:
            self._end_task(refused)
            return
        if self._reader.is_whole:
            self._whole_by = None
        elif was_whole or len(self._reader.messages) > count:
            # Another message has begun.
            self._expect_message()
        if self._reader.queued_bytes > _QUEUED_BYTES_MAX:
            self._withheld += size
        else:
            self.stream.give_back(size)
        if self._reader.messages:
            self._announce()

    def end_input(self) -> None:
        """The client has sent everything."""
        if self._is_over:
            return
        if not self._reader.is_whole:
            self._end_task(Refused(Code.REQUEST_INVALID, reason="a message is cut short"))
        elif self._method.has_stream:
            self._announce()
        elif len(self._reader.messages) != 1:
            self.finish(Refused(Code.REQUEST_INVALID, reason="the method takes one message"))
        else:
            self._whole_by = None
            self._begin_task()

    def cancel(self) -> None:
        """The stream is over."""
        if self._is_over:
            return
        if self._task is None:
            self._close(None, is_gone=True)
        else:
            self._task.cancel()

    def stop(self) -> None:
        """The node stops: calls that last end now, others when they are answered."""
        self.is_stopping = True
        if self._task is None and not self._method.has_stream:
            self.finish(Refused(Code.BROKER_UNAVAILABLE))
        elif self._method.waits and not self._method.has_stream:
            self._end_task(Refused(Code.BROKER_UNAVAILABLE))
        else:
            self._announce()

    # ---- what services call ----------------------------------------------------------------

    def request(self, kind: type[Request]) -> Request:
        """The one message of a unary request."""
        return self.parse(kind, self._take(1)[0])

    def parse(self, kind: type[Request], message: bytes) -> Request:
        """A message as an object; refuses what is none."""
        try:
            read: Request = kind.FromString(message)  # type: ignore[attr-defined]  # all have it
        except DecodeError:
            raise Refused(Code.REQUEST_INVALID, reason="the message is not readable") from None
        return read

    async def receive_messages(self) -> list[bytes]:
        """What has come since the last time, waiting for something; empty when all has come."""
        self._hold(self._reader.held_bytes)
        while not self._reader.messages:
            if self.stream.has_input_ended:
                return []
            if self.is_stopping:
                raise Refused(Code.BROKER_UNAVAILABLE)
            self._arrival = self._loop.create_future()
            await self._arrival
        taken = self._take(_TAKEN_MAX)
        if self._withheld and self._reader.queued_bytes <= _QUEUED_BYTES_MAX:
            size, self._withheld = self._withheld, 0
            self.stream.give_back(size)
        return taken

    def _take(self, count_max: int) -> list[bytes]:
        """The oldest messages, which are held until the next are taken; raises Refused."""
        taken = self._reader.take(count_max)
        # More than what was sent, if they were compressed.
        self._hold(self._reader.held_bytes + sum(map(len, taken)))
        return taken

    async def send(self, message: bytes) -> None:
        """Send one message; waits while the client takes nothing."""
        await self.send_messages([message])

    async def send_messages(self, messages: list[bytes]) -> None:
        """Send messages in one piece."""
        if not self._has_head:
            self._has_head = True
            self.stream.send_headers(_HEAD, is_last=False)
        data = framed(messages)
        self.sent_bytes += len(data)
        await self.stream.send(data)

    async def ask(self, command: Command, expected: type[Expected]) -> Expected:
        """Ask the node; every command has one type of reply."""
        return await ask(self.context.broker, command, expected, self.caller)

    # ---- inside ----------------------------------------------------------------------------

    def _begin_task(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._end_unrun)

    def _end_unrun(self, _task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step runs nothing, also not its end."""
        if self._is_over:
            return
        if self._cause is None:
            self._close(None, is_gone=True)
        else:
            self.finish(self._cause)

    def _expect_message(self) -> None:
        """A message has to be whole in time; the timer is moved only when it fires."""
        self._whole_by = self._loop.time() + self.context.limits.message_s
        if self._whole_timer is None:
            self._whole_timer = self._loop.call_at(self._whole_by, self._check_message)

    def _check_message(self) -> None:
        self._whole_timer = None
        if self._whole_by is None or self._is_over:
            return
        if self._loop.time() < self._whole_by:
            self._whole_timer = self._loop.call_at(self._whole_by, self._check_message)
        else:
            self._end_task(Refused(Code.REQUEST_TIMEOUT, reason="a message is not complete"))

    def _announce(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _expire(self) -> None:
        self._end_task(Refused(Code.REQUEST_TIMEOUT))

    def _end_task(self, cause: Refused) -> None:
        """End the call with a refusal that its service did not raise."""
        if self._task is None:
            self.finish(cause)
        elif self._cause is None and not self._is_over:
            self._cause = cause
            self._task.cancel()

    async def _run(self) -> None:
        failure: Refused | None = None
        try:
            await self._method.run(self)
        except Refused as refused:
            # Its frames hold what the client sent, and this one holds the refusal: a cycle that
            # would keep megabytes until the next collection.
            failure = refused.with_traceback(None)
        except StreamEnded:
            self._close(None, is_gone=True)
            return
        except asyncio.CancelledError:
            if self._cause is None:
                self._close(None, is_gone=True)
                return
            failure = self._cause
        except Exception:
            _logger.exception("call %s failed", self.request_id.decode("ascii"))
            failure = Refused(Code.INTERNAL_ERROR)
        self.finish(failure)

    def finish(self, failure: Refused | None) -> None:
        """Send the trailers, once."""
        if self._is_over:
            return
        if failure is not None and self._method.failure is not None:
            self._tell(self._method.failure(failure))
        trailers = encode_headers(trailers_of(failure))
        block = trailers if self._has_head else _HEAD + trailers
        self._close(failure, is_gone=False)
        self.stream.send_headers(block, is_last=True)

    def _tell(self, message: bytes) -> None:
        """Send a last message, if the client takes it at once: the trailers say the same."""
        data = framed([message])
        if self.stream.is_closed or not self.stream.has_room(len(data)):
            return
        if not self._has_head:
            self._has_head = True
            self.stream.send_headers(_HEAD, is_last=False)
        self.stream.send_at_once(data)
        self.sent_bytes += len(data)

    def _close(self, failure: Refused | None, *, is_gone: bool) -> None:
        self._is_over = True
        for timer in (self._timer, self._whole_timer):
            if timer is not None:
                timer.cancel()
        self._hold(0)
        self.stream.held.settle()
        self.context.report(self, failure, self._loop.time() - self._began, is_gone=is_gone)

    def _hold(self, size: int) -> None:
        """Hold so many bytes from now on; raises Refused if these are more than a budget."""
        more = size - self._held
        if more <= 0:
            self._budget.give_back(-more)
        elif not self._budget.take(more):
            raise Refused(Code.BROKER_UNAVAILABLE, reason="too many requests are waiting")
        self._held = size
