"""A failure as one line for a person: what happened, its code, and what to do about it.

Owns the exit codes of talking to a server: 1 refused by it, 3 not reached. The server's own advice
is worded for programs that speak HTTP; where there is a command for it, the command is named, with
the names that the request was about. With a machine's output format the same failure is a document
on standard error: `error`, `code`, `hint` and `exit_code`.
"""

import re
import sys
from collections.abc import Iterable, Mapping

import click

from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.output import printable
from goqueue.client import GoQueueError, ServerUnreachable, TlsError

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

# Answered by what stands before a node; it says so itself with a reason, as status 503.
_GATEWAY_STATUSES = (502, 504)
_OPENSSL = re.compile(r"\[SSL: [A-Z0-9_]+\] | \(_ssl\.c:[0-9]+\)")
_NOT_HTTP = "the answer is not HTTP"
_LOOPBACK = ("://127.", "://localhost", "://[::1]")
_HINTS = {
    "already_delivered": "it can no longer be cancelled",
    "group_not_found": "see: goqueue group list",
    "message_not_found": "see: goqueue delayed list {topic}",
    "node_not_found": "see: goqueue cluster nodes",
    "partition_not_found": "see: goqueue topic partitions {topic}",
    "permission_denied": "goqueue whoami shows the key and its roles; another one: --api-key-file",
    "route_not_found": "the server is older than this program, or not a GoQueue server",
    "schedule_exists": "see: goqueue schedule list",
    "schedule_not_found": "see: goqueue schedule list",
    "topic_exists": "see: goqueue topic describe {topic}",
    "topic_not_found": "see: goqueue topic list; create it with: goqueue topic create {topic}",
    "trace_not_found": "only the newest traces are kept; see: goqueue trace list",
    "transaction_not_found": "it has ended or never existed; see: goqueue txn list",
    "unauthenticated": "provide an API key with --api-key-file, GOQUEUE_API_KEY or a context",
}
# Nobody creates such a topic, and to keys that may not read it it does not exist.
_INTERNAL_HINT = (
    "names that begin with __ belong to the node; admins of the tenant default read them"
)
# Shorter than what the API says, where the name is known.
_SENTENCES = {
    "group_not_found": 'group "{group}" does not exist',
    "topic_exists": 'topic "{topic}" already exists',
    "topic_not_found": 'topic "{topic}" does not exist',
}
# What the client adds to a refusal of the key that it was given.
_NAMED_KEY = " The key"
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
    if isinstance(error, TlsError):
        return ServerNotReached(_as_flags(_trim(error.sentence)), code=error.code)
    if isinstance(error, ServerUnreachable):
        return ServerNotReached(
            _as_flags(_without_library(_trim(error.sentence))),
            code=error.code,
            hint=_where(error.sentence, server),
        )
    if error.code == "response_invalid":
        hint = f"is {server} a GoQueue node, or is there a proxy in between?"
        return ServerRefusal(_trim(error.sentence), code=error.code, hint=hint)
    if error.code == "broker_unavailable" and error.status in _GATEWAY_STATUSES:
        hint = f"the gateway at {server} does not reach the node behind it; try again"
        return ServerRefusal(_trim(error.sentence), code=error.code, hint=hint)
    return explained(error.code, error.sentence, error.details, near=near)


def _as_flags(sentence: str) -> str:
    """The sentence with flags in place of the arguments of the SDK."""
    for argument in ("ca_file", "client_cert", "client_key"):
        sentence = sentence.replace(argument, f"--{argument.replace('_', '-')}")
    return sentence


def explained(
    code: str,
    sentence: str,
    details: Mapping[str, object] | None = None,
    *,
    near: Iterable[str] = (),
) -> ServerRefusal:
    """A refusal in the words of the command line."""
    if code == "unauthenticated" and _NAMED_KEY in sentence:
        named = _trim(sentence.partition(_NAMED_KEY)[2]).replace(" comes from ", " from ", 1)
        words = f"the server does not accept the key{named}"
        return ServerRefusal(words, code=code, hint="it is unknown, revoked or expired")
    names = {**_UNNAMED, **_typed_names(), **(details or {})}
    hint = _HINTS.get(code)
    if code == "topic_not_found" and str(names["topic"]).startswith("__"):
        hint, near = _INTERNAL_HINT, ()
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


def _without_library(sentence: str) -> str:
    """Without the names and line numbers that OpenSSL adds."""
    return _OPENSSL.sub("", sentence)


def _where(sentence: str, server: str) -> str:
    if "SSL: WRONG_VERSION_NUMBER" in sentence:
        return f"{server} does not speak TLS: use http://"
    if "CERTIFICATE_VERIFY_FAILED" in sentence:
        return "its certificate is not trusted on this machine"
    if _NOT_HTTP in sentence:
        return f"is {server} a GoQueue node?"
    if any(mark in server for mark in _LOOPBACK):
        return "is a server running? start one with: goqueue dev"
    return f"is {server} the right address? choose another with --server or --context"


def _trim(sentence: str) -> str:
    return sentence.rstrip().rstrip(".")
