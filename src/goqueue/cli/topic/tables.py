"""Topics drawn for a person."""

import msgspec

from goqueue.cli.asking import draw
from goqueue.cli.render import console, printable, sized, table
from goqueue.client.admin import LaneStats, NodeStats, Partition, Topic

__all__ = [
    "Created",
    "Deleted",
    "Partitions",
    "draw_created",
    "draw_deleted",
    "draw_lanes",
    "draw_list",
    "draw_partitions",
    "draw_topic",
]


class Created(msgspec.Struct, frozen=True):
    """The answer to a new topic, as far as it is shown."""

    name: str
    partitions: int


class Deleted(msgspec.Struct, frozen=True):
    """The answer to a deletion."""

    name: str


class Partitions(msgspec.Struct, frozen=True):
    """The answer that lists partitions."""

    partitions: tuple[Partition, ...]


def draw_created(created: Created) -> None:
    count = f"{created.partitions} partition{'' if created.partitions == 1 else 's'}"
    print(f"made topic {printable(created.name)} with {count}")


def draw_deleted(deleted: Deleted) -> None:
    print(f"deleted topic {printable(deleted.name)}")


def draw_list(names: tuple[str, ...], stats: NodeStats | None) -> None:
    """Names with their sizes; names alone when the sizes are not ours to see."""
    empty = "no topics; make one with: goqueue topic create TOPIC"
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
    created = "" if topic.created_at is None else f"{topic.created_at:%Y-%m-%d %H:%M:%S} UTC"
    facts: list[tuple[str, str | int]] = [
        ("name", topic.name),
        ("partitions", topic.partitions),
        ("messages", topic.total_messages),
        ("size", sized(topic.total_size_bytes)),
        ("created", created),
    ]
    config = msgspec.structs.asdict(topic.config)
    facts += [(name, _worded(value)) for name, value in config.items()]
    console().print(table(("FIELD", "VALUE"), [(name, str(value)) for name, value in facts]))
    offsets = sorted(topic.partition_offsets.items())
    rows = [(number, ends.earliest, ends.latest + 1) for number, ends in offsets]
    draw(("PARTITION", "FIRST OFFSET", "NEXT OFFSET"), rows, empty="")


def draw_lanes(lanes: tuple[LaneStats, ...]) -> None:
    """What each priority of each group does; `READY` is what is looked ahead, not the backlog."""
    rows = [
        (
            each.consumer_group,
            each.partition,
            each.priority,
            each.ready,
            each.in_flight,
            each.dequeued,
            "" if each.last_served is None else f"{each.last_served:%Y-%m-%d %H:%M:%S} UTC",
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


def draw_partitions(answer: Partitions) -> None:
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
        for each in answer.partitions
    ]
    headings = ("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "FIRST", "END", "COMMITTED", "SIZE")
    draw(headings, rows, empty="no partitions")


def _worded(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(str(each) for each in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
