"""The states of an HTTP connection: the tables, and a connection driven through any events.

The connection is the real one, on a transport in memory and a loop whose clock the test moves, so
that a sequence of events that hypothesis finds can be replayed exactly.
"""

import asyncio
import json
import random
import re
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.gateways import Capacity, Endpoint, TcpListener
from goqueue.gateways.connection_limits import ConnectionBytes
from goqueue.gateways.http.server.application import HttpLimits, HttpRequest, HttpResponse
from goqueue.gateways.http.server.connection import HttpConnection
from goqueue.gateways.http.server.states import (
    INPUTS,
    NEVER,
    PHASES,
    STATES,
    ConnectionState,
    Event,
    IllegalTransition,
    Input,
    Phase,
    State,
    read_timeouts,
)
from goqueue.model import Code
from tests.examples import examples
from tests.unit.gateways.loopback import EchoTarget, Unlimited

# ---- the tables ----------------------------------------------------------------------------

INPUT_EVENTS = frozenset(event for row in INPUTS.values() for event in row)
STATE_EVENTS = frozenset(event for row in STATES.values() for event in row)


def test_every_state_has_a_row_and_every_event_belongs_to_one_machine() -> None:
    assert set(STATES) == set(State)
    assert set(INPUTS) == set(Input)
    assert set(PHASES) == set(Phase)
    assert set(Event) == STATE_EVENTS | INPUT_EVENTS
    assert not STATE_EVENTS & INPUT_EVENTS


def test_every_connection_can_be_cut_and_lost_until_it_is_closed() -> None:
    for state, row in STATES.items():
        if state is State.CLOSED:
            assert not row
        else:
            assert row[Event.LOST] is State.CLOSED
            assert row[Event.CUT] is State.CLOSING
    # Nothing but these two leads out of a connection that has said its last word.
    assert set(STATES[State.CLOSING]) == {Event.CUT, Event.LOST}
    assert set(STATES[State.LINGERING]) == {Event.CUT, Event.LOST}


@given(st.lists(st.sampled_from(Event)))
def test_any_sequence_of_events_stays_in_the_tables_and_an_illegal_one_changes_nothing(
    events: list[Event],
) -> None:
    states = ConnectionState()
    for event in (*events, Event.LOST):
        state, read = states.state, states.input
        is_legal = event in STATES[state] or event in INPUTS[read]
        report = states.on_input if event in INPUT_EVENTS else states.on
        if is_legal:
            report(event)
            assert (states.state, states.input) == (
                STATES[state].get(event, state),
                INPUTS[read].get(event, read),
            )
        else:
            with pytest.raises(IllegalTransition, match=event.name):
                report(event)
            assert (states.state, states.input) == (state, read)
    assert states.state is State.CLOSED


def test_only_a_client_that_owes_something_has_a_deadline() -> None:
    limits = HttpLimits()
    timeouts = read_timeouts(limits)
    bounded = {
        (state, phase)
        for state, row in timeouts.items()
        for phase, seconds in row.items()
        if seconds < NEVER
    }
    receiving = {Phase.HEAD, Phase.BODY}
    assert bounded == {
        (State.IDLE, Phase.BETWEEN),
        *((state, phase) for state in (State.IDLE, State.ANSWERING) for phase in receiving),
        *((State.SENDING, phase) for phase in receiving),
        *((State.LINGERING, phase) for phase in Phase),
    }
    assert timeouts[State.IDLE][Phase.BETWEEN] == limits.idle_timeout_s
    assert timeouts[State.ANSWERING][Phase.BODY] == limits.body_timeout_s


# ---- a connection in memory ----------------------------------------------------------------


class ManualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock stands still until the test moves it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def time(self) -> float:
        return self.now


class Peer:
    """What the kernel says of the client's side: TCP_ESTABLISHED, CLOSE_WAIT or CLOSE."""

    def __init__(self) -> None:
        self.state = 1

    def getsockopt(self, _level: int, _option: int, _size: int) -> bytes:
        return bytes([self.state])


class MemoryTransport(asyncio.Transport):
    """Keeps what is written until the client reads it, as a socket with its buffer does."""

    def __init__(self, loop: ManualLoop, connection: asyncio.Protocol) -> None:
        super().__init__()
        self.peer = Peer()
        self.sent = bytearray()
        self.is_paused = False
        self.has_written_eof = False
        self._loop = loop
        self._connection = connection
        self._buffer = bytearray()
        self._high = 64 * 1024
        self._is_blocked = False
        self._is_closing = False
        self._is_lost = False

    def get_extra_info(self, name: str, _default: object = None) -> object:
        infos = {"peername": ("192.0.2.1", 4711), "socket": self.peer}
        return infos.get(name)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert low is None
        self._high = high or 0

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self) -> None:
        assert self.is_paused
        self.is_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.has_written_eof
        if self._is_closing:
            return
        self._buffer += data
        if len(self._buffer) > self._high and not self._is_blocked:
            self._is_blocked = True
            self._connection.pause_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_written_eof = True

    def close(self) -> None:
        self._is_closing = True
        if not self._buffer:
            self.abort()

    def abort(self) -> None:
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            self._loop.call_soon(self._connection.connection_lost, None)

    def read(self, size: int) -> None:
        """The client takes bytes from the buffer."""
        if self._is_lost:
            return
        self.sent += self._buffer[:size]
        del self._buffer[:size]
        if self._is_blocked and len(self._buffer) <= self._high // 4:
            self._is_blocked = False
            self._connection.resume_writing()
        if self._is_closing and not self._buffer:
            self.abort()


TARGET = EchoTarget(body_bytes_max=500, may_be_large=True, handling_s=20.0)


class Application:
    """Answers when the test says so, each request with its number."""

    def __init__(self, loop: ManualLoop) -> None:
        self.asked = 0
        self.guard: None = None
        self.waiting: deque[asyncio.Future[bytes]] = deque()
        self._loop = loop

    def connected(self, held: ConnectionBytes) -> Unlimited:
        return Unlimited(held)

    def resolve(self, _method: str, _path: bytes) -> EchoTarget:
        return TARGET

    async def answer(self, _request: HttpRequest) -> HttpResponse:
        number, self.asked = self.asked, self.asked + 1
        answered: asyncio.Future[bytes] = self._loop.create_future()
        self.waiting.append(answered)
        try:
            return HttpResponse(200, (b"[%d]" % number, await answered), b"text/plain")
        except TimeoutError:
            return HttpResponse(504, (b"[%d]" % number, b"too late"), b"text/plain")

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
        return HttpResponse(status, json.dumps([code, sentence]).encode())


LIMITS = HttpLimits(pipelined_max=3, pipelined_bytes_max=800, write_buffer_bytes_max=1000)

REQUESTS = (
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /old HTTP/1.0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 400\r\n\r\n" + b"x" * 400,
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"nonsense\r\n\r\n",
)


class Step(NamedTuple):
    """Something that happens to the connection, and how soon the next step follows."""

    kind: str
    amount: int = 0
    turns: int = 12


# Turns of the loop in which everything that follows from a step at once has happened. Some steps
# follow each other sooner.
SETTLED = 12
SOUND, ODD = REQUESTS[:6], REQUESTS[6:]
AMOUNTS = {
    "send": (600, 200, 60, 9),
    "answer": (10, 2000, 0, 90_000),
    "read": (100_000, 5000, 500, 1),
    "wait": (0, 1, 3, 11, 31, 61),
}
# What ends a connection is rare, so that most runs are long.
KINDS = (*["send"] * 16, *["answer"] * 16, *["read"] * 12, "wait", "wait")
ENDS = ("fail", "eof", "drain", "cut", "reset", "vanish")


def draw_steps(chance: random.Random) -> list[Step]:
    """A run of steps; drawn by hand, because it is much faster than by a strategy of lists."""
    kinds = [chance.choice((*KINDS, chance.choice(ENDS))) for _ in range(chance.randint(12, 60))]
    return [
        Step(
            kind,
            chance.choice(AMOUNTS.get(kind, (0,))),
            chance.choice((SETTLED, SETTLED, 0, 1, 2)),
        )
        for kind in kinds
    ]


class Scene:
    """One connection, its client, and what both have done."""

    def __init__(self, loop: ManualLoop, stream: bytes) -> None:
        self._loop = loop
        self._stream = stream
        self._has_ended = False
        self.capacity = Capacity()
        self.application = Application(loop)
        listener = TcpListener(
            "http", Endpoint("192.0.2.1", 0), lambda _: self.connection, self.capacity
        )
        self.connection = HttpConnection(self.application, LIMITS, listener)
        self.transport = MemoryTransport(loop, self.connection)
        self.connection.connection_made(self.transport)

    @property
    def states(self) -> ConnectionState:
        return self.connection.states

    async def run(self, step: Step) -> None:
        if self.states.state is State.CLOSED:
            return
        getattr(self, f"_{step.kind}")(step.amount)
        for _ in range(step.turns):
            await asyncio.sleep(0)
        if self.states.state is State.LINGERING:
            assert not self.transport.is_paused
        if self.states.input is not Input.ENDED and not self.transport.is_closing():
            assert self.transport.is_paused == (self.states.input is Input.PAUSED)

    @property
    def _is_watched(self) -> bool:
        """Whether the loop would report anything of the socket."""
        transport = self.transport
        return not (transport.is_paused or transport.is_closing() or self._has_ended)

    def _send(self, size: int) -> None:
        if self._is_watched:
            data, self._stream = self._stream[:size], self._stream[size:]
            if data:
                self.connection.data_received(data)

    def _eof(self, _amount: int) -> None:
        if self._is_watched:
            self._has_ended = True
            self.transport.peer.state = 8
            if not self.connection.eof_received():
                self.transport.close()

    def _answer(self, size: int) -> None:
        while self.application.waiting:
            waiting = self.application.waiting.popleft()
            if not waiting.done():
                waiting.set_result(b"x" * size)
                break

    def _fail(self, _amount: int) -> None:
        if self.application.waiting and not self.application.waiting[0].done():
            self.application.waiting.popleft().set_exception(LookupError("as the test wants it"))

    def _read(self, size: int) -> None:
        self.transport.read(size)

    def _wait(self, seconds: int) -> None:
        self._loop.now += seconds

    def _drain(self, _amount: int) -> None:
        self.connection.drain()

    def _cut(self, _amount: int) -> None:
        self.connection.cut()

    def _reset(self, _amount: int) -> None:
        """The loop notices that the client has gone."""
        self.transport.abort()

    def _vanish(self, _amount: int) -> None:
        """The client has gone, and nobody watches the socket: it has to be looked for."""
        self.transport.peer.state = 7


def numbers_of(sent: bytes) -> list[int]:
    """The numbers of the requests that were answered, in the order of their responses."""
    return [int(number) for number in re.findall(rb"\r\n\r\n\[(\d+)\]", sent)]


def drive(stream: bytes, steps: list[Step]) -> Scene:
    """Let everything happen, then end the connection as a stop does; nothing may fail."""
    failures: list[Mapping[str, object]] = []

    async def main() -> Scene:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ManualLoop)
        loop.set_exception_handler(lambda _, context: failures.append(context))
        scene = Scene(loop, stream)
        for step in steps:
            await scene.run(step)
        await scene.run(Step("drain"))
        for _ in range(40):
            await scene.run(Step("answer", 10))
            await scene.run(Step("read", 1_000_000))
            await scene.run(Step("wait", 31))
        # Whoever waits for an answer is cancelled with the connection.
        assert all(waiting.done() for waiting in scene.application.waiting)
        return scene

    with asyncio.Runner(loop_factory=ManualLoop) as runner:
        scene = runner.run(main())
    assert not failures
    return scene


@settings(max_examples=examples(200))
@given(st.integers(0, 2**32))
def test_whatever_happens_a_connection_stays_legal_and_ends_closed(seed: int) -> None:
    chance = random.Random(seed)
    stream = b"".join(chance.choices((*SOUND, *SOUND, *ODD), k=chance.randint(3, 12)))
    scene = drive(stream, draw_steps(chance))

    assert scene.states.state is State.CLOSED
    answered = numbers_of(bytes(scene.transport.sent))
    assert answered == sorted(answered)
    assert len(answered) <= scene.application.asked
    # Everything that the connection held has been given back.
    capacity = scene.capacity
    assert capacity.connections_active == 0
    assert capacity.requests.bytes_held == 0
    assert capacity.unsent.bytes_held == 0


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ([Step("send", 999)], [State.ANSWERING]),
        ([Step("send", 999), Step("answer", 10)], [State.ANSWERING, State.IDLE]),
        (
            [Step("send", 999), Step("answer", 9000), Step("read", 9999)],
            [State.ANSWERING, State.SENDING, State.IDLE],
        ),
        ([Step("wait", 61)], [State.CLOSED]),
        # An answer that takes too long is replaced, and the connection stays.
        ([Step("send", 999), Step("wait", 21)], [State.ANSWERING, State.IDLE]),
        ([Step("send", 999), Step("cut")], [State.ANSWERING, State.CLOSED]),
        ([Step("send", 5), Step("wait", 11)], [State.IDLE, State.LINGERING]),
        (
            [Step("send", 5), Step("wait", 11), Step("wait", 3)],
            [State.IDLE, State.LINGERING, State.CLOSED],
        ),
        ([Step("send", 5), Step("eof")], [State.IDLE, State.CLOSING]),
        (
            [Step("send", 999), Step("drain"), Step("answer", 10), Step("read", 9999)],
            [State.ANSWERING, State.ANSWERING, State.CLOSING, State.CLOSED],
        ),
        (
            # A client that reads nothing of a large response is cut when its time is over.
            [Step("send", 999), Step("answer", 90_000), Step("wait", 31)],
            [State.ANSWERING, State.SENDING, State.CLOSED],
        ),
    ],
)
def test_each_step_of_a_connection_leads_to_the_state_that_the_diagram_shows(
    steps: list[Step], path: list[State]
) -> None:
    seen: list[State] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ManualLoop)
        scene = Scene(loop, REQUESTS[0])
        for step in steps:
            await scene.run(step)
            seen.append(scene.states.state)
        scene.connection.cut()
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=ManualLoop) as runner:
        runner.run(main())
    assert seen == path
