"""`goqueue topic`: create, list, describe, change and delete topics.

Settings are typed as `--set retention_hours=24`. Their names and the form of their values follow
from the table of settings; the server checks the values.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import click
import msgspec

from goqueue.cli.client import Session, ask, run_session
from goqueue.cli.options import (
    Output,
    confirm,
    force_option,
    output_option,
    server_options,
    topic_argument,
)
from goqueue.cli.output import console, draw, printable, show, shown_time, sized, table
from goqueue.client import GoQueueError, ServerUnreachable
from goqueue.client.admin_replies import LaneStats, NodeStats, Partition, Topic
from goqueue.model.requests import TOPIC_SETTINGS, SettingKind

if TYPE_CHECKING:
    from goqueue.client.admin import NewTopicSettings, TopicSettings

__all__ = [
    "describe_topic",
    "draw_created",
    "draw_lanes",
    "draw_list",
    "draw_partitions",
    "draw_topic",
    "list_topics",
    "read_settings",
    "topic",
]

_KINDS = {setting.name: setting.kind for setting in TOPIC_SETTINGS}
_FIXED = tuple(setting.name for setting in TOPIC_SETTINGS if not setting.takes_effect)
_SWITCHES = {"true": True, "false": False}
_DIGITS_MAX = 19


def read_settings(given: Sequence[str]) -> dict[str, object]:
    """The fields of a request; the last of equal names wins."""
    fields: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in _KINDS:
            known = ", ".join(sorted(_KINDS))
            raise click.UsageError(f"--set {text!a} is not FIELD=VALUE with one of: {known}")
        fields[name] = _read(name, value)
    return fields


def _read(name: str, value: str) -> object:
    match _KINDS[name]:
        case SettingKind.NUMBER:
            if not _is_whole(value):
                raise click.UsageError(f"--set {name} takes a whole number, not {value!a}")
            return int(value)
        case SettingKind.NUMBERS:
            numbers = value.split(",")
            if not all(_is_whole(number) for number in numbers):
                raise click.UsageError(
                    f"--set {name} takes whole numbers separated by commas, not {value!a}"
                )
            return [int(number) for number in numbers]
        case SettingKind.SWITCH:
            if value not in _SWITCHES:
                raise click.UsageError(f"--set {name} takes true or false, not {value!a}")
            return _SWITCHES[value]
        case SettingKind.DURATION | SettingKind.CHOICE | SettingKind.TOPIC_NAME:
            return value


def _is_whole(value: str) -> bool:
    digits = value.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX


def draw_created(created: Topic) -> None:
    count = f"{created.partitions} partition{'' if created.partitions == 1 else 's'}"
    print(f"created topic {printable(created.name)} with {count}")


def draw_list(names: tuple[str, ...], stats: NodeStats | None) -> None:
    """Names with their sizes; names alone when the sizes are not ours to see."""
    empty = "no topics; create one with: goqueue topic create TOPIC"
    if stats is None:
        draw(("TOPIC",), [(name,) for name in names], empty=empty)
        return
    rows: list[tuple[str | int, ...]] = []
    for name in names:
        sizes = stats.topic_stats.get(name)
        # It may have been made between the two answers.
        rows.append(
            (name, "", "", "")
            if sizes is None
            else (name, sizes.partitions, sizes.total_messages, sized(sizes.total_size_bytes))
        )
    draw(("TOPIC", "PARTITIONS", "MESSAGES", "SIZE"), rows, empty=empty)


def draw_topic(topic: Topic) -> None:
    facts: list[tuple[str, str | int]] = [
        ("name", topic.name),
        ("partitions", topic.partitions),
        ("messages", topic.total_messages),
        ("size", sized(topic.total_size_bytes)),
        ("created", shown_time(topic.created_at)),
    ]
    config = msgspec.structs.asdict(topic.config)
    facts += [(name, _worded(value)) for name, value in config.items()]
    console().print(table(("FIELD", "VALUE"), [(name, str(value)) for name, value in facts]))
    offsets = sorted(topic.partition_offsets.items())
    rows = [(number, ends.earliest, ends.latest + 1) for number, ends in offsets]
    draw(("PARTITION", "FIRST OFFSET", "NEXT OFFSET"), rows, empty="")


def draw_lanes(lanes: tuple[LaneStats, ...]) -> None:
    """What each priority of each group does; `READY` is what was scanned, not the backlog."""
    rows = [
        (
            each.consumer_group,
            each.partition,
            each.priority,
            each.ready,
            each.in_flight,
            each.dequeued,
            shown_time(each.last_served),
            each.oldest_waiting,
        )
        for each in lanes
    ]
    headings = (
        "GROUP",
        "PARTITION",
        "PRIORITY",
        "READY",
        "IN FLIGHT",
        "DELIVERED",
        "LAST SERVED",
        "WAITING",
    )
    draw(headings, rows, empty="")


def draw_partitions(partitions: tuple[Partition, ...]) -> None:
    rows = [
        (
            each.partition,
            each.leader,
            ",".join(each.replicas),
            ",".join(each.isr),
            each.earliest_offset,
            each.end_offset,
            each.high_watermark,
            sized(each.size_bytes),
        )
        for each in partitions
    ]
    headings = ("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "FIRST", "END", "COMMITTED", "SIZE")
    draw(headings, rows, empty="no partitions")


def _worded(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(str(each) for each in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


async def describe_topic(session: Session, topic: str, output: Output) -> None:
    described = await session.ask(lambda q: q.topics.describe(topic))
    show(described, output, draw_topic)
    if output is not Output.TABLE:
        return
    lanes = await _lanes(session, topic)
    if len({lane.priority for lane in lanes}) > 1:
        draw_lanes(lanes)


async def _lanes(session: Session, topic: str) -> tuple[LaneStats, ...]:
    try:
        stats = await session.q.priorities()
    except ServerUnreachable:
        raise
    except GoQueueError:
        # A key that may see the topic need not see the groups, and an older server has no lanes.
        return ()
    return tuple(lane for lane in stats.lanes if lane.topic == topic)


async def list_topics(session: Session, output: Output) -> None:
    listed = await session.ask(lambda q: q.topics.list())
    sizes = await _sizes(session) if output is Output.TABLE else None
    show(listed, output, lambda names: draw_list(names, sizes))


async def _sizes(session: Session) -> NodeStats | None:
    try:
        return await session.q.stats()
    except ServerUnreachable:
        raise
    except GoQueueError:
        # A key that may list topics need not see the node.
        return None


@click.group("topic")
@server_options
@output_option
def topic(output: Output) -> None:
    """Create, list, describe, alter and delete topics."""


@topic.command("list", short_help="List all topics.")
@server_options
@output_option
def list_command(output: Output) -> None:
    """List all topics, with their sizes."""
    run_session(lambda session: list_topics(session, output))


@topic.command("describe", short_help="Show one topic.")
@topic_argument
@server_options
@output_option
def describe_command(topic: str, output: Output) -> None:
    """Show the settings, sizes and offsets of TOPIC, and its priority lanes if several are used."""
    run_session(lambda session: describe_topic(session, topic, output))


@topic.command("partitions", short_help="Show the partitions of a topic.")
@topic_argument
@server_options
@output_option
def partitions_command(topic: str, output: Output) -> None:
    """Show the partitions of TOPIC: leader, replicas, offsets and size."""
    show(ask(lambda q: q.topics.partitions(topic)), output, draw_partitions)


_set_option = click.option(
    "--set",
    "given",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Any topic setting; may be repeated.",
)


@topic.command("create", short_help="Create a topic.")
@topic_argument
@click.option(
    "-p", "--partitions", type=int, metavar="N", help="Number of partitions.  [default: 3]"
)
@click.option(
    "-r",
    "--retention",
    type=int,
    metavar="HOURS",
    help="Hours to keep messages; -1 keeps them forever.  [default: 168]",
)
@_set_option
@server_options
@output_option
def create_command(
    topic: str,
    partitions: int | None,
    retention: int | None,
    given: tuple[str, ...],
    output: Output,
) -> None:
    """Create TOPIC. Settings not given have the defaults of the server."""
    fields = {
        **read_settings(given),
        **_given(num_partitions=partitions, retention_hours=retention),
    }
    number = cast("int | None", fields.pop("num_partitions", None))
    settings = cast("NewTopicSettings", fields)
    created = ask(lambda q: q.topics.create(topic, partitions=number, **settings))
    show(created, output, draw_created)


@topic.command("alter", short_help="Change settings of a topic.")
@topic_argument
@click.option(
    "-r",
    "--retention",
    type=int,
    metavar="HOURS",
    help="Hours to keep messages; -1 keeps them forever.",
)
@_set_option
@server_options
@output_option
def alter_command(
    topic: str, retention: int | None, given: tuple[str, ...], output: Output
) -> None:
    """Change settings of TOPIC; settings not given keep their value."""
    fields = {**read_settings(given), **_given(retention_hours=retention)}
    if not fields:
        raise click.UsageError("nothing to change: add --set FIELD=VALUE or --retention HOURS")
    for name in _FIXED:
        if name in fields:
            raise click.UsageError(f"--set {name} is fixed when a topic is created")
    settings = cast("TopicSettings", fields)
    show(ask(lambda q: q.topics.alter(topic, **settings)), output, draw_topic)


@topic.command("delete", short_help="Delete a topic and its messages.")
@topic_argument
@force_option
@server_options
@output_option
def delete_command(topic: str, output: Output, *, is_forced: bool) -> None:
    """Delete TOPIC, its messages, and the offsets of groups in it. Its dead letters are kept."""
    confirm(f"Delete the topic {topic!a} and all its messages?", is_forced=is_forced)
    deleted = ask(lambda q: q.topics.delete(topic))
    show(deleted, output, lambda _: print(f"deleted topic {printable(topic)}"))


def _given(**fields: int | None) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
