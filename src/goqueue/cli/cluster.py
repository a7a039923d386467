"""`goqueue cluster`: its nodes, controller and health, who leads what, its data directories."""

from typing import TYPE_CHECKING

import click

from goqueue.cli.client import Session, ask, run_session
from goqueue.cli.errors import ServerRefusal
from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import (
    Output,
    confirm,
    force_option,
    output_option,
    read_name,
    server_options,
)
from goqueue.cli.output import Reply, console, draw, printable, show, shown_time, table
from goqueue.cli.reassign import reassign
from goqueue.client import GoQueueError
from goqueue.client.cluster import ClusterHealth, ClusterState, Coordinators, GroupCoordinator

if TYPE_CHECKING:
    from goqueue.runtime import ConvertedDirectory

__all__ = ["cluster", "draw_coordinators", "draw_health", "draw_info", "draw_nodes"]

_NODES_MAX = 64


def draw_info(found: ClusterState) -> None:
    alive = sum(node.status == "alive" for node in found.nodes)
    facts = [
        ("cluster", found.cluster_id or "none yet"),
        ("controller", found.controller_id or "none"),
        ("epoch", str(found.controller_epoch)),
        ("metadata version", str(found.version)),
        ("feature level", str(found.feature_level or "")),
        ("nodes", f"{len(found.nodes)}, {alive} alive"),
        ("voters", ", ".join(node.id for node in found.nodes if node.is_voter)),
        ("problem", found.problem),
    ]
    rows = [(name, printable(value)) for name, value in facts if value]
    console().print(table(("FIELD", "VALUE"), rows))


def draw_nodes(found: ClusterState) -> None:
    rows = [
        (
            node.id,
            node.status,
            "controller" if node.is_controller else "voter" if node.is_voter else "learner",
            node.leaders,
            node.replicas,
            node.client_address,
            node.peer_address,
            node.version,
        )
        for node in found.nodes
    ]
    headings = (
        "NODE",
        "STATUS",
        "ROLE",
        "LEADS",
        "REPLICAS",
        "CLIENTS",
        "PEERS",
        "VERSION",
    )
    draw(headings, rows, empty="no nodes")


def draw_health(found: ClusterHealth) -> None:
    print(f"{found.status}: {found.healthy} of {found.node_count} nodes are healthy")
    if found.offline_partitions:
        print(f"{found.offline_partitions} partitions have no leader")
    if found.under_replicated_partitions:
        print(f"{found.under_replicated_partitions} partitions lack replicas that are in sync")
    if not found.controller_id:
        print("there is no controller: metadata cannot change until a majority of voters is back")
    if found.problem:
        print(printable(found.problem))
    rows = [(node.id, node.status, shown_time(node.last_seen) or "never") for node in found.nodes]
    draw(("NODE", "STATUS", "LAST SEEN"), rows, empty="no nodes")


def draw_coordinators(found: Coordinators) -> None:
    rows = [
        (each.partition, each.leader or "none", ",".join(each.replicas), ",".join(each.isr))
        for each in found.coordinators
    ]
    headings = ("PARTITION", "COORDINATOR", "REPLICAS", "IN SYNC")
    draw(headings, rows, empty="no coordinator: no group was used yet")


def _draw_coordinator(found: GroupCoordinator) -> None:
    node = found.coordinator_node or "nobody"
    print(printable(f"{node} coordinates {found.group_id}"))


@click.group("cluster")
@server_options
@output_option
def cluster(output: Output) -> None:
    """Inspect a cluster; move partitions; forget nodes that are gone for good."""


cluster.add_command(reassign)


@cluster.command("info", short_help="Show the cluster and its controller.")
@server_options
@output_option
def info_command(output: Output) -> None:
    """Show the cluster, its controller and its voters."""
    show(ask(lambda q: q.cluster.state()), output, draw_info)


@cluster.command("nodes", short_help="List the nodes.")
@server_options
@output_option
def nodes_command(output: Output) -> None:
    """List the nodes: status, role, how many partitions they lead and keep, addresses."""
    show(ask(lambda q: q.cluster.state()), output, draw_nodes)


@cluster.command("health", short_help="Say whether the cluster works.")
@server_options
@output_option
def health_command(output: Output) -> int:
    """Say whether the cluster works. The exit code is 1 unless all is well."""
    found = ask(lambda q: q.cluster.health())
    show(found, output, draw_health)
    return ExitCode.DONE if found.value.status == "ok" else ExitCode.FAILED


@cluster.command("forget", short_help="Remove a node that is gone for good.")
@click.argument("node", metavar="NODE", callback=read_name)
@force_option
@server_options
@output_option
def forget_command(node: str, output: Output, *, is_forced: bool) -> None:
    """Remove NODE from the cluster for good, so that another node may take its id.

    What only its disk had is lost. A node that is alive is refused: stop it first.
    """
    confirm(f"Forget the node {node!a} for good?", is_forced=is_forced)
    show(
        run_session(lambda session: _forget(session, node)),
        output,
        lambda _: print(printable(f"forgot {node}")),
    )


@cluster.command("coordinators", short_help="Show which node coordinates groups.")
@click.argument("group", metavar="[GROUP]", required=False)
@server_options
@output_option
def coordinators_command(group: str | None, output: Output) -> None:
    """Show which nodes coordinate groups, or which one coordinates GROUP."""
    if group is None:
        show(ask(lambda q: q.cluster.coordinators()), output, draw_coordinators)
    else:
        show(ask(lambda q: q.cluster.coordinator_of(group)), output, _draw_coordinator)


@cluster.command("elect", short_help="Let another replica lead a partition.")
@click.argument("partition", metavar="TOPIC-PARTITION")
@click.argument("node", metavar="[NODE]", required=False, callback=read_name)
@click.option(
    "--unclean",
    "is_unclean",
    is_flag=True,
    help="Accept that acknowledged messages which the node lacks are lost.",
)
@force_option
@server_options
@output_option
def elect_command(
    partition: str, node: str | None, output: Output, *, is_unclean: bool, is_forced: bool
) -> None:
    """Let NODE, or the preferred leader, lead TOPIC-PARTITION (orders-0); nothing is lost.

    With --unclean a node leads although it is not in sync: for a partition whose copies in sync are
    all gone for good. Acknowledged messages that it lacks are lost. Refused while a node with a
    copy in sync is alive.
    """
    topic, _, number = partition.rpartition("-")
    if not topic or not number.isdecimal():
        raise click.UsageError("name a partition as TOPIC-PARTITION, for example orders-0")
    if is_unclean:
        confirm(f"Elect a leader of {partition!a} that may lack messages?", is_forced=is_forced)
        elected = run_session(lambda session: _elect(session, topic, int(number), node or ""))
    else:
        elected = ask(lambda q: q.cluster.transfer_leader(topic, int(number), node or ""))
    show(elected, output, lambda leader: print(printable(f"{leader} leads {partition}")))


def _read_names(
    context: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(read_name(context, parameter, each) or "" for each in given)


def _draw_converted(done: "ConvertedDirectory") -> None:
    if done.topics or done.groups:
        print(f"converted {done.topics} topics and {done.groups} groups")
    else:
        print("the conversion is complete")
    print(printable(f"cluster {done.cluster_id}; the old journals are in {done.unclaimed}"))


@cluster.command("convert", short_help="Make a single node the first node of a cluster.")
@click.argument("node", metavar="NODE", callback=read_name)
@click.argument("others", metavar="OTHER...", nargs=-1, required=True, callback=_read_names)
@click.option(
    "--data-dir",
    required=True,
    metavar="DIR",
    help="Data directory of the single node, which is stopped.",
)
@force_option
@output_option
def convert_command(
    node: str, others: tuple[str, ...], data_dir: str, output: Output, *, is_forced: bool
) -> None:
    """Make the data directory of a single node that of NODE, the first node of a new cluster.

    The topics with all messages, groups, transactions, schedules, keys, ACLs and tenants are the
    cluster's then. The nodes named as OTHER keep copies of all topics as soon as they join, with
    empty directories; of more than two, two for each partition. What cannot be taken over is named,
    and nothing is changed. A run that was cut short continues when the command is given again.
    """
    if len({node, *others}) != 1 + len(others) or len(others) >= _NODES_MAX:
        raise click.UsageError(f"name each node once, and at most {_NODES_MAX} of them")
    question = f"Make {data_dir!a} the data directory of {node!a} in a new cluster, for good?"
    confirm(question, is_forced=is_forced)
    from goqueue.cli.cluster_directory import convert

    show(convert(data_dir, node, others), output, _draw_converted)


@cluster.command("recover", short_help="Continue a cluster whose voters are lost for good.")
@click.option("--data-dir", required=True, metavar="DIR", help="Data directory of a stopped node.")
@click.option(
    "--follow",
    "cluster_id",
    metavar="CLUSTER",
    help="Follow the cluster of this id, which was recovered on another node.",
)
@force_option
@output_option
def recover_command(
    data_dir: str, cluster_id: str | None, output: Output, *, is_forced: bool
) -> None:
    """Continue a cluster on a node that is left, when a majority of its voters is lost for good.

    Says what may be lost first. The node becomes the only voter of a cluster with another id;
    the lost voters are refused if they come back. Every other node that is left follows with
    --follow and the id that is printed, and keeps its copies. While a majority of the voters
    could still come back, wait for it instead.
    """
    from goqueue.cli.cluster_directory import follow, losses, recover

    if cluster_id is not None:
        confirm(f"Let the node of {data_dir!a} follow {cluster_id!a}?", is_forced=is_forced)
        show(
            follow(data_dir, cluster_id),
            output,
            lambda done: print(printable(f"follows the cluster {done.cluster_id}")),
        )
        return
    for sentence in losses(data_dir):
        click.echo(printable(sentence), err=True)
    confirm("Continue the cluster on this node alone, for good?", is_forced=is_forced)
    show(
        recover(data_dir),
        output,
        lambda done: print(printable(f"recovered as the cluster {done.cluster_id}")),
    )


async def _elect(session: Session, topic: str, partition: int, node: str) -> Reply[str]:
    try:
        return await session.ask(lambda q: q.cluster.elect_unclean(topic, partition, node))
    except GoQueueError as error:
        if error.code != "node_alive":
            raise
        # The advice of the API, to stop the node that is alive, is for those who forget one.
        raise ServerRefusal(
            f"a copy of {topic}-{partition} in sync is alive: it leads, and nothing is lost",
            code=error.code,
            hint=f"see: goqueue topic partitions {topic}",
        ) from error


async def _forget(session: Session, node: str) -> Reply[None]:
    """The controller does it; any node passes it on."""
    return await session.ask(lambda q: q.cluster.forget(node))
