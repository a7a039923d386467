"""The states of an HTTP connection, and every transition between them.

A connection is in one state of each of three small machines. This module knows no socket, no timer
and no task: the connection does the IO, reports what happened as an event, and acts on the state.

What the server does for the client (`State`):

    IDLE ── REQUEST_READ ──▶ ANSWERING ── WRITE_BLOCKED ──▶ SENDING
     │  ◀───── ANSWERED ─────    │  ◀───── WRITE_DRAINED ───── │
     │                           ├── STREAM_BEGUN ──▶ STREAMING│
     ├── REFUSED ──▶ LINGERING ──┤                        │    │
     │                           │ CUT           FINISHED │    │ CUT
     └── FINISHED ──────────▶ CLOSING ◀───────────────────┴────┘
                                 │ LOST, which may come in any state
                                 ▼
                               CLOSED

Whether the socket is read (`Input`): reading pauses while enough requests wait.

    READING ◀── READING_RESUMED / READING_PAUSED ──▶ PAUSED;  either ── INPUT_ENDED ──▶ ENDED

Which part of a request the next byte belongs to (`Phase`): the reader of requests moves it.

    BETWEEN ──▶ HEAD ──▶ BODY ──▶ BETWEEN;  any ──▶ ENDED, after which no byte is looked at

How long the client may take follows from all three: see `read_timeouts`. A connection ends by LOST
in every case, and nothing follows it. A transition that is not in a table is a bug and raises.
"""

import enum
import functools
from collections.abc import Mapping

from goqueue.gateways.http.server.application import HttpLimits

__all__ = [
    "INPUTS",
    "NEVER",
    "PHASES",
    "STATES",
    "ConnectionState",
    "Event",
    "IllegalTransition",
    "Input",
    "Phase",
    "State",
    "read_timeouts",
]

NEVER = float("inf")


# Integers: the members of a plain enum are hashed by a Python function. Python 3.11 also looks
# members up by one, so modules on the path of every request bind those that they need there.
class State(enum.IntEnum):
    """What the server does for the client."""

    # Every request so far is answered.
    IDLE = enum.auto()
    # The application works on a request; others may wait behind it.
    ANSWERING = enum.auto()
    # A response is written, and nothing more is begun before the client has read most of it.
    SENDING = enum.auto()
    # The body of a response is sent as it comes into being; no request follows it.
    STREAMING = enum.auto()
    # A refusal was the last word; what the client still sends is thrown away until it ends.
    # Closing at once would make its kernel discard the refusal unread.
    LINGERING = enum.auto()
    # Nothing more will be written; what is buffered still leaves, unless the connection was cut.
    CLOSING = enum.auto()
    CLOSED = enum.auto()


class Input(enum.IntEnum):
    """Whether the socket is read."""

    READING = enum.auto()
    PAUSED = enum.auto()
    # The client has finished sending; it may still read.
    ENDED = enum.auto()


class Phase(enum.IntEnum):
    """Which part of a request the next byte belongs to."""

    BETWEEN = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()
    # No request follows: the last one has come, or something was refused.
    ENDED = enum.auto()


class Event(enum.IntEnum):
    """What happened to a connection."""

    REQUEST_READ = enum.auto()
    ANSWERED = enum.auto()
    WRITE_BLOCKED = enum.auto()
    WRITE_DRAINED = enum.auto()
    STREAM_BEGUN = enum.auto()
    REFUSED = enum.auto()
    FINISHED = enum.auto()
    CUT = enum.auto()
    LOST = enum.auto()
    READING_PAUSED = enum.auto()
    READING_RESUMED = enum.auto()
    INPUT_ENDED = enum.auto()


_ENDS = {Event.CUT: State.CLOSING, Event.LOST: State.CLOSED}

STATES: Mapping[State, Mapping[Event, State]] = {
    State.IDLE: {
        Event.REQUEST_READ: State.ANSWERING,
        Event.REFUSED: State.LINGERING,
        Event.FINISHED: State.CLOSING,
        **_ENDS,
    },
    State.ANSWERING: {
        Event.ANSWERED: State.IDLE,
        Event.WRITE_BLOCKED: State.SENDING,
        Event.STREAM_BEGUN: State.STREAMING,
        **_ENDS,
    },
    State.SENDING: {Event.WRITE_DRAINED: State.ANSWERING, **_ENDS},
    State.STREAMING: {Event.FINISHED: State.CLOSING, **_ENDS},
    State.LINGERING: _ENDS,
    State.CLOSING: _ENDS,
    State.CLOSED: {},
}

INPUTS: Mapping[Input, Mapping[Event, Input]] = {
    Input.READING: {Event.READING_PAUSED: Input.PAUSED, Event.INPUT_ENDED: Input.ENDED},
    Input.PAUSED: {Event.READING_RESUMED: Input.READING, Event.INPUT_ENDED: Input.ENDED},
    # Some event loops report the end again after reading was paused and resumed.
    Input.ENDED: {Event.INPUT_ENDED: Input.ENDED},
}

PHASES: Mapping[Phase, frozenset[Phase]] = {
    Phase.BETWEEN: frozenset({Phase.HEAD, Phase.ENDED}),
    Phase.HEAD: frozenset({Phase.BODY, Phase.ENDED}),
    Phase.BODY: frozenset({Phase.BETWEEN, Phase.ENDED}),
    Phase.ENDED: frozenset({Phase.ENDED}),
}


class IllegalTransition(Exception):
    """An event that cannot happen in this state: a bug of the connection."""


class ConnectionState:
    """Where one connection stands: its `state` and its `input`."""

    __slots__ = ("input", "state")

    def __init__(self) -> None:
        self.state = State.IDLE
        self.input = Input.READING

    def on(self, event: Event) -> None:
        """Go where the table says; raises IllegalTransition, and stays, if it says nothing."""
        try:
            self.state = STATES[self.state][event]
        except KeyError:
            raise IllegalTransition(f"{event.name} in state {self.state.name}") from None

    def on_input(self, event: Event) -> None:
        """The same for events of the input."""
        try:
            self.input = INPUTS[self.input][event]
        except KeyError:
            raise IllegalTransition(f"{event.name} while {self.input.name}") from None


@functools.lru_cache(maxsize=8)
def read_timeouts(limits: HttpLimits) -> Mapping[State, Mapping[Phase, float]]:
    """How long the client may stay in a phase, in seconds from its start, while it is read.

    A client that is not read, because reading is paused or its input has ended, has no deadline.
    """
    never = dict.fromkeys(Phase, NEVER)
    receiving = {
        **never,
        Phase.HEAD: limits.head_timeout_s,
        Phase.BODY: limits.body_timeout_s,
    }
    return {
        State.IDLE: {**receiving, Phase.BETWEEN: limits.idle_timeout_s},
        State.ANSWERING: receiving,
        State.SENDING: receiving,
        State.STREAMING: never,
        State.LINGERING: dict.fromkeys(Phase, limits.linger_timeout_s),
        State.CLOSING: never,
        State.CLOSED: never,
    }
