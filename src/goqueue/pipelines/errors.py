"""Errors of pipelines and of Spark as one sentence each.

Spark wraps errors of Python and of tasks several times, as text with plans and stack traces. The
sentence comes from the first of these that is found: a violated expectation, an exception of this
package, the condition that Spark names. `StepInvalid` names the part of a pipeline that cannot be
planned, with Spark's words about it.

Invariant: a sentence has one line and at most 500 characters.
"""

import contextlib
import enum
import re
from collections.abc import Iterator

import msgspec

from goqueue.client import ServerUnreachable

__all__ = ["VIOLATED", "Failure", "Fault", "StepInvalid", "explain", "refusing"]

VIOLATED = "goqueue expectation"
_LENGTH_MAX = 500
# The last line of a traceback: the exception with its module, and its words.
_OURS = re.compile(r"^(?:\w+:)?\s*goqueue\.(?:\w+\.)*(\w+): (.+)$", re.MULTILINE)
_EXPECTATION = re.compile(rf"{VIOLATED} (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_PYTHON = re.compile(
    r"^((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Invalid|Missing)): (.+)$", re.MULTILINE
)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.+?)(?: SQLSTATE: \w+.*)?$", re.MULTILINE)
_PLACE = re.compile(r"\(?line (\d+),? pos (\d+)")
_CAUSE = re.compile(r"^Caused by: (?:\w+\.)+\w+: (.+)$", re.MULTILINE)
# Conditions that only say that something else went wrong.
_WRAPPINGS = frozenset(
    {"PYTHON_DATA_SOURCE_ERROR", "STREAM_FAILED", "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR"}
)


class Fault(enum.Enum):
    """Whose fault it is: decides the exit code, or that a run starts again with a new schema."""

    USAGE = "usage"
    WORK = "work"
    SERVER = "server"
    SCHEMA = "schema"


class Failure(msgspec.Struct, frozen=True):
    """What went wrong."""

    fault: Fault
    sentence: str


_USAGE = frozenset({"OptionInvalid", "ColumnInvalid"})


def explain(message: str) -> Failure:
    """What a message of Spark says to a person."""
    violated = _EXPECTATION.search(message)
    if violated is not None:
        return Failure(Fault.WORK, _short(f"expectation {violated[1]}"))
    ours = _OURS.findall(message)
    if ours:
        name, words = ours[-1]
        if name == "ServerUnreachable":
            return Failure(Fault.SERVER, _short(words))
        if name == "SchemaChanged":
            return Failure(Fault.SCHEMA, _short(words))
        return Failure(Fault.USAGE if name in _USAGE else Fault.WORK, _short(words))
    python = _PYTHON.findall(message)
    if python:
        return Failure(Fault.WORK, _short(": ".join(python[-1])))
    named = [found for found in _CONDITION.findall(message) if found[0] not in _WRAPPINGS]
    if named:
        place = _PLACE.search(message)
        where = "" if place is None else f" (line {place[1]}, position {place[2]})"
        return Failure(Fault.WORK, _short(named[-1][1].rstrip(".")) + where)
    cause = _CAUSE.findall(message)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return Failure(Fault.WORK, _short(cause[-1] if cause else lines[0] if lines else "unknown"))


def _short(words: str) -> str:
    words = " ".join(words.split()).rstrip(".;")
    return words if len(words) <= _LENGTH_MAX else f"{words[: _LENGTH_MAX - 1]}…"


class StepInvalid(ValueError):
    """A part of a pipeline that Spark does not accept."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@contextlib.contextmanager
def refusing(place: str) -> Iterator[None]:
    """Whatever Spark refuses in the body is a problem of this place."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        failure: Failure = explain(str(error))
        if failure.fault is Fault.SERVER:
            # Columns of the schema registry are asked for while the plan is made.
            raise ServerUnreachable(failure.sentence) from error
        raise StepInvalid(place, failure.sentence) from error
