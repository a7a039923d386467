"""What `goqueue trace search` was asked for, as a request."""

import time
from collections.abc import Mapping

import click

from goqueue.cli.messages import read_time
from goqueue.client.transport import Request, get

__all__ = ["search_request"]

# Flags whose names are shorter than those of the API.
_NAMES = {"group": "consumer_group", "consumer": "consumer_id"}
_TIMES = ("start", "end")


def search_request(given: Mapping[str, str | int | None]) -> Request:
    """The request for what the flags say; a time that is none is a usage error."""
    now_ns = time.time_ns()
    query: dict[str, str | float | None] = {}
    for flag, value in given.items():
        is_time = flag in _TIMES and isinstance(value, str)
        query[_NAMES.get(flag, flag)] = _time(flag, str(value), now_ns) if is_time else value
    return get("traces", "search", **query)


def _time(flag: str, text: str, now_ns: int) -> str:
    try:
        return read_time(text, now_ns)
    except ValueError as error:
        words = f"--{flag} is neither a time such as 2026-01-31T12:00:00Z nor an age such as 15m"
        raise click.UsageError(f"{words}: {error}") from error
