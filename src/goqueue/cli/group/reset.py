"""Where a group is to be moved, as the flags say it."""

import time
from collections.abc import Mapping

import click
import msgspec

from goqueue.cli.messages import read_time
from goqueue.cli.output import Output
from goqueue.client.transport import Request, post

__all__ = ["Reset", "read_reset"]


class _Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of the command, under the names that click gives them."""

    group: str
    topic: str
    output: Output
    partition: int | None
    to_earliest: bool
    to_latest: bool
    to_timestamp: str | None
    to_offset: int | None
    dry_run: bool
    is_forced: bool


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """What will be asked of the server, and how to word it."""

    group: str
    topic: str
    words: str
    request: Request
    output: Output
    is_dry: bool
    is_forced: bool


def read_reset(given: Mapping[str, object]) -> Reset:
    """What the flags mean together; a contradiction is a usage error."""
    flags = msgspec.convert(given, type=_Flags)
    goals = _goals(flags, time.time_ns())
    if len(goals) != 1:
        raise click.UsageError("one of --to-earliest, --to-latest, --to-timestamp, --to-offset")
    ((words, goal),) = goals.items()
    fields: dict[str, object] = {
        "topic": flags.topic,
        "partition": flags.partition,
        "dry_run": True if flags.dry_run else None,
        **goal,
    }
    return Reset(
        group=flags.group,
        topic=flags.topic,
        words=words,
        request=post("groups", flags.group, "offsets", "reset", fields=fields),
        output=flags.output,
        is_dry=flags.dry_run,
        is_forced=flags.is_forced,
    )


def _goals(flags: _Flags, now_ns: int) -> dict[str, dict[str, object]]:
    """Every goal that was given, by the words for it."""
    goals: dict[str, dict[str, object]] = {}
    if flags.to_earliest:
        goals["the oldest message"] = {"strategy": "earliest"}
    if flags.to_latest:
        goals["the end"] = {"strategy": "latest"}
    if flags.to_offset is not None:
        goals[f"offset {flags.to_offset}"] = {"strategy": "offset", "offset": flags.to_offset}
    if flags.to_timestamp is not None:
        try:
            moment = read_time(flags.to_timestamp, now_ns)
        except ValueError as error:
            words = "--to-timestamp is neither a time such as 2026-01-31T12:00:00Z nor an age"
            raise click.UsageError(f"{words} such as 15m: {error}") from error
        goals[moment] = {"strategy": "timestamp", "timestamp": moment}
    return goals
