"""Asking a server on behalf of a command: whom, how, and what its refusals mean to a person."""

from goqueue.cli.asking.failures import (
    ServerNotReached,
    ServerRefusal,
    as_failure,
    describe,
    tell,
)
from goqueue.cli.asking.offers import known_names, known_traces, known_transactions
from goqueue.cli.asking.session import Session, ask, chosen_settings, run_session
from goqueue.cli.asking.showing import draw, show
from goqueue.cli.asking.stopping import Stop, stopped_by_signals

__all__ = [
    "ServerNotReached",
    "ServerRefusal",
    "Session",
    "Stop",
    "as_failure",
    "ask",
    "chosen_settings",
    "describe",
    "draw",
    "known_names",
    "known_traces",
    "known_transactions",
    "run_session",
    "show",
    "stopped_by_signals",
    "tell",
]
