"""The log of `goqueue worker`: lines of the worker and of the program, on standard error.

Not the log of a node: nothing is sampled, cut or dropped, because most lines are the program's own.
A program that configures logging itself keeps what it configured.

Invariant: a line of the SDK is one line, whatever a message made it say.
"""

import datetime as dt
import logging
import sys

import msgspec

__all__ = ["LOG_FORMATS", "start_worker_log"]

LOG_FORMATS = ("text", "json")
_SDK = "goqueue"


def start_worker_log(level: str, form: str) -> None:
    """Log to standard error, unless the program has chosen its own handlers."""
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])


class _TextFormatter(logging.Formatter):
    """`TIME LEVEL logger: message`, and a traceback indented below."""

    def format(self, record: logging.LogRecord) -> str:
        message = _shown(record.getMessage(), is_one_line=_is_of_sdk(record))
        line = f"{_time(record)} {record.levelname:<7} {record.name}: {message}"
        trace = _trace(self, record)
        return "\n    ".join([line, *(_shown(each) for each in trace.splitlines())])


class _JsonFormatter(logging.Formatter):
    """One object per line, with the names that the log of a node uses."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        trace = _trace(self, record)
        if trace:
            line["exception"] = trace
        whole = {name: text.encode(errors="backslashreplace") for name, text in line.items()}
        return msgspec.json.encode({name: text.decode() for name, text in whole.items()}).decode()


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    traces = [formatter.formatException(record.exc_info)] if record.exc_info else []
    if record.stack_info:
        traces.append(formatter.formatStack(record.stack_info))
    return "\n".join(traces)


def _time(record: logging.LogRecord) -> str:
    moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _is_of_sdk(record: logging.LogRecord) -> bool:
    return record.name == _SDK or record.name.startswith(f"{_SDK}.")


def _shown(text: str, *, is_one_line: bool = False) -> str:
    """With what a terminal would act upon escaped; a program may write several lines."""
    kept = "" if is_one_line else "\n\t"
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in kept else ascii(each)[1:-1] for each in text
    )
