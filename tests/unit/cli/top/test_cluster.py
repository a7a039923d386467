"""A cluster on the screen: rates of all nodes, what it lacks, and a node that is gone."""

import msgspec

from goqueue.cli.top.frame import Size, draw_all, draw_frame
from goqueue.cli.top.model import Board
from goqueue.cli.top.nodes import ClusterSample, NodeAnswer, NodeLook, joined_stats
from goqueue.cli.top.state import Choice, View, press
from goqueue.cli.top.tracks import MachineFacts
from goqueue.client.admin_replies import TopicStats
from goqueue.client.cluster import ClusterHealth, ClusterNode, NodeHealth
from tests.unit.cli.top.samples import NOON, sample, topic

SERVER = "http://a:8080"


def answer(published: int, *, at_s: float = 0.0) -> NodeAnswer:
    found = sample(at_s, topics={"orders": topic(10, 100, published=published, consumed=0)})
    machine = MachineFacts(free_bytes=50, size_bytes=100, errors=0)
    return NodeAnswer(
        round_trip_s=0.002, readiness=found.readiness, stats=found.stats, machine=machine
    )


def look(name: str, found: NodeAnswer | None, *, leaders: int = 0) -> NodeLook:
    node = ClusterNode(
        id=name,
        client_address=f"{name}:8080",
        peer_address=f"{name}:7000",
        status="alive" if found else "dead",
        is_controller=name == "n1",
        is_voter=True,
        leaders=leaders,
        replicas=3,
    )
    return NodeLook(node=node, answer=found, failure="" if found else "not reached")


def cluster(
    *looks: NodeLook, offline: int = 0, lacking: int = 0, controller: str = "n1", full: str = ""
) -> ClusterSample:
    missing = sum(each.answer is None for each in looks)
    health = ClusterHealth(
        status="ok",
        node_id="n1",
        role="controller",
        controller_id=controller,
        controller_epoch=1,
        node_count=len(looks),
        healthy=len(looks) - missing,
        unhealthy=missing,
        under_replicated_partitions=lacking,
        offline_partitions=offline,
        nodes=tuple(
            NodeHealth(id=each.node.id, status=each.node.status, is_full=each.node.id == full)
            for each in looks
        ),
    )
    return ClusterSample(health=health, nodes=looks)


def board_of(*clusters: ClusterSample) -> Board:
    """What is known after looks a second apart."""
    board = Board()
    for second, found in enumerate(clusters):
        own = sample(float(second))
        stats = joined_stats(own.stats, found.nodes)
        board.apply(msgspec.structs.replace(own, stats=stats, cluster=found))
    return board


def text_of(board: Board, choice: Choice, width: int = 100) -> str:
    frame = draw_frame(board, choice, Size(width, 20), NOON, SERVER)
    return "\n".join("".join(piece.text for piece in line) for line in frame.lines)


def test_topics_count_what_goes_through_all_nodes() -> None:
    own = sample().stats
    joined = joined_stats(own, (look("n1", answer(30)), look("n2", answer(12)), look("n3", None)))

    # Copies are the same messages, and take their space each.
    expected = TopicStats(
        partitions=3,
        total_messages=10,
        total_size_bytes=200,
        published_total=42,
        consumed_total=0,
    )
    assert joined.topic_stats == {"orders": expected}
    assert joined.total_size_bytes == 200
    assert joined_stats(own, (look("n1", None),)) is own


def test_rates_are_those_of_all_nodes_together() -> None:
    first = cluster(look("n1", answer(10)), look("n2", answer(100)))
    second = cluster(look("n1", answer(15)), look("n2", answer(120)))
    board = board_of(first, second)

    assert board.topics.published == 25
    assert board.nodes.tracks["n2"].topics.published == 20


def test_a_node_that_comes_or_goes_is_no_burst_of_messages() -> None:
    alone = cluster(look("n1", answer(10)), look("n2", None))
    both = cluster(look("n1", answer(12)), look("n2", answer(90_000)))
    board = board_of(alone, both)
    assert board.topics.published is None
    after = cluster(look("n1", answer(13)), look("n2", answer(90_001)))
    assert board_of(alone, both, after).topics.published == 2


def test_the_nodes_are_listed_and_one_is_opened() -> None:
    found = cluster(look("n1", answer(10), leaders=2), look("n2", answer(10)), look("n3", None))
    later = cluster(look("n1", answer(20), leaders=2), look("n2", answer(10)), look("n3", None))
    board = board_of(found, later)
    choice = Choice(view=View.CLUSTER)
    text = text_of(board, choice)

    assert "controller n1, 2 of 3 nodes are healthy" in text
    assert "1 node missing" in text
    assert "not reached" in text
    opened = press(choice, "enter", "n1")
    assert (opened.view, opened.opened) == (View.CLUSTER, "n1")
    details = text_of(board, opened)
    assert "node n1" in details
    assert "orders" in details
    assert "not reached" in text_of(board, press(choice, "enter", "n3"))
    assert "does not belong" in text_of(board, press(choice, "enter", "n9"))


def test_what_is_wrong_with_the_cluster_is_said_on_every_view() -> None:
    sick = cluster(
        look("n1", answer(1)), look("n2", None), offline=2, lacking=5, controller="", full="n1"
    )
    text = text_of(board_of(sick), Choice(view=View.TOPICS), width=140)
    assert "cluster: no controller, 2 offline, 5 lack copies, 1 node missing, n1 is full" in text


def test_a_node_that_stands_alone_has_no_cluster() -> None:
    board = Board()
    board.apply(sample())
    assert "belongs to no cluster" in text_of(board, Choice(view=View.CLUSTER))
    shown = ["".join(piece.text for piece in line) for line in draw_all(board, 80, 5, NOON, SERVER)]
    assert "CLUSTER" not in shown
