"""`goqueue topic`: create, list, describe, change and delete topics.

Settings are typed as `--set retention_hours=7d`; `topic_values` reads and shows them. A list and a
description as JSON hold what their tables show: the sizes of `list` and the lanes of `describe` are
added to the body of the API.
"""

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, cast

import click
import msgspec

from goqueue.cli.client import Session, ask, run_session
from goqueue.cli.errors import Failure
from goqueue.cli.options import (
    Output,
    confirm,
    force_option,
    output_option,
    read_place,
    server_options,
    topic_argument,
    wide_output_option,
)
from goqueue.cli.output import (
    Reply,
    console,
    draw,
    printable,
    show,
    table,
    write_document,
    write_items,
)
from goqueue.cli.quantities import read_time, shown_duration, shown_time, sized
from goqueue.cli.topic_values import (
    SETTINGS,
    complete_setting,
    read_settings,
    retention_hours,
    shown_setting,
)
from goqueue.client import AlreadyDelivered, GoQueueError, NotFound, ServerUnreachable
from goqueue.client.admin_replies import LaneStats, NodeStats, Partition, PartitionStart, Topic
from goqueue.model.requests import SettingKind, TopicSetting

if TYPE_CHECKING:
    from goqueue.client.admin import NewTopicSettings, TopicSettings

__all__ = [
    "describe_topic",
    "draw_created",
    "draw_lanes",
    "draw_list",
    "draw_partitions",
    "draw_starts",
    "draw_topic",
    "list_topics",
    "refuse_kept",
    "topic",
]


def draw_created(created: Topic) -> None:
    count = f"{created.partitions} partition{'' if created.partitions == 1 else 's'}"
    print(f"created topic {printable(created.name)} with {count}")


def draw_list(names: tuple[str, ...], stats: NodeStats | None, *, is_wide: bool = False) -> None:
    """Names with their sizes; names alone when the sizes are not ours to see."""
    empty = "no topics; create one with: goqueue topic create TOPIC"
    if stats is None:
        draw(("TOPIC",), [(name,) for name in names], empty=empty)
        return
    rows: list[tuple[str | int, ...]] = []
    for name in names:
        sizes = stats.topic_stats.get(name)
        if sizes is None:
            # It was created between the two answers.
            rows.append((name, *[""] * (5 if is_wide else 3)))
            continue
        row = (name, sizes.partitions, sizes.total_messages, sized(sizes.total_size_bytes))
        totals = (sizes.published_total, sizes.consumed_total)
        more = tuple("-" if total is None else total for total in totals)
        rows.append(row + more if is_wide else row)
    headings = ("TOPIC", "PARTITIONS", "MESSAGES", "SIZE")
    draw((*headings, "PUBLISHED", "CONSUMED") if is_wide else headings, rows, empty=empty)


def draw_topic(
    topic: Topic, partitions: tuple[Partition, ...] = (), *, is_wide: bool = False
) -> None:
    """The topic; settings that can have one value only are shown in a wide table.

    With `partitions` also who keeps copies of them, if there are several.
    """
    facts: list[tuple[str, str | int]] = [
        ("name", topic.name),
        ("partitions", topic.partitions),
        ("messages", topic.total_messages),
        ("size", sized(topic.total_size_bytes)),
        ("created", shown_time(topic.created_at)),
    ]
    config = msgspec.structs.asdict(topic.config)
    facts += [
        (setting.name, shown_setting(setting, config[setting.name]))
        for setting in SETTINGS.values()
        if setting.name in config and (is_wide or not _is_reserved(setting))
    ]
    console().print(table(("FIELD", "VALUE"), [(name, str(value)) for name, value in facts]))
    if any(len(each.replicas) > 1 for each in partitions):
        draw_partitions(partitions)
        return
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
            shown_duration(each.oldest_waiting),
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
            each.leader or "none",
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


def _is_reserved(setting: TopicSetting) -> bool:
    """Whether it has one possible value, until a feature comes that needs another."""
    has_one = setting.kind is SettingKind.NUMBER and setting.minimum == setting.maximum
    return bool(setting.unavailable) or has_one


async def describe_topic(session: Session, topic: str, output: Output) -> None:
    described = await session.ask(lambda q: q.topics.describe(topic))
    lanes = await _lanes(session, topic)
    if not output.is_table:
        document = msgspec.json.decode(described.body)
        write_document({**document, "lanes": msgspec.to_builtins(lanes)}, output)
        return
    partitions = await session.q.topics.partitions(topic)
    draw_topic(described.value, partitions, is_wide=output is Output.WIDE)
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
    stats = await _sizes(session)
    if output.is_table:
        draw_list(listed.value, stats, is_wide=output is Output.WIDE)
        return
    known = {} if stats is None else stats.topic_stats
    sizes = {name: msgspec.to_builtins(known[name]) for name in listed.value if name in known}
    if output is Output.JSONL:
        lines = [{"name": name, **sizes.get(name, {})} for name in listed.value]
        write_items({"topics": lines}, "topics", output)
    else:
        write_document({**msgspec.json.decode(listed.body), "topic_stats": sizes}, output)


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
@wide_output_option
def list_command(output: Output) -> None:
    """List all topics, with their sizes. -o wide adds what was published and consumed."""
    run_session(lambda session: list_topics(session, output))


@topic.command("describe", short_help="Show one topic.")
@topic_argument
@server_options
@wide_output_option
def describe_command(topic: str, output: Output) -> None:
    """Show the settings, sizes and offsets of TOPIC, and its priority lanes if several are used.

    In a cluster also the leader of each partition, its replicas and which of them are in sync.
    -o wide also shows settings that can have one value only.
    """
    run_session(lambda session: describe_topic(session, topic, output))


@topic.command("partitions", short_help="Show the partitions of a topic.")
@topic_argument
@server_options
@output_option
def partitions_command(topic: str, output: Output) -> None:
    """Show the partitions of TOPIC: leader, replicas, offsets and size."""
    found = ask(lambda q: q.topics.partitions(topic))
    show(found, output, draw_partitions, items="partitions")


@topic.command("settings", short_help="List the settings of a topic and what they mean.")
@output_option
def settings_command(output: Output) -> None:
    """List every setting that `--set` takes, with its default, its bounds and its meaning."""
    _show_settings(output)


class _SettingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as it is listed."""

    name: str
    type: str
    default: str
    allowed: str
    fixed: bool
    meaning: str


def _show_settings(output: Output) -> None:
    listed = [_setting_row(setting) for setting in SETTINGS.values() if not _is_reserved(setting)]
    if not output.is_table:
        write_items({"settings": msgspec.to_builtins(listed)}, "settings", output)
        return
    rows = [
        (row.name, row.default, row.allowed, f"{row.meaning}{' Fixed at creation.' * row.fixed}")
        for row in listed
    ]
    draw(("SETTING", "DEFAULT", "ALLOWED", "MEANING"), rows, empty="")


def _setting_row(setting: TopicSetting) -> _SettingRow:
    default = setting.default_text.replace("`", "")
    return _SettingRow(
        name=setting.name,
        type=setting.kind.value.replace("`", ""),
        default=default or shown_setting(setting, setting.written(setting.default)),
        allowed=_allowed(setting),
        fixed=setting.is_fixed,
        meaning=setting.meaning.replace("`", ""),
    )


def _allowed(setting: TopicSetting) -> str:
    match setting.kind:
        case SettingKind.NUMBER | SettingKind.DURATION:
            low = setting.minimum + 1 if setting.unlimited == setting.minimum else setting.minimum
            ends = (setting.written(end) for end in (low, setting.maximum))
            words = " to ".join(shown_setting(setting, end) for end in ends)
            return f"{words}, unlimited" if setting.unlimited is not None else words
        case SettingKind.NUMBERS:
            return f"{setting.length} numbers, {setting.minimum} to {setting.maximum}"
        case SettingKind.CHOICE:
            return ", ".join(setting.choices)
        case SettingKind.SWITCH | SettingKind.TOPIC_NAME:
            return setting.kind.value.replace("`", "")


def _explain_settings(context: click.Context, _: click.Parameter, given: tuple[str, ...]) -> object:
    if "help" in given:
        _show_settings(Output.TABLE)
        context.exit()
    return given


_set_option = click.option(
    "--set",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=complete_setting,
    is_eager=True,
    callback=_explain_settings,
    help="Any topic setting, such as segment_bytes=64MiB; may be repeated. --set help lists them.",
)


def _read_retention(_: click.Context, __: click.Parameter, given: str | None) -> int | None:
    return None if given is None else retention_hours(given)


_retention_option = click.option(
    "-r",
    "--retention",
    metavar="TIME",
    callback=_read_retention,
    help="How long to keep messages: 36h, 7d, unlimited; a number is hours.",
)


@topic.command("create", short_help="Create a topic.")
@topic_argument
@click.option(
    "-p", "--partitions", type=int, metavar="N", help="Number of partitions.  [default: 3]"
)
@click.option(
    "--replication-factor",
    type=int,
    metavar="N",
    help="Number of copies, each on another node.  [default: 3, at most one for each node]",
)
@click.option(
    "--min-insync-replicas",
    type=int,
    metavar="N",
    help="Number of copies that must have a message before it is acknowledged.  [default: 2 of 3]",
)
@_retention_option
@_set_option
@server_options
@output_option
def create_command(
    topic: str,
    *,
    partitions: int | None,
    replication_factor: int | None,
    min_insync_replicas: int | None,
    retention: int | None,
    given: tuple[str, ...],
    output: Output,
) -> None:
    """Create TOPIC. Settings not given have the defaults of the server."""
    fields = {
        **read_settings(given),
        **_given(
            num_partitions=partitions,
            retention_hours=retention,
            replication_factor=replication_factor,
            min_insync_replicas=min_insync_replicas,
        ),
    }
    number = cast("int | None", fields.pop("num_partitions", None))
    settings = cast("NewTopicSettings", fields)
    created = ask(lambda q: q.topics.create(topic, partitions=number, **settings))
    show(created, output, draw_created)


@topic.command("alter", short_help="Change settings of a topic.")
@topic_argument
@_retention_option
@_set_option
@server_options
@wide_output_option
def alter_command(
    topic: str, retention: int | None, given: tuple[str, ...], output: Output
) -> None:
    """Change settings of TOPIC; settings not given keep their value."""
    fields = {**read_settings(given), **_given(retention_hours=retention)}
    if not fields:
        raise click.UsageError("nothing to change: add --set NAME=VALUE or --retention TIME")
    for name in fields:
        if SETTINGS[name].is_fixed:
            raise click.UsageError(
                f"--set {name} is fixed when a topic is created and cannot be changed later"
            )
    settings = cast("TopicSettings", fields)
    changed = ask(lambda q: q.topics.alter(topic, **settings))
    show(changed, output, lambda found: draw_topic(found, is_wide=output is Output.WIDE))


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


_delayed_option = click.option(
    "--delayed",
    "cancels_delayed",
    is_flag=True,
    help="Also cancel the pending delayed messages among them.",
)


@topic.command("trim", short_help="Delete messages before an offset or a time.")
@topic_argument
@click.argument("places", nargs=-1, metavar="[PARTITION:OFFSET]...")
@click.option("--before", metavar="TIME", help="All older than a timestamp, or a duration (7d).")
@_delayed_option
@force_option
@server_options
@output_option
def trim_command(
    topic: str,
    places: tuple[str, ...],
    before: str | None,
    output: Output,
    *,
    cancels_delayed: bool,
    is_forced: bool,
) -> None:
    """Delete the messages of TOPIC before PARTITION:OFFSET for good, or before a time.

    The message at OFFSET is the first that is kept. Groups never get what is deleted. A partition
    is deleted only up to its first pending delayed message or open transaction; then the exit code
    is 1. With --delayed, such messages are cancelled first.
    """
    if bool(places) == (before is not None):
        raise click.UsageError("give either PARTITION:OFFSET, once per partition, or --before TIME")
    moment = None if before is None else read_time("before", before, time.time_ns())
    offsets = dict(read_place(place) for place in places)
    if len(offsets) < len(places):
        raise click.UsageError("a partition is named twice")
    which = ", ".join(places) if moment is None else moment
    also = " and cancel delayed ones" if cancels_delayed else ""
    confirm(f"Delete the messages of {topic!a} before {which}{also}?", is_forced=is_forced)

    async def work(session: Session) -> Reply[tuple[PartitionStart, ...]]:
        if moment is not None:
            offsets.update(await _offsets_at(session, topic, moment))
        if cancels_delayed:
            await _cancel_delayed(session, topic, offsets)
        return await session.ask(lambda q: q.topics.trim(topic, offsets))

    _show_starts(topic, run_session(work), output)


@topic.command("purge", short_help="Delete all messages of a topic.")
@topic_argument
@_delayed_option
@force_option
@server_options
@output_option
def purge_command(topic: str, output: Output, *, cancels_delayed: bool, is_forced: bool) -> None:
    """Delete all messages of TOPIC for good; the topic, its settings and its groups stay.

    A partition is deleted only up to its first pending delayed message or open transaction; then
    the exit code is 1. With --delayed, pending delayed messages are cancelled first.
    """
    also = " and cancel the delayed ones" if cancels_delayed else ""
    confirm(f"Delete all messages of {topic!a}{also}?", is_forced=is_forced)

    async def work(session: Session) -> Reply[tuple[PartitionStart, ...]]:
        if cancels_delayed:
            await _cancel_delayed(session, topic, None)
        return await session.ask(lambda q: q.topics.purge(topic))

    _show_starts(topic, run_session(work), output)


async def _offsets_at(session: Session, topic: str, moment: str) -> dict[int, int]:
    """The first offset at or after a time, by partition."""
    offsets = {}
    for reader in await session.q.pages(topic, from_=moment):
        # To read is to learn at which offset the time is.
        reader.step_back(await reader.read(limit=1))
        offsets[reader.log.partition] = min(reader.offset, reader.end)
    return offsets


_DELAYED_PAGE = 1000
_CANCELLED_AT_ONCE = 32


async def _cancel_delayed(session: Session, topic: str, before: dict[int, int] | None) -> None:
    """Cancel what is pending now, below these offsets; None is all of it."""
    delayed = session.q.delayed
    limits = asyncio.Semaphore(_CANCELLED_AT_ONCE)

    async def cancel(partition: int, offset: int) -> None:
        async with limits:
            with contextlib.suppress(AlreadyDelivered, NotFound):
                await delayed.cancel(topic, partition, offset)

    examined = kept = 0
    total = 1
    while examined < total:
        # Those that were cancelled have left the list.
        page = await delayed.page(topic, limit=_DELAYED_PAGE, skip=kept)
        if not page.messages:
            break
        total = max(total, examined + page.total)
        async with asyncio.TaskGroup() as tasks:
            for each in page.messages:
                if before is None or each.offset < before.get(each.partition, 0):
                    tasks.create_task(cancel(each.partition, each.offset))
                else:
                    kept += 1
        examined += len(page.messages)


_KEPT_BY = {
    "delayed_message": (
        "a pending delayed message",
        "see: goqueue delayed list {topic}; --delayed cancels such messages",
    ),
    "open_transaction": ("an open transaction", "see: goqueue txn list"),
}


def _show_starts(topic: str, reply: Reply[tuple[PartitionStart, ...]], output: Output) -> None:
    show(reply, output, draw_starts, items="partitions")
    refuse_kept(topic, reply.value)


def draw_starts(starts: tuple[PartitionStart, ...]) -> None:
    rows = [
        (each.partition, each.deleted_offsets, each.earliest_offset, _keeper(each))
        for each in starts
    ]
    headings = ("PARTITION", "DELETED", "FIRST OFFSET", "KEPT FOR")
    has_notes = any(each.kept_by for each in starts)
    shown = rows if has_notes else [row[:-1] for row in rows]
    draw(headings if has_notes else headings[:-1], shown, empty="no partitions")


def refuse_kept(topic: str, starts: tuple[PartitionStart, ...]) -> None:
    """End the command as failed if not all that was asked for was deleted."""
    kept = next((each for each in starts if each.kept_by), None)
    if kept is None:
        return
    place = f"{kept.partition}:{kept.earliest_offset}"
    _, hint = _KEPT_BY.get(kept.kept_by, ("", ""))
    raise Failure(
        printable(
            f"not all was deleted: {_keeper(kept)} of {topic} needs what is left from {place} on"
        ),
        code=f"kept_by_{kept.kept_by}",
        hint=printable(hint.format(topic=topic)),
    )


def _keeper(start: PartitionStart) -> str:
    return _KEPT_BY.get(start.kept_by, (start.kept_by, ""))[0]


def _given(**fields: int | None) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
