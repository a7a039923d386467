"""Groups drawn for a person."""

from collections.abc import Mapping

import msgspec

from goqueue.cli.asking import draw
from goqueue.cli.render import console, printable, table
from goqueue.client.admin import (
    GroupDescription,
    GroupLag,
    GroupOffsets,
    GroupSummary,
    ResetOffsets,
)

__all__ = [
    "DeletedGroup",
    "Groups",
    "draw_deleted",
    "draw_group",
    "draw_groups",
    "draw_lag",
    "draw_offsets",
    "draw_reset",
]


class Groups(msgspec.Struct, frozen=True):
    """The answer that lists groups."""

    group_details: tuple[GroupSummary, ...]


class DeletedGroup(msgspec.Struct, frozen=True):
    """The answer to a deletion."""

    group_id: str


def draw_groups(groups: Groups, lags: Mapping[str, int]) -> None:
    rows = [
        (
            each.group_id,
            each.state,
            each.mode,
            each.members,
            lags.get(each.group_id, "-"),
            ", ".join(each.topics),
        )
        for each in groups.group_details
    ]
    empty = "no groups; one is made by its first member: goqueue consume TOPIC -g GROUP"
    draw(("GROUP", "STATE", "MODE", "MEMBERS", "LAG", "TOPICS"), rows, empty=empty)


def draw_group(group: GroupDescription, lag: int | None) -> None:
    created = "" if group.created_at is None else f"{group.created_at:%Y-%m-%d %H:%M:%S} UTC"
    facts = [
        ("group", group.group_id),
        ("state", group.state),
        ("mode", group.mode),
        ("protocol", group.protocol),
        ("generation", str(group.generation)),
        ("topics", ", ".join(group.topics)),
        ("lag", "-" if lag is None else str(lag)),
        ("created", created),
    ]
    console().print(table(("FIELD", "VALUE"), facts))
    rows = [
        (
            each.member_id,
            each.client_id,
            ", ".join(each.assigned_partitions),
            each.in_flight,
            f"{each.last_heartbeat:%Y-%m-%d %H:%M:%S} UTC",
        )
        for each in group.members
    ]
    headings = ("MEMBER", "CLIENT", "PARTITIONS", "IN FLIGHT", "LAST HEARTBEAT")
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
            each.time_lag,
        )
        for each in lag.partitions
    ]
    headings = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "IN FLIGHT", "BEHIND BY")
    draw(headings, rows, empty="the group reads nothing")
    if rows:
        print(f"total lag {lag.total_lag}")


def draw_offsets(offsets: GroupOffsets) -> None:
    rows = [
        (topic, partition, offset)
        for topic, partitions in sorted(offsets.offsets.items())
        for partition, offset in sorted(partitions.items())
    ]
    draw(("TOPIC", "PARTITION", "NEXT OFFSET"), rows, empty="nothing is committed yet")


def draw_reset(reset: ResetOffsets) -> None:
    rows = [(each.topic, each.partition, each.offset, each.lag) for each in reset.new_offsets]
    draw(("TOPIC", "PARTITION", "NEXT OFFSET", "LAG"), rows, empty="no position to move")


def draw_deleted(deleted: DeletedGroup) -> None:
    print(f"deleted group {printable(deleted.group_id)}")
