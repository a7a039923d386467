"""`goqueue group`: list, describe, reset and delete consumer groups.

`list` and `describe` also show the lag, which costs one more request per group; in JSON and YAML it
is added to the response of the API as `total_lag`.
"""

import time
from collections.abc import Mapping, Sequence

import click
import msgspec

from goqueue.cli.client import Session, ask, run_session
from goqueue.cli.options import (
    Output,
    Whole,
    complete_topics,
    confirm,
    force_option,
    group_argument,
    output_option,
    server_options,
    wide_output_option,
)
from goqueue.cli.output import (
    console,
    draw,
    printable,
    show,
    table,
    write_document,
    write_items,
)
from goqueue.cli.quantities import read_time, shown_duration, shown_time
from goqueue.client import GoQueueError
from goqueue.client.admin_replies import (
    GroupDescription,
    GroupLag,
    GroupOffsets,
    GroupSummary,
    ResetOffsets,
)

__all__ = [
    "Reset",
    "describe_group",
    "draw_group",
    "draw_groups",
    "draw_lag",
    "draw_offsets",
    "draw_reset",
    "group",
    "list_groups",
    "read_reset",
]


def draw_groups(
    groups: Sequence[GroupSummary], lags: Mapping[str, int], *, is_wide: bool = False
) -> None:
    rows = [
        (
            each.group_id,
            each.state,
            each.mode,
            *((each.protocol, each.generation) if is_wide else ()),
            each.members,
            lags.get(each.group_id, "-"),
            ", ".join(each.topics),
        )
        for each in groups
    ]
    empty = "no groups; the first member creates one: goqueue consume TOPIC -g GROUP"
    more = ("PROTOCOL", "GENERATION") if is_wide else ()
    draw(("GROUP", "STATE", "MODE", *more, "MEMBERS", "LAG", "TOPICS"), rows, empty=empty)


def draw_group(group: GroupDescription, lag: int | None) -> None:
    facts = [
        ("group", group.group_id),
        ("state", group.state),
        ("mode", group.mode),
        ("protocol", group.protocol),
        *(() if group.rebalance_state is None else (("rebalance", group.rebalance_state),)),
        ("generation", str(group.generation)),
        ("topics", ", ".join(group.topics)),
        ("lag", "-" if lag is None else str(lag)),
        ("created", shown_time(group.created_at)),
    ]
    if group.last_received_at is not None:
        facts.append(("last received", f"{shown_time(group.last_received_at)} (to the hour)"))
    console().print(table(("FIELD", "VALUE"), facts))
    is_moving = any(each.revoking_partitions for each in group.members)
    rows = [
        (
            each.member_id,
            each.client_id,
            ", ".join(each.assigned_partitions),
            *((", ".join(each.revoking_partitions) or "-",) if is_moving else ()),
            each.in_flight,
            shown_time(each.last_heartbeat),
        )
        for each in group.members
    ]
    more = ("TO REVOKE",) if is_moving else ()
    headings = ("MEMBER", "CLIENT", "PARTITIONS", *more, "IN FLIGHT", "LAST HEARTBEAT")
    draw(headings, rows, empty="no members")


def draw_lag(lag: GroupLag) -> None:
    rows = [
        (
            each.topic,
            each.partition,
            each.committed_offset,
            each.end_offset,
            each.lag,
            each.in_flight,
            shown_duration(each.time_lag),
        )
        for each in lag.partitions
    ]
    headings = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "IN FLIGHT", "BEHIND BY")
    draw(headings, rows, empty="the group reads no topic")
    if rows:
        print(f"total lag {lag.total_lag}")


def draw_offsets(offsets: GroupOffsets) -> None:
    rows = [
        (topic, partition, offset)
        for topic, partitions in sorted(offsets.offsets.items())
        for partition, offset in sorted(partitions.items())
    ]
    draw(("TOPIC", "PARTITION", "NEXT OFFSET"), rows, empty="no committed offsets yet")


def draw_reset(reset: ResetOffsets) -> None:
    rows = [(each.topic, each.partition, each.offset, each.lag) for each in reset.new_offsets]
    draw(("TOPIC", "PARTITION", "NEXT OFFSET", "LAG"), rows, empty="no offsets to move")


# Of more groups than anybody reads the lag is left out: each costs a request.
_LAGS_MAX = 100


async def list_groups(session: Session, output: Output) -> None:
    """Show all groups."""
    listed = await session.ask(lambda q: q.groups.list())
    lags: dict[str, int] = {}
    for each in listed.value[:_LAGS_MAX]:
        lag = await _lag(session, each.group_id)
        if lag is not None:
            lags[each.group_id] = lag
    if output.is_table:
        draw_groups(listed.value, lags, is_wide=output is Output.WIDE)
        return
    document = msgspec.json.decode(listed.body)
    for group in document["group_details"]:
        group["total_lag"] = lags.get(group["group_id"])
    write_items(document, "group_details", output)


async def describe_group(session: Session, group: str, output: Output) -> None:
    """Show one group."""
    described = await session.ask(lambda q: q.groups.describe(group))
    lag = await _lag(session, group)
    if output.is_table:
        draw_group(described.value, lag)
    else:
        write_document({**msgspec.json.decode(described.body), "total_lag": lag}, output)


async def _lag(session: Session, group: str) -> int | None:
    """How far a group is behind; None for one that is gone by now."""
    try:
        return (await session.q.groups.lag(group)).total_lag
    except GoQueueError as error:
        if error.code == "group_not_found":
            return None
        raise


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
    to: str | int
    partition: int | None
    output: Output
    is_dry: bool
    is_forced: bool


def read_reset(given: Mapping[str, object]) -> Reset:
    """What the flags mean together; a contradiction is a usage error."""
    flags = msgspec.convert(given, type=_Flags)
    goals = _goals(flags, time.time_ns())
    if len(goals) != 1:
        raise click.UsageError(
            "give exactly one of --to-earliest, --to-latest, --to-timestamp and --to-offset"
        )
    ((words, goal),) = goals.items()
    return Reset(
        group=flags.group,
        topic=flags.topic,
        words=words,
        to=goal,
        partition=flags.partition,
        output=flags.output,
        is_dry=flags.dry_run,
        is_forced=flags.is_forced,
    )


def _goals(flags: _Flags, now_ns: int) -> dict[str, str | int]:
    """Every goal that was given, by the words for it."""
    goals: dict[str, str | int] = {}
    if flags.to_earliest:
        goals["the oldest message"] = "earliest"
    if flags.to_latest:
        goals["the end"] = "latest"
    if flags.to_offset is not None:
        goals[f"offset {flags.to_offset}"] = flags.to_offset
    if flags.to_timestamp is not None:
        moment = read_time("to-timestamp", flags.to_timestamp, now_ns)
        goals[moment] = moment
    return goals


@click.group("group")
@server_options
@output_option
def group(output: Output) -> None:
    """Inspect consumer groups, their lag and their offsets, and reset or delete them."""


@group.command("list", short_help="List all groups.")
@server_options
@wide_output_option
def list_command(output: Output) -> None:
    """List all groups with their lag. -o wide adds protocol and generation."""
    run_session(lambda session: list_groups(session, output))


@group.command("describe", short_help="Show one group and its members.")
@group_argument
@server_options
@output_option
def describe_command(group: str, output: Output) -> None:
    """Show GROUP and its members."""
    run_session(lambda session: describe_group(session, group, output))


@group.command("lag", short_help="Show the lag of a group.")
@group_argument
@server_options
@output_option
def lag_command(group: str, output: Output) -> None:
    """Show how many messages GROUP has not settled, and the age of the oldest."""
    show(ask(lambda q: q.groups.lag(group)), output, draw_lag, items="partitions")


@group.command("offsets", short_help="Show the committed offsets of a group.")
@group_argument
@click.option("--topic", metavar="TOPIC", shell_complete=complete_topics, help="Only this topic.")
@server_options
@output_option
def offsets_command(group: str, topic: str | None, output: Output) -> None:
    """Show the next offset of GROUP in every partition where it has committed one."""
    show(ask(lambda q: q.groups.offsets(group, topic=topic)), output, draw_offsets)


@group.command("delete", short_help="Delete a group and its offsets.")
@group_argument
@force_option
@server_options
@output_option
def delete_command(group: str, output: Output, *, is_forced: bool) -> None:
    """Delete GROUP with its members, offsets and leases. Messages are not deleted."""
    confirm(f"Delete the group {group!a} and its offsets?", is_forced=is_forced)
    deleted = ask(lambda q: q.groups.delete(group))
    show(deleted, output, lambda _: print(f"deleted group {printable(group)}"))


@group.command("reset-offsets", short_help="Move the offsets of a group.")
@group_argument
@click.option(
    "--topic",
    required=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Topic to move the group in.",
)
@click.option(
    "-p",
    "--partition",
    type=Whole(0),
    metavar="N",
    help="Only this partition.  [default: all]",
)
@click.option("--to-earliest", is_flag=True, help="To the oldest message.")
@click.option("--to-latest", is_flag=True, help="After the newest message.")
@click.option("--to-timestamp", metavar="TIME", help="To a timestamp, or a duration ago (15m).")
@click.option("--to-offset", type=Whole(0), metavar="N", help="To this offset.")
@click.option("--dry-run", is_flag=True, help="Show the new offsets without changing anything.")
@force_option
@server_options
@output_option
def reset_command(**given: object) -> None:
    """Move the offsets of GROUP, forwards or backwards. Open leases in those partitions end."""
    reset = read_reset(given)
    if not reset.is_dry:
        question = f"Move the group {reset.group!a} in {reset.topic!a} to {reset.words}?"
        confirm(question, is_forced=reset.is_forced)
    moved = ask(
        lambda q: q.groups.reset(
            reset.group, reset.topic, reset.to, partition=reset.partition, dry_run=reset.is_dry
        )
    )
    show(moved, reset.output, draw_reset, items="new_offsets")
