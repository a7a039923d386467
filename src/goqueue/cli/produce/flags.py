"""The flags of `goqueue produce`, checked as a whole."""

import sys
from collections.abc import Mapping

import click
import msgspec

from goqueue.cli.output import Output
from goqueue.cli.produce.draft import (
    Draft,
    DraftInvalid,
    LineFormat,
    Pattern,
    decode_base64,
    read_priority,
)

__all__ = ["Flags", "read_flags", "read_message", "read_pattern"]


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags under the names that click gives them."""

    topic: str
    output: Output
    message: str | None
    key: str | None
    partition: int | None
    header: tuple[str, ...]
    delay: str | None
    deliver_at: str | None
    priority: str | None
    base64: bool
    raw: bool
    format: LineFormat | None
    file: str | None


def read_flags(given: Mapping[str, object]) -> Flags:
    """A contradiction is a usage error, and so is nothing to send."""
    flags = msgspec.convert(given, type=Flags)
    has_lines = flags.file is not None or flags.raw or flags.format is not None
    if flags.message is not None and has_lines:
        raise click.UsageError("--message is one message: no --file and no --format with it")
    if flags.raw and flags.format is LineFormat.JSON:
        raise click.UsageError("--raw is --format text: not --format json, too")
    if flags.delay is not None and flags.deliver_at is not None:
        raise click.UsageError("only one of --delay and --deliver-at")
    if flags.message is None and flags.file is None and sys.stdin.isatty():
        raise click.UsageError("nothing to send: add -m TEXT, or -f FILE (- to type messages)")
    return flags


def read_message(flags: Flags) -> Draft:
    """The one message that stands on the command line."""
    assert flags.message is not None
    common = _common(flags)
    text = flags.message.encode(errors="surrogateescape")
    try:
        value = decode_base64(text) if flags.base64 else text
    except DraftInvalid as invalid:
        raise click.UsageError(f"--message: {invalid}") from invalid
    return msgspec.structs.replace(common, value=value)


def read_pattern(flags: Flags) -> Pattern:
    """How lines are read."""
    return Pattern(
        common=_common(flags), format=flags.format or LineFormat.TEXT, is_base64=flags.base64
    )


def _common(flags: Flags) -> Draft:
    try:
        key = (flags.key or "").encode(errors="surrogateescape")
        return Draft(
            value=None,
            key=decode_base64(key) if flags.base64 else key,
            headers=_headers(flags.header),
            partition=flags.partition,
            priority=None if flags.priority is None else read_priority(flags.priority),
            delay=flags.delay,
            deliver_at=flags.deliver_at,
        )
    except DraftInvalid as invalid:
        raise click.UsageError(str(invalid)) from invalid


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise DraftInvalid(f"--header {text!a} is not NAME=VALUE")
        headers[name] = value
    return headers
