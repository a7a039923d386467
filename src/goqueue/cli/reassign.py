"""`goqueue cluster reassign`: move partitions to other nodes, and see how far that is."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import msgspec

from goqueue.cli.client import ask
from goqueue.cli.options import Output, confirm, force_option, output_option, server_options
from goqueue.cli.output import draw, printable, show, shown_time
from goqueue.cli.quantities import parse_size, sized
from goqueue.client.cluster import Move, Reassignment

if TYPE_CHECKING:
    from goqueue.client.connection import Connection

__all__ = ["draw_reassignment", "draw_reassignments", "reassign"]

_FILE_BYTES_MAX = 1 << 20


class _MoveIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A partition as a file names it."""

    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0)]
    new_replicas: tuple[str, ...]


class _Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a file holds: the body of `POST /admin/reassignment`."""

    partitions: tuple[_MoveIn, ...]
    throttle_bytes_per_sec: Annotated[int, msgspec.Meta(ge=1)] | None = None
    timeout_per_partition_sec: Annotated[int, msgspec.Meta(ge=1)] = 3600


def draw_reassignments(found: tuple[Reassignment, ...]) -> None:
    rows = [
        (
            each.id,
            each.state,
            f"{sum(move.state == 'completed' for move in each.partitions)}/{len(each.partitions)}",
            sized(sum(move.bytes_transferred for move in each.partitions)),
            shown_time(each.started_at),
            each.error or "",
        )
        for each in found
    ]
    headers = ("REASSIGNMENT", "STATE", "MOVED", "SENT", "STARTED", "ERROR")
    draw(headers, rows, empty="no reassignments")


def draw_reassignment(found: Reassignment) -> None:
    rate = found.throttle_bytes_per_sec
    limit = "no limit" if rate is None else f"at most {sized(rate)}/s from each node"
    print(printable(f"{found.id}: {found.state}, {limit}"))
    rows = [
        (
            f"{move.topic}-{move.partition}",
            ",".join(move.old_replicas),
            ",".join(move.new_replicas),
            move.state,
            f"{move.catchup_percent:.1f} %",
            sized(move.bytes_transferred),
            move.error or "",
        )
        for move in found.partitions
    ]
    draw(("PARTITION", "FROM", "TO", "STATE", "COPIED", "SENT", "ERROR"), rows, empty="")


def _read_plan(path: str) -> _Plan:
    """The partitions that a file names; `-` is the standard input."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        if len(data) > _FILE_BYTES_MAX:
            raise click.UsageError(f"{path!a} is larger than 1 MiB")
        return msgspec.json.decode(data, type=_Plan)
    except OSError as error:
        raise click.UsageError(f"cannot read {path!a}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise click.UsageError(f"{path!a}: {error}") from error


@click.group("reassign")
@server_options
@output_option
def reassign(output: Output) -> None:
    """Move partitions to other nodes while they are used."""


@reassign.command("plan", short_help="Write the file that replaces a node by another.")
@click.option(
    "--replace",
    "replacement",
    metavar="OLD=NEW",
    required=True,
    help="Where OLD keeps a copy, NEW is to keep it.",
)
@click.option("--topic", "topics", multiple=True, metavar="T", help="Only this one; repeatable.")
@server_options
@output_option
def plan_command(replacement: str, topics: tuple[str, ...], output: Output) -> None:
    """Print what `reassign start --file` takes: each copy of the node OLD goes to the node NEW.

    Nothing is moved. Partitions of which NEW has a copy already are left out.
    """
    old, _, new = replacement.partition("=")
    if not old or not new or not output.is_table:
        raise click.UsageError("name the nodes as OLD=NEW; the plan is always printed as JSON")
    found = ask(lambda q: _plan(q, old, new, topics)).value
    if not found.partitions:
        raise click.UsageError(f"no partition has a copy on {old!a} and none on {new!a}")
    document = msgspec.json.format(msgspec.json.encode(found), indent=1)
    sys.stdout.write(document.decode() + "\n")


async def _plan(q: "Connection", old: str, new: str, topics: tuple[str, ...]) -> _Plan:
    names = topics or await q.topics.list()
    copies = [
        (name, each.partition, each.replicas)
        for name in names
        for each in await q.topics.partitions(name)
    ]
    if not topics:
        coordinators = await q.cluster.coordinators()
        copies += [
            (coordinators.internal_topic, each.partition, each.replicas)
            for each in coordinators.coordinators
        ]
    return _Plan(
        tuple(
            _MoveIn(name, number, tuple(new if each == old else each for each in replicas))
            for name, number, replicas in copies
            if old in replicas and new not in replicas
        )
    )


@reassign.command("start", short_help="Move the partitions that a file names.")
@click.option("--file", "path", metavar="FILE", required=True, help="JSON; - is standard input.")
@click.option(
    "--throttle",
    metavar="SIZE",
    help="What each node sends new replicas in a second at most, such as 20MiB.",
)
@server_options
@output_option
def start_command(path: str, throttle: str | None, output: Output) -> None:
    """Move the partitions that FILE names to other nodes, while they are used.

    FILE holds {"partitions": [{"topic": "orders", "partition": 0, "new_replicas": ["node-1",
    "node-4"]}]}. The first new replica is the preferred leader.
    """
    plan = _read_plan(path)
    rate = plan.throttle_bytes_per_sec
    if throttle is not None:
        try:
            rate = parse_size(throttle)
        except ValueError as error:
            raise click.UsageError(f"--throttle {error}") from error
    moves = [Move(each.topic, each.partition, each.new_replicas) for each in plan.partitions]
    show(
        ask(
            lambda q: q.cluster.reassign(
                moves,
                throttle_bytes_per_sec=rate,
                timeout_per_partition_s=plan.timeout_per_partition_sec,
            )
        ),
        output,
        draw_reassignment,
    )


@reassign.command("list", short_help="List reassignments.")
@server_options
@output_option
def list_command(output: Output) -> None:
    """List the reassignments that run, and the last that ended."""
    found = ask(lambda q: q.cluster.reassignments())
    show(found, output, draw_reassignments, items="reassignments")


_ID = click.argument("reassignment_id", metavar="ID")


@reassign.command("get", short_help="Show how far a reassignment is.")
@_ID
@server_options
@output_option
def get_command(reassignment_id: str, output: Output) -> None:
    """Show how far the reassignment ID is, partition by partition."""
    found = ask(lambda q: q.cluster.reassignment(reassignment_id))
    show(found, output, draw_reassignment)


@reassign.command("cancel", short_help="Leave what is not moved yet where it was.")
@_ID
@force_option
@server_options
@output_option
def cancel_command(reassignment_id: str, output: Output, *, is_forced: bool) -> None:
    """Cancel the reassignment ID: what is not moved yet stays where it was."""
    confirm(f"Cancel the reassignment {reassignment_id!a}?", is_forced=is_forced)
    cancelled = ask(lambda q: q.cluster.cancel_reassignment(reassignment_id))
    show(cancelled, output, draw_reassignment)
