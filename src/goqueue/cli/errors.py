"""A failure as one line for a person: what happened, its code, and what to do about it.

Owns the exit codes of talking to a server: 1 refused by it, 3 not reached. The server's own advice
is worded for programs that speak HTTP; where there is a command for it, the command is named.
"""

import sys

import click

from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.output import printable
from goqueue.client import GoQueueError, ServerUnreachable

__all__ = ["ServerNotReached", "ServerRefusal", "as_failure", "describe", "tell"]

_LOOPBACK = ("://127.", "://localhost", "://[::1]")
_HINTS = {
    "already_delivered": "it can no longer be cancelled",
    "group_not_found": "see: goqueue group list",
    "partition_not_found": "see: goqueue topic partitions TOPIC",
    "permission_denied": "the API key does not allow this; use another one with --api-key",
    "route_not_found": "the server is older than this program, or not a GoQueue server",
    "topic_exists": "see: goqueue topic describe TOPIC",
    "topic_not_found": "see: goqueue topic list; create one with: goqueue topic create TOPIC",
    "trace_not_found": "only the newest traces are kept; see: goqueue trace list",
    "transaction_not_found": "it has ended or never existed; see: goqueue txn list",
    "unauthenticated": "provide an API key with --api-key, GOQUEUE_API_KEY or a context",
}


class ServerRefusal(click.ClickException):
    """The server does not do what was asked."""

    exit_code = ExitCode.FAILED


class ServerNotReached(click.ClickException):
    """There is no server, or none that answers in time."""

    exit_code = ExitCode.UNREACHED


def as_failure(error: GoQueueError, server: str) -> click.ClickException:
    """The end of a command that met this error."""
    if isinstance(error, ServerUnreachable):
        return ServerNotReached(f"{_trim(error.sentence)}; {_where(server)}")
    return ServerRefusal(describe(error.code, error.sentence))


def describe(code: str, sentence: str) -> str:
    """A refusal and its hint, without a full stop."""
    hint = _HINTS.get(code)
    if hint is None:
        return f"{_trim(sentence)} ({code})"
    # The rest of the sentence is advice, which the hint replaces.
    return f"{_trim(sentence.split('. ', 1)[0])} ({code}); {hint}"


def tell(sentence: str) -> None:
    """One line on standard error while a command continues."""
    print(f"goqueue: {printable(sentence)}", file=sys.stderr, flush=True)


def _where(server: str) -> str:
    if any(mark in server for mark in _LOOPBACK):
        return "is a server running? start one with: goqueue dev"
    return f"is {server} the right address? choose another with --server or --context"


def _trim(sentence: str) -> str:
    return sentence.rstrip().rstrip(".")
