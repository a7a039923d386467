"""The commands of `goqueue group`: arguments in, one request, its answer out."""

import click

from goqueue.cli.confirmation import confirm, force_option
from goqueue.cli.names import complete_topics, group_argument
from goqueue.cli.output import Output, output_option
from goqueue.cli.server_flags import server_options

__all__ = ["group"]

DONE = 0


@click.group("group")
@server_options
@output_option
def group(output: Output) -> None:
    """Look at consumer groups, their lag and their positions, and move them."""


@group.command("list", short_help="List all groups.")
@server_options
@output_option
def list_command(output: Output) -> int:
    """List all groups."""
    from goqueue.cli.group.listing import list_groups

    list_groups(output)
    return DONE


@group.command("describe", short_help="Show one group and its members.")
@group_argument
@server_options
@output_option
def describe_command(group: str, output: Output) -> int:
    """Show GROUP and its members."""
    from goqueue.cli.group.listing import describe_group

    describe_group(group, output)
    return DONE


@group.command("lag", short_help="Show how far a group is behind.")
@group_argument
@server_options
@output_option
def lag_command(group: str, output: Output) -> int:
    """Show how many messages GROUP has not settled, and for how long the oldest has waited."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.group.tables import draw_lag
    from goqueue.client.admin import GroupLag
    from goqueue.client.transport import get

    show(ask(get("groups", group, "lag")), output, GroupLag, draw_lag)
    return DONE


@group.command("offsets", short_help="Show the positions of a group.")
@group_argument
@click.option("--topic", metavar="TOPIC", shell_complete=complete_topics, help="Only this topic.")
@server_options
@output_option
def offsets_command(group: str, topic: str | None, output: Output) -> int:
    """Show the next offset of GROUP wherever it has committed one."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.group.tables import draw_offsets
    from goqueue.client.admin import GroupOffsets
    from goqueue.client.transport import get

    show(ask(get("groups", group, "offsets", topic=topic)), output, GroupOffsets, draw_offsets)
    return DONE


@group.command("delete", short_help="Delete a group and its positions.")
@group_argument
@force_option
@server_options
@output_option
def delete_command(group: str, output: Output, *, is_forced: bool) -> int:
    """Delete GROUP with its members, positions and leases. No message is lost."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.group.tables import DeletedGroup, draw_deleted
    from goqueue.client.transport import Request, target

    confirm(f"Delete the group {group!a} and its positions?", is_forced=is_forced)
    request = Request(method="DELETE", target=target("groups", group))
    show(ask(request), output, DeletedGroup, draw_deleted)
    return DONE


@group.command("reset-offsets", short_help="Move the positions of a group.")
@group_argument
@click.option(
    "--topic",
    required=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="The topic to move in.",
)
@click.option(
    "-p", "--partition", type=click.IntRange(0), metavar="N", help="Only this one.  [default: all]"
)
@click.option("--to-earliest", is_flag=True, help="To the oldest message.")
@click.option("--to-latest", is_flag=True, help="Past the newest message.")
@click.option("--to-timestamp", metavar="TIME", help="To a time, or so long ago as 15m.")
@click.option("--to-offset", type=click.IntRange(0), metavar="N", help="To this offset.")
@click.option("--dry-run", is_flag=True, help="Show where it would go; change nothing.")
@force_option
@server_options
@output_option
def reset_command(**given: object) -> int:
    """Move positions of GROUP, also back. Open leases of those partitions become stale."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.group.reset import read_reset
    from goqueue.cli.group.tables import draw_reset
    from goqueue.client.admin import ResetOffsets

    reset = read_reset(given)
    if not reset.is_dry:
        question = f"Move the group {reset.group!a} in {reset.topic!a} to {reset.words}?"
        confirm(question, is_forced=reset.is_forced)
    show(ask(reset.request), reset.output, ResetOffsets, draw_reset)
    return DONE
