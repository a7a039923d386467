"""A node without a cluster: what it says of moves, leaders and coordinators."""

import pytest

from goqueue.model import Code, Refused
from goqueue.model.requests import (
    CancelReassignment,
    Command,
    DescribeCoordinators,
    LeaderElected,
    ListReassignments,
    MetadataDescription,
    ReassignmentDescription,
    ReassignmentList,
    Reply,
    StartReassignment,
    TransferLeader,
    WantedMove,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import create


@pytest.fixture
def node() -> DrivenNode:
    alone = DrivenNode()
    create(alone, "orders", partitions=2)
    return alone


def name_of(node: DrivenNode) -> str:
    return node.ask(TransferLeader(topic="orders", partition=0), LeaderElected).node


def code_of(node: DrivenNode, command: Command, expected: type[Reply]) -> Code:
    with pytest.raises(Refused) as raised:
        node.ask(command, expected)
    return raised.value.code


@pytest.mark.parametrize(
    ("move", "code"),
    [
        (WantedMove("absent", 0, ("stranger",)), Code.TOPIC_NOT_FOUND),
        (WantedMove("orders", 2, ("stranger",)), Code.PARTITION_NOT_FOUND),
        (WantedMove("orders", 1, ("stranger",)), Code.NODE_NOT_FOUND),
    ],
)
def test_a_move_on_a_single_node_is_refused_with_what_is_not_there(
    node: DrivenNode, move: WantedMove, code: Code
) -> None:
    assert code_of(node, StartReassignment(moves=(move,)), ReassignmentDescription) is code


def test_a_move_to_the_single_node_itself_is_not_valid(node: DrivenNode) -> None:
    move = WantedMove("orders", 0, (name_of(node),))
    refused = code_of(node, StartReassignment(moves=(move,)), ReassignmentDescription)
    assert refused is Code.REQUEST_INVALID


def test_a_single_node_knows_no_reassignment(node: DrivenNode) -> None:
    unknown = Code.REASSIGNMENT_NOT_FOUND
    assert node.ask(ListReassignments(), ReassignmentList).reassignments == ()
    assert code_of(node, ListReassignments(id="r-1"), ReassignmentList) is unknown
    assert code_of(node, CancelReassignment(id="r-1"), ReassignmentDescription) is unknown


def test_a_single_node_leads_everything_and_coordinates_groups(node: DrivenNode) -> None:
    me = name_of(node)
    stranger = TransferLeader(topic="orders", partition=0, node="stranger")
    assert code_of(node, stranger, LeaderElected) is Code.NODE_NOT_FOUND
    absent = TransferLeader(topic="orders", partition=2)
    assert code_of(node, absent, LeaderElected) is Code.PARTITION_NOT_FOUND
    (found,) = node.ask(DescribeCoordinators(), MetadataDescription).partitions
    assert (found.partition, found.leader, found.replicas, found.isr) == (0, me, (me,), (me,))
