"""The commands of `goqueue topic`: arguments in, one request, its answer out."""

import click

from goqueue.cli.confirmation import confirm, force_option
from goqueue.cli.names import topic_argument
from goqueue.cli.output import Output, output_option
from goqueue.cli.server_flags import server_options

__all__ = ["topic"]

DONE = 0


@click.group("topic")
@server_options
@output_option
def topic(output: Output) -> None:
    """Make, list, describe, change and delete topics."""


@topic.command("list", short_help="List all topics.")
@server_options
@output_option
def list_command(output: Output) -> int:
    """List all topics, with their sizes."""
    from goqueue.cli.asking import Session, run_session
    from goqueue.cli.topic.listing import list_topics

    async def scene(session: Session) -> None:
        await list_topics(session, output)

    run_session(scene)
    return DONE


@topic.command("describe", short_help="Show one topic.")
@topic_argument
@server_options
@output_option
def describe_command(topic: str, output: Output) -> int:
    """Show the settings, the sizes and the offsets of TOPIC, and its lanes if it has several."""
    from goqueue.cli.asking import Session, run_session
    from goqueue.cli.topic.describing import describe_topic

    async def scene(session: Session) -> None:
        await describe_topic(session, topic, output)

    run_session(scene)
    return DONE


@topic.command("partitions", short_help="Show the partitions of a topic.")
@topic_argument
@server_options
@output_option
def partitions_command(topic: str, output: Output) -> int:
    """Show where the partitions of TOPIC are, and how far each goes."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.topic.tables import Partitions, draw_partitions
    from goqueue.client.transport import get

    show(ask(get("topics", topic, "partitions")), output, Partitions, draw_partitions)
    return DONE


@topic.command("create", short_help="Make a topic.")
@topic_argument
@click.option(
    "-p", "--partitions", type=int, metavar="N", help="Number of partitions.  [default: 3]"
)
@click.option(
    "-r",
    "--retention",
    type=int,
    metavar="HOURS",
    help="How long messages are kept; -1 is for ever.  [default: 168]",
)
@click.option(
    "--set", "given", multiple=True, metavar="FIELD=VALUE", help="Any setting; may be repeated."
)
@server_options
@output_option
def create_command(
    topic: str,
    partitions: int | None,
    retention: int | None,
    given: tuple[str, ...],
    output: Output,
) -> int:
    """Make TOPIC. What is not given is left to the server."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.topic.settings import read_settings
    from goqueue.cli.topic.tables import Created, draw_created
    from goqueue.client.transport import post

    fields: dict[str, object] = {
        "name": topic,
        **read_settings(given),
        **_given(num_partitions=partitions, retention_hours=retention),
    }
    show(ask(post("topics", fields=fields)), output, Created, draw_created)
    return DONE


@topic.command("alter", short_help="Change settings of a topic.")
@topic_argument
@click.option("-r", "--retention", type=int, metavar="HOURS", help="How long messages are kept.")
@click.option(
    "--set", "given", multiple=True, metavar="FIELD=VALUE", help="Any setting; may be repeated."
)
@server_options
@output_option
def alter_command(topic: str, retention: int | None, given: tuple[str, ...], output: Output) -> int:
    """Change settings of TOPIC; what is not named stays as it is."""
    import msgspec

    from goqueue.cli.asking import ask, show
    from goqueue.cli.topic.settings import read_settings
    from goqueue.cli.topic.tables import draw_topic
    from goqueue.client.admin import Topic
    from goqueue.client.transport import Request, target

    fields = {**read_settings(given), **_given(retention_hours=retention)}
    if not fields:
        raise click.UsageError("nothing to change: add --set FIELD=VALUE or --retention HOURS")
    request = Request(
        method="PATCH",
        target=target("topics", topic),
        body=msgspec.json.encode(fields),
        is_repeatable=True,
    )
    show(ask(request), output, Topic, draw_topic)
    return DONE


@topic.command("delete", short_help="Delete a topic and its messages.")
@topic_argument
@force_option
@server_options
@output_option
def delete_command(topic: str, output: Output, *, is_forced: bool) -> int:
    """Delete TOPIC, its messages, and every group's place in it. Its dead letters stay."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.topic.tables import Deleted, draw_deleted
    from goqueue.client.transport import Request, target

    confirm(f"Delete the topic {topic!a} and all its messages?", is_forced=is_forced)
    request = Request(method="DELETE", target=target("topics", topic))
    show(ask(request), output, Deleted, draw_deleted)
    return DONE


def _given(**fields: int | None) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
