"""How a call ends: what it held of the request budget is given back, and it is reported once."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from goqueue.gateways.connection_limits import Capacity, ConnectionBytes, ConnectionLimits
from goqueue.gateways.grpc.grpc_api import CallContext, GrpcLimits
from goqueue.gateways.grpc.http2.streams import Http2Stream
from goqueue.gateways.grpc.service_call import Method, ServiceCall
from goqueue.model import LOCAL, Code, Refused, Timestamp

BODY = b"v" * 1000
MESSAGE = struct.pack(">BL", 0, len(BODY)) + BODY


class RecordedStream:
    """The frames that a call sends, and the window that it gives back."""

    def __init__(self, held: ConnectionBytes) -> None:
        self.held = held
        self.headers: dict[bytes, bytes] = {}
        self.returned = 0
        self.has_input_ended = False
        self.is_closed = False
        self.ends: list[bytes] = []

    def give_back(self, size: int) -> None:
        self.returned += size

    def has_room(self, _size: int) -> bool:
        return True

    def send_at_once(self, _data: bytes) -> None:
        raise AssertionError("no message was to be sent")

    def send_headers(self, block: bytes, *, is_last: bool) -> None:
        if is_last:
            self.ends.append(block)


class CallUnderTest:
    """A call of a method that waits until it is told to end."""

    def __init__(self, *, has_stream: bool, budget: int = 1_000_000) -> None:
        self.capacity = Capacity(ConnectionLimits(request_bytes_max=budget))
        self.reports: list[tuple[Refused | None, bool]] = []
        self.stream = RecordedStream(ConnectionBytes(self.capacity))
        self.is_over = False
        method = Method(run=self._run, has_stream=has_stream, waits=True)
        context = CallContext(
            broker=cast("Any", None),
            limits=GrpcLimits(),
            clock=lambda: Timestamp(0),
            report=self._report,
            leave=lambda _leave, _caller: None,
        )
        stream = cast("Http2Stream", self.stream)
        self.call = ServiceCall(context, stream, method, LOCAL, b"1")
        self.call.start()

    async def _run(self, call: ServiceCall) -> None:
        try:
            while await call.receive_messages():
                pass
            await asyncio.get_running_loop().create_future()
        finally:
            self.is_over = True

    def _report(
        self, _call: ServiceCall, failure: Refused | None, _took_s: float, *, is_gone: bool
    ) -> None:
        self.reports.append((failure, is_gone))


def run(scene: Callable[[], Awaitable[None]]) -> None:
    async def play() -> None:
        await scene()

    asyncio.run(play())


async def settle() -> None:
    """Let tasks that were started or cancelled have their turns."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_call_that_is_cancelled_before_its_task_began_gives_its_budget_back() -> None:
    async def scene() -> None:
        found = CallUnderTest(has_stream=False)
        found.call.receive(memoryview(MESSAGE))
        found.call.end_input()
        found.call.cancel()
        await settle()
        assert found.capacity.requests.bytes_held == 0
        assert found.reports == [(None, True)]

    run(scene)


def test_a_call_that_is_refused_before_its_task_began_still_sends_its_trailers() -> None:
    async def scene() -> None:
        found = CallUnderTest(has_stream=True)
        found.call.receive(memoryview(struct.pack(">BL", 0, 2**31)))
        await settle()
        assert found.capacity.requests.bytes_held == 0
        [(failure, is_gone)] = found.reports
        assert failure is not None
        assert not is_gone
        assert len(found.stream.ends) == 1

    run(scene)


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_stream_that_meets_a_spent_budget_ends_once_and_gives_back_what_it_held(
    is_busy: bool,
) -> None:
    async def scene() -> None:
        found = CallUnderTest(has_stream=True, budget=2 * len(MESSAGE))
        found.call.receive(memoryview(MESSAGE))
        if is_busy:
            await settle()
        for _ in range(3):
            found.call.receive(memoryview(MESSAGE))
        await settle()
        assert found.is_over or not is_busy
        assert found.capacity.requests.bytes_held == 0
        [(failure, is_gone)] = found.reports
        assert failure is not None
        assert failure.code is Code.BROKER_UNAVAILABLE
        assert not is_gone
        assert len(found.stream.ends) == 1

    run(scene)
