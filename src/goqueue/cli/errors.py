"""A failure as one line for a person: what happened, its code, and what to do about it.

Owns the exit codes of talking to a server: 1 refused by it, 3 not reached. The server's own advice
is worded for programs that speak HTTP; where there is a command for it, the command is named, with
the names that the request was about. With a machine's output format the same failure is a document
on standard error: `error`, `code`, `hint` and `exit_code`.
"""

import sys
from collections.abc import Iterable, Mapping

import click

from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.output import printable
from goqueue.client import GoQueueError, ServerUnreachable

__all__ = [
    "Failure",
    "ServerNotReached",
    "ServerRefusal",
    "as_failure",
    "close_names",
    "describe",
    "explained",
    "tell",
]

_LOOPBACK = ("://127.", "://localhost", "://[::1]")
_HINTS = {
    "already_delivered": "it can no longer be cancelled",
    "group_not_found": "see: goqueue group list",
    "partition_not_found": "see: goqueue topic partitions {topic}",
    "permission_denied": "the API key does not allow this; use another one with --api-key",
    "route_not_found": "the server is older than this program, or not a GoQueue server",
    "topic_exists": "see: goqueue topic describe {topic}",
    "topic_not_found": "see: goqueue topic list; create it with: goqueue topic create {topic}",
    "trace_not_found": "only the newest traces are kept; see: goqueue trace list",
    "transaction_not_found": "it has ended or never existed; see: goqueue txn list",
    "unauthenticated": "provide an API key with --api-key, GOQUEUE_API_KEY or a context",
}
# Shorter than what the API says, where the name is known.
_SENTENCES = {
    "group_not_found": 'group "{group}" does not exist',
    "topic_exists": 'topic "{topic}" already exists',
    "topic_not_found": 'topic "{topic}" does not exist',
}
_UNNAMED = {"group": "GROUP", "topic": "TOPIC"}
_SUGGESTED_MAX = 3


class Failure(click.ClickException):
    """The end of a command: a sentence without full stop, a stable code, and perhaps a hint."""

    exit_code = ExitCode.FAILED

    def __init__(self, sentence: str, *, code: str = "failed", hint: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        self.hint = hint

    def format_message(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class ServerRefusal(Failure):
    """The server does not do what was asked."""

    def format_message(self) -> str:
        worded = self.message if self.code == "failed" else f"{self.message} ({self.code})"
        return f"{worded}; {self.hint}" if self.hint else worded


class ServerNotReached(Failure):
    """There is no server, or none that answers in time."""

    exit_code = ExitCode.UNREACHED


def as_failure(error: GoQueueError, server: str, *, near: Iterable[str] = ()) -> Failure:
    """The end of a command that met this error; `near` are names that may have been meant."""
    if isinstance(error, ServerUnreachable):
        return ServerNotReached(_trim(error.sentence), code=error.code, hint=_where(server))
    return explained(error.code, error.sentence, error.details, near=near)


def explained(
    code: str,
    sentence: str,
    details: Mapping[str, object] | None = None,
    *,
    near: Iterable[str] = (),
) -> ServerRefusal:
    """A refusal in the words of the command line."""
    names = {**_UNNAMED, **_typed_names(), **(details or {})}
    hint = _HINTS.get(code)
    is_named = code in _SENTENCES and names.keys() & (details or {}).keys()
    if hint is None:
        return ServerRefusal(_trim(sentence), code=code)
    # The rest of the sentence is advice, which the hint replaces.
    what = _SENTENCES[code].format_map(names) if is_named else _trim(sentence.split(". ", 1)[0])
    meant = " or ".join(near)
    hint = f"did you mean {meant}?" if meant else hint.format_map(names)
    return ServerRefusal(what, code=code, hint=hint)


def _typed_names() -> dict[str, str]:
    """The topic and the group that the command was given."""
    context = click.get_current_context(silent=True)
    given = {} if context is None else context.params
    return {name: given[name] for name in _UNNAMED if isinstance(given.get(name), str)}


def describe(code: str, sentence: str) -> str:
    """A refusal and its hint on one line, without a full stop."""
    return explained(code, sentence).format_message()


def close_names(wanted: str, known: Iterable[str]) -> list[str]:
    """The names that are most like the one that does not exist, best first."""
    from difflib import get_close_matches

    return get_close_matches(wanted, known, n=_SUGGESTED_MAX)


def tell(sentence: str) -> None:
    """One line on standard error while a command continues."""
    print(f"goqueue: {printable(sentence)}", file=sys.stderr, flush=True)


def _where(server: str) -> str:
    if any(mark in server for mark in _LOOPBACK):
        return "is a server running? start one with: goqueue dev"
    return f"is {server} the right address? choose another with --server or --context"


def _trim(sentence: str) -> str:
    return sentence.rstrip().rstrip(".")
