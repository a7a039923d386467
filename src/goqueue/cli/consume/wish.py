"""What `goqueue consume` was asked for, checked as a whole."""

import time
from collections.abc import Mapping

import click
import msgspec

from goqueue.cli.messages import Start, read_time
from goqueue.cli.output import Output

__all__ = ["Wish", "read_wish"]

_LIMIT = 10


class _Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of the command, under the names that click gives them."""

    topic: str
    output: Output
    partition: int | None
    offset: int | None
    from_beginning: bool
    from_latest: bool
    from_time: str | None
    limit: int | None
    follow: bool
    isolation: str | None
    values: bool
    group: str | None
    mode: str | None
    no_ack: bool


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """One topic, and how to read and show it; `limit` None is no limit."""

    topic: str
    start: Start
    output: Output
    partition: int | None = None
    limit: int | None = None
    isolation: str | None = None
    is_following: bool = False
    is_values: bool = False
    group: str | None = None
    mode: str | None = None
    is_acking: bool = True


def read_wish(given: Mapping[str, object]) -> Wish:
    """What the flags mean together; a contradiction is a usage error."""
    flags = msgspec.convert(given, type=_Flags)
    wish = Wish(
        topic=flags.topic,
        start=_start(flags, time.time_ns()),
        output=flags.output,
        partition=flags.partition,
        limit=_limit(flags),
        isolation=flags.isolation,
        is_following=flags.follow,
        is_values=flags.values,
        group=flags.group,
        mode=flags.mode,
        is_acking=not flags.no_ack,
    )
    _refuse_foreign(wish)
    return wish


def _limit(flags: _Flags) -> int | None:
    if flags.limit is None:
        return None if flags.follow else _LIMIT
    return flags.limit or None


def _start(flags: _Flags, now_ns: int) -> Start:
    """At most one of the four; none is the beginning."""
    has_place = (flags.offset is not None, flags.from_time is not None)
    if sum((*has_place, flags.from_beginning, flags.from_latest)) > 1:
        raise click.UsageError(
            "only one of --offset, --from-time, --from-beginning and --from-latest"
        )
    if flags.from_time is None:
        return Start(offset=flags.offset or 0, is_latest=flags.from_latest)
    try:
        return Start(time=read_time(flags.from_time, now_ns))
    except ValueError as error:
        words = "--from-time is neither a time such as 2026-01-31T12:00:00Z nor an age such as 15m"
        raise click.UsageError(f"{words}: {error}") from error


def _refuse_foreign(wish: Wish) -> None:
    """A group has its own place in a topic; a stream has nobody to acknowledge to."""
    if wish.group is None:
        if wish.mode is not None or not wish.is_acking:
            raise click.UsageError("--mode and --no-ack need --group")
    elif wish.partition is not None or wish.start.offset or wish.start.time is not None:
        raise click.UsageError(
            "a group goes on where it was: no --partition, --offset or --from-time with --group; "
            "move it with: goqueue group reset-offsets"
        )
