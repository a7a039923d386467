"""Options shared by commands: output format, server, names, places, pages, confirmation.

Options of the output and the server are global: they may stand before or after the sub-command, and
only the help of the program itself explains them. Values are kept as typed; the environment and the
contexts are read only when a command connects. A destructive command asks first; without a terminal
nobody can answer, so it is refused unless forced.

Imports nothing but click, because every `--help` imports this module.
"""

import enum
import os
import re
import sys
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import click

from goqueue.client.entry import DEFAULT_SERVER

__all__ = [
    "NotConfirmed",
    "Output",
    "Place",
    "Whole",
    "complete_groups",
    "complete_topics",
    "confirm",
    "force_option",
    "given_server_flags",
    "group_argument",
    "is_local_time",
    "limit_option",
    "output_option",
    "place_argument",
    "read_name",
    "read_place",
    "server_options",
    "skip_option",
    "topic_argument",
    "wide_output_option",
]

Decorated = TypeVar("Decorated", bound=Callable[..., object])


class Output(enum.StrEnum):
    """Output formats. `wide` is a table with more columns, for commands that have them."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"

    @property
    def is_table(self) -> bool:
        """Whether it is for people."""
        return self in (Output.TABLE, Output.WIDE)


class _GlobalOption(click.Option):
    """An option of every command; only the program itself lists it in its help.

    The help of another command has one row for all of them, in the place of the first.
    """

    def __init__(self, *args: object, is_first: bool = False, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # handed on as click gave them
        self._is_first = is_first

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        if ctx.parent is None:
            return super().get_help_record(ctx)
        return _GLOBAL_ROW if self._is_first else None


_GLOBAL_ROW = ("-s, --server; -o, --output; …", "Global options: see goqueue --help.")


def _choosing(*, has_wide: bool) -> Callable[[click.Context, click.Parameter, str | None], Output]:
    """What was given here, else to the program as a whole, else a table."""

    def choose(context: click.Context, _: click.Parameter, given: str | None) -> Output:
        if given is not None:
            context.meta[_KEY] = Output(given)
        chosen: Output = context.meta.get(_KEY, Output.TABLE)
        return Output.TABLE if chosen is Output.WIDE and not has_wide else chosen

    return choose


# Click shares `meta` between a command and the groups around it.
_KEY = "goqueue.output"
_LOCAL_TIME = "goqueue.local_time"
_LOCAL_TIME_VARIABLE = "GOQUEUE_LOCAL_TIME"


def output_option(decorated: Decorated) -> Decorated:
    """Give a command `-o/--output`, which arrives as `output`, and `--local-time`."""
    return _output_options(decorated, has_wide=False)


def wide_output_option(decorated: Decorated) -> Decorated:
    """As `output_option`, for a command whose table has more columns with `-o wide`."""
    return _output_options(decorated, has_wide=True)


def _output_options(decorated: Decorated, *, has_wide: bool) -> Decorated:
    local = click.option(
        "--local-time",
        is_flag=True,
        cls=_GlobalOption,
        expose_value=False,
        callback=_keep_local_time,
        help="Show times in the local time zone, not in UTC.",
    )
    option = click.option(
        "-o",
        "--output",
        type=click.Choice([output.value for output in Output]),
        cls=_GlobalOption,
        callback=_choosing(has_wide=has_wide),
        is_eager=True,
        metavar="FORMAT",
        help="Output format: table, wide, json, jsonl or yaml.  [default: table]",
    )
    return option(local(decorated))


def _keep_local_time(context: click.Context, _: click.Parameter, given: bool) -> None:
    if given:
        context.meta[_LOCAL_TIME] = True


def is_local_time() -> bool:
    """Whether the present command shows local times: by flag or GOQUEUE_LOCAL_TIME."""
    context = click.get_current_context(silent=True)
    if context is None:
        return _is_local_by_default()
    is_local: bool | None = context.meta.get(_LOCAL_TIME)
    if is_local is None:
        # Asked for every time that is shown: the environment is read once.
        is_local = context.meta[_LOCAL_TIME] = _is_local_by_default()
    return is_local


def _is_local_by_default() -> bool:
    return os.environ.get(_LOCAL_TIME_VARIABLE, "") not in ("", "0", "false")


class Whole(click.IntRange):
    """A whole number within bounds; they are told when they are crossed, not in the help."""

    name = "n"

    def _describe_range(self) -> str:
        return ""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        try:
            number = int(str(value))
        except ValueError:
            self.fail(f"{value!a} is not a whole number", param, ctx)
        least, most = self.min, self.max
        if least is not None and number < least:
            self.fail(f"{number} is less than {int(least)}", param, ctx)
        if most is not None and number > most:
            self.fail(f"{str(number)[:40]} is more than {int(most)}", param, ctx)
        return number


class Place(NamedTuple):
    """Where a message is in its topic; written `PARTITION:OFFSET`."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


_PLACE = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")


def read_place(text: str) -> Place:
    """`PARTITION:OFFSET`, as `produce` prints it."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise click.UsageError(f"{text!a} is not PARTITION:OFFSET such as 0:12")
    return Place(int(found[1]), int(found[2]))


def place_argument(decorated: Decorated) -> Decorated:
    """Give a command the argument PARTITION:OFFSET; it arrives as `place`."""
    argument = click.argument(
        "place", metavar="PARTITION:OFFSET", callback=lambda _, __, text: read_place(text)
    )
    return argument(decorated)


def topic_argument(decorated: Decorated) -> Decorated:
    """Give a command the argument TOPIC; it arrives as `topic`."""
    return click.argument("topic", callback=read_name, shell_complete=complete_topics)(decorated)


def group_argument(decorated: Decorated) -> Decorated:
    """Give a command the argument GROUP; it arrives as `group`."""
    return click.argument("group", callback=read_name, shell_complete=complete_groups)(decorated)


def read_name(_: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    """The name of a topic or a group: an empty one would be part of another path of the API."""
    from goqueue.model import Refused, check_name

    if given is None:
        return None
    try:
        return check_name(given, "")
    except Refused as refused:
        what = (parameter.name or "").upper()
        rules = "1 to 249 characters from A-Z a-z 0-9 . _ -"
        raise click.UsageError(f"{what} {given[:100]!a} is not a name: {rules}") from refused


def complete_topics(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from goqueue.cli.completion import known_topics

    return known_topics(context, incomplete)


def complete_groups(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from goqueue.cli.completion import known_groups

    return known_groups(context, incomplete)


# Click shares `meta` between a command and the groups around it.
_SERVER_FLAGS = "goqueue.server"
_SWITCH = "allow-plaintext"


def server_options(decorated: Decorated) -> Decorated:
    """Give a command the flags that choose a server; none of them is an argument."""
    flags = (
        ("-s", "--server", "URL", f"Server URL.  [default: {DEFAULT_SERVER}]"),
        ("-c", "--context", "NAME", "Saved server and key to use; see goqueue context."),
        (
            "",
            "--api-key",
            "KEY",
            "API key; other users can see flags: better -, which reads it from standard input.",
        ),
        ("", "--api-key-file", "FILE", "File with the API key."),
        ("", "--ca-file", "FILE", "Authorities (PEM) that sign the certificate of the server."),
        ("", "--client-cert", "FILE", "Certificate (PEM) to show to the server."),
        ("", "--client-key", "FILE", "Private key (PEM) of the certificate."),
        ("", "--allow-plaintext", "true|false", "Send the key also where others can read it."),
        ("", "--timeout", "TIME", "How long to wait for a response: 5s, 2m.  [default: 30s]"),
    )
    for short, long, metavar, words in reversed(flags):
        name = long.removeprefix("--")
        option = click.option(
            *filter(None, (short, long)),
            f"given_{name.replace('-', '_')}",
            metavar=metavar,
            cls=_GlobalOption,
            is_first=name == "server",
            expose_value=False,
            callback=_keeping(name),
            # A bare switch means true.
            is_flag=False,
            flag_value="true" if name == _SWITCH else None,
            help=words,
        )
        decorated = option(decorated)
    return decorated


def given_server_flags(context: click.Context) -> dict[str, str]:
    """The flags that were given, by their long names; the one closest to the command wins."""
    kept: dict[str, str] = context.meta.get(_SERVER_FLAGS, {})
    return dict(kept)


def _keeping(name: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(context: click.Context, _: click.Parameter, given: str | None) -> None:
        if given is not None:
            context.meta.setdefault(_SERVER_FLAGS, {})[name] = given

    return keep


def limit_option(counted: str) -> Callable[[Decorated], Decorated]:
    """Give a command `-n/--limit`, of what is counted; it arrives as `limit`."""
    return click.option(
        "-n",
        "--limit",
        type=Whole(1),
        default=100,
        show_default=True,
        metavar="N",
        help=f"Maximum number of {counted}.",
    )


def skip_option(counted: str) -> Callable[[Decorated], Decorated]:
    """Give a command `--skip`, of what is counted; it arrives as `skip`."""
    return click.option(
        "--skip",
        type=Whole(0),
        default=0,
        metavar="N",
        help=f"Number of {counted} to skip.",
    )


def force_option(decorated: Decorated) -> Decorated:
    """Give a command `-y/--yes`, also spelled `-f/--force`; it arrives as `is_forced`."""
    option = click.option(
        "-y",
        "--yes",
        "-f",
        "--force",
        "is_forced",
        is_flag=True,
        help="Do not ask for confirmation.",
    )
    return option(decorated)


class NotConfirmed(click.ClickException):
    """A person did not say yes."""

    def __init__(self) -> None:
        super().__init__("not confirmed; nothing was done")


def confirm(question: str, *, is_forced: bool) -> None:
    """Continue only after `y` or `yes`, or when forced."""
    if is_forced:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to confirm on: add --yes")
    said = click.prompt(f"{question} [y/N]", default="n", show_default=False, err=True)
    if said.strip().lower() not in ("y", "yes"):
        raise NotConfirmed
