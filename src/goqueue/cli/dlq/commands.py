"""The commands of `goqueue dlq`. TOPIC is always the one that the letters came from."""

import click

from goqueue.cli.confirmation import confirm, force_option
from goqueue.cli.names import complete_topics, topic_argument
from goqueue.cli.output import Output, output_option
from goqueue.cli.server_flags import server_options

__all__ = ["dlq"]

DONE = 0


@click.group("dlq")
@server_options
@output_option
def dlq(output: Output) -> None:
    """Look at dead letters: messages that were rejected, or failed too often. Put them back."""


@dlq.command("list", short_help="List dead letters, oldest first.")
@topic_argument
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="N",
    help="At most so many.",
)
@server_options
@output_option
def list_command(topic: str, limit: int, output: Output) -> int:
    """List the dead letters of TOPIC that are kept, oldest first, redriven ones included."""
    from goqueue.cli.asking import Session, run_session
    from goqueue.cli.dlq.letters import list_letters

    async def scene(session: Session) -> None:
        await list_letters(session, topic, limit, output)

    run_session(scene)
    return DONE


@dlq.command("show", short_help="Show one dead letter in full.")
@topic_argument
@click.argument("place", metavar="PARTITION:OFFSET")
@server_options
@output_option
def show_command(topic: str, place: str, output: Output) -> int:
    """Show the dead letter of TOPIC at PARTITION:OFFSET, as `dlq list` names it."""
    from goqueue.cli.asking import Session, run_session
    from goqueue.cli.dlq.letters import read_place, show_letter

    partition, offset = read_place(place)

    async def scene(session: Session) -> None:
        await show_letter(session, topic, partition, offset, output)

    run_session(scene)
    return DONE


@dlq.command("redrive", short_help="Put dead letters back.")
@topic_argument
@click.option("--max", "count_max", type=int, metavar="N", help="At most so many.  [default: 1000]")
@click.option(
    "--to-topic",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Not back to their origin but here.",
)
@click.option("--reason", metavar="TEXT", help="Only those with this cause or reason.")
@force_option
@server_options
@output_option
def redrive_command(
    topic: str,
    count_max: int | None,
    to_topic: str | None,
    reason: str | None,
    output: Output,
    *,
    is_forced: bool,
) -> int:
    """Put dead letters of TOPIC back, oldest first, each once. Repeat until none is moved."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.dlq.letters import Moved, draw_moved
    from goqueue.client.transport import post

    goal = "back into" if to_topic is None else f"into {to_topic!a} instead of"
    confirm(f"Put dead letters {goal} {topic!a}?", is_forced=is_forced)
    fields: dict[str, object] = {
        "max": count_max,
        "to_topic": to_topic,
        "filter": None if reason is None else {"reason": reason},
    }
    request = post("topics", topic, "dlq", "redrive", fields=fields)
    show(ask(request), output, Moved, draw_moved)
    return DONE
