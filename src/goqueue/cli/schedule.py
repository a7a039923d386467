"""`goqueue schedule`: create, list, show, change, pause, resume, run and delete schedules."""

from collections.abc import Callable
from typing import TypeVar, cast

import click
import msgspec

from goqueue.cli.client import ask
from goqueue.cli.options import (
    Output,
    Whole,
    confirm,
    force_option,
    limit_option,
    output_option,
    server_options,
    skip_option,
    topic_argument,
)
from goqueue.cli.output import console, draw, printable, show, shown_duration, shown_time, table
from goqueue.client.schedules import (
    UNCHANGED,
    Schedule,
    ScheduleOptions,
    SchedulePage,
    ScheduleRun,
)

__all__ = ["draw_page", "draw_run", "draw_schedule", "schedule"]

Decorated = TypeVar("Decorated", bound=Callable[..., object])


def draw_page(page: SchedulePage) -> None:
    rows = [
        (
            each.name,
            each.topic,
            _rule(each),
            each.state,
            shown_time(each.next_tick_at),
            each.ticks_sent,
        )
        for each in page.schedules
    ]
    nothing = (
        "no schedules; create one with: goqueue schedule create NAME TOPIC --every 15m -m TEXT"
    )
    empty = f"no schedules beyond these {page.total}" if page.total else nothing
    draw(("SCHEDULE", "TOPIC", "RULE", "STATE", "NEXT", "SENT"), rows, empty=empty)
    following = page.skip + len(rows)
    if rows and following < page.total:
        print(f"{page.total - following} more: --skip {following}")


def _rule(found: Schedule) -> str:
    if found.every is not None:
        return f"every {shown_duration(found.every)}"
    return f"{found.cron} {found.time_zone}"


def draw_schedule(found: Schedule) -> None:
    message = found.message
    facts = [
        ("name", found.name),
        ("state", found.state),
        ("problem", found.problem),
        ("topic", found.topic),
        ("rule", _rule(found)),
        ("start", shown_time(found.start)),
        ("end", shown_time(found.end)),
        ("next tick", shown_time(found.next_tick_at)),
        ("last tick", shown_time(found.last_tick_at)),
        ("sent", str(found.ticks_sent)),
        ("missed ticks", found.missed),
        ("grace", shown_duration(found.grace)),
        ("created", shown_time(found.created_at)),
        ("key", message.key),
        ("value", "null" if message.value is None else message.value),
        ("encoding", message.encoding),
        ("partition", None if message.partition is None else str(message.partition)),
        ("priority", message.priority),
        *((f"header {name}", value) for name, value in message.headers.items()),
    ]
    rows = [(name, printable(value)) for name, value in facts if value]
    console().print(table(("FIELD", "VALUE"), rows))


def draw_run(ran: ScheduleRun) -> None:
    print(printable(f"published {ran.topic} {ran.partition}:{ran.offset}"))


_NAME = click.argument("name", metavar="NAME")
_TIMES = (
    click.option("--every", metavar="DURATION", help="Interval between ticks, such as 15m."),
    click.option(
        "--cron", metavar="EXPR", help="Tick when EXPR matches, such as '0 9 * * MON-FRI'."
    ),
    click.option("--tz", "time_zone", metavar="ZONE", help="Time zone of --cron.  [default: UTC]"),
    click.option("--start", metavar="TIME", help="No tick before TIME (RFC 3339)."),
    click.option("--end", metavar="TIME", help="No tick after TIME (RFC 3339)."),
    click.option(
        "--missed",
        type=click.Choice(("latest", "skip", "all")),
        help="What to send of missed ticks.  [default: latest]",
    ),
    click.option("--missed-max", type=Whole(1, 100), help="At most N ticks with 'all'."),
    click.option("--grace", metavar="DURATION", help="How late is missed.  [default: 1m]"),
    click.option("-k", "--key", metavar="KEY", help="Key of the message."),
    click.option(
        "-H", "--header", multiple=True, metavar="NAME=VALUE", help="Header; may be repeated."
    ),
    click.option("-p", "--partition", type=Whole(0), metavar="N", help="Partition."),
    click.option("--priority", metavar="PRIORITY", help="Priority: a name or 0 to 4."),
)


def _with_options(decorated: Decorated) -> Decorated:
    for option in reversed(_TIMES):
        decorated = option(decorated)
    return decorated


class _Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags under the names that click gives them."""

    every: str | None
    cron: str | None
    time_zone: str | None
    start: str | None
    end: str | None
    missed: str | None
    missed_max: int | None
    grace: str | None
    key: str | None
    header: tuple[str, ...]
    partition: int | None
    priority: str | None


def _options(given: dict[str, object]) -> ScheduleOptions:
    flags = msgspec.convert(given, type=_Flags)
    headers: dict[str, str] = {}
    for text in flags.header:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--header {text!a} is not NAME=VALUE")
        headers[name] = value
    fields = {
        name: value
        for name, value in msgspec.structs.asdict(flags).items()
        if value is not None and name != "header"
    }
    if headers:
        fields["headers"] = headers
    if fields.get("priority", "").isdigit():
        fields["priority"] = int(fields["priority"])
    return cast("ScheduleOptions", fields)


@click.group("schedule")
@server_options
@output_option
def schedule(output: Output) -> None:
    """Publish recurring messages: every interval, or by a cron expression."""


@schedule.command("create", short_help="Create a schedule.")
@_NAME
@topic_argument
@click.option("-m", "--message", required=True, metavar="TEXT", help="Value of the message.")
@_with_options
@click.option("--paused", "is_paused", is_flag=True, help="Create it paused.")
@click.option("--replace", "is_replacing", is_flag=True, help="Replace one of the same name.")
@server_options
@output_option
def create_command(
    name: str,
    topic: str,
    message: str,
    output: Output,
    *,
    is_paused: bool,
    is_replacing: bool,
    **given: object,
) -> None:
    """Create a schedule that publishes a message to TOPIC with --every or --cron."""
    if is_paused and is_replacing:
        raise click.UsageError(
            "--paused is for a new schedule; it cannot be combined with --replace"
        )
    options = _options(given)
    if ("every" in options) == ("cron" in options):
        raise click.UsageError("give either --every or --cron")
    created = ask(
        lambda q: q.schedules.create(
            name, topic, message, paused=is_paused, replace=is_replacing, **options
        )
    )
    show(created, output, draw_schedule)


@schedule.command("list", short_help="List schedules by name.")
@limit_option("schedules, up to 1000")
@skip_option("schedules")
@server_options
@output_option
def list_command(limit: int, skip: int, output: Output) -> None:
    """List schedules by name, with their next ticks."""
    show(ask(lambda q: q.schedules.page(limit=limit, skip=skip)), output, draw_page)


@schedule.command("describe", short_help="Show one schedule.")
@_NAME
@server_options
@output_option
def describe_command(name: str, output: Output) -> None:
    """Show the schedule NAME: its rule, its message, its next and last tick."""
    show(ask(lambda q: q.schedules.describe(name)), output, draw_schedule)


@schedule.command("alter", short_help="Change a schedule.")
@_NAME
@click.option("--topic", metavar="TOPIC", help="Publish to TOPIC.")
@click.option("-m", "--message", metavar="TEXT", help="Replace the message.")
@_with_options
@server_options
@output_option
def alter_command(
    name: str, topic: str | None, message: str | None, output: Output, **given: object
) -> None:
    """Change the schedule NAME; what is not given stays as it is.

    Other times take effect from now on. A message is replaced as a whole: give its key, headers,
    partition and priority together with --message.
    """
    options = _options(given)
    if message is None and any(option in options for option in ("key", "headers", "partition")):
        raise click.UsageError("--key, --header and --partition need --message")
    value = UNCHANGED if message is None else message
    altered = ask(lambda q: q.schedules.alter(name, topic=topic, value=value, **options))
    show(altered, output, draw_schedule)


@schedule.command("pause", short_help="Pause a schedule.")
@_NAME
@server_options
@output_option
def pause_command(name: str, output: Output) -> None:
    """Pause the schedule NAME: no tick is sent until it is resumed."""
    paused = ask(lambda q: q.schedules.pause(name))
    show(paused, output, lambda _: print(printable(f"paused {name}")))


@schedule.command("resume", short_help="Resume a schedule.")
@_NAME
@server_options
@output_option
def resume_command(name: str, output: Output) -> None:
    """Resume the schedule NAME: ticks of the pause are not sent."""
    resumed = ask(lambda q: q.schedules.resume(name))
    show(resumed, output, lambda _: print(printable(f"resumed {name}")))


@schedule.command("run", short_help="Publish the message of a schedule now.")
@_NAME
@server_options
@output_option
def run_command(name: str, output: Output) -> None:
    """Publish the message of the schedule NAME now, beside its ticks."""
    show(ask(lambda q: q.schedules.run(name)), output, draw_run)


@schedule.command("delete", short_help="Delete a schedule.")
@_NAME
@force_option
@server_options
@output_option
def delete_command(name: str, output: Output, *, is_forced: bool) -> None:
    """Delete the schedule NAME: no tick is sent any more."""
    confirm(f"Delete the schedule {name!a}?", is_forced=is_forced)
    deleted = ask(lambda q: q.schedules.delete(name))
    show(deleted, output, lambda _: print(printable(f"deleted {name}")))
