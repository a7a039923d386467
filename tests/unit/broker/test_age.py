"""A node that has run for long does no more for a message than a fresh one, and holds no more.

What a processor takes for the same calls is measured by `bench/broker/run.py --only age`.
"""

import gc
import sys
from collections import Counter
from types import FrameType

from goqueue.model import SECOND
from goqueue.model.requests import DeleteGroup, DeleteTopic, Done, Leave
from tests.unit.broker.delayed.users import delay
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import abort, begin, commit, init, write
from tests.unit.broker.users import ack, create, join, nack, poll, publish

LIVES = 6
VALUES = [str(number) for number in range(50)]


def live(node: DrivenNode, topic: str) -> None:
    """A topic and its groups come and go, with all that a message may go through."""
    create(node, topic, partitions=3)
    publish(node, *VALUES, topic=topic)
    for group in (f"{topic}-a", f"{topic}-b"):
        member = join(node, group, topics=(topic,))
        first, second, *rest = poll(node, group)
        nack(node, first)
        assert rest
        ack(node, second, *rest[::2])
        node.ask(Leave(group=group, member_id=member.member_id), Done)
        join(node, group, topics=(topic,))
        ack(node, *poll(node, group))
        node.ask(Leave(group=group, member_id=member.member_id), Done)
        node.ask(DeleteGroup(group=group), Done)
    delay(node, ("later", SECOND), ("too late", 1000 * SECOND), topic=topic)
    node.advance(2 * SECOND)
    owner = init(node)
    for end in (commit, abort):
        begin(node, owner)
        write(node, owner, *VALUES, topic=topic)
        end(node, owner)
    node.ask(DeleteTopic(name=topic), Done)


def old_node(lives: int) -> DrivenNode:
    """A node of which all that had a deadline is over, too; it keeps no traces."""
    node = DrivenNode(sampling=0.0)
    for number in range(lives):
        live(node, f"life-{number}")
    node.advance(3600 * SECOND)
    return node


def calls(node: DrivenNode) -> int:
    """How many functions are called while messages are published, leased and acknowledged."""
    create(node)
    join(node)
    count = 0

    def look(_frame: FrameType, event: str, _called: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(look)
    try:
        for value in VALUES:
            publish(node, value)
            ack(node, *poll(node))
    finally:
        sys.setprofile(None)
    return count


def held() -> Counter[str]:
    """The objects of the product that are alive, by class; answers belong to who asked."""
    gc.collect()
    classes = (f"{type(each).__module__}.{type(each).__name__}" for each in gc.get_objects())
    ours = (name for name in classes if name.startswith("goqueue."))
    return Counter(name for name in ours if not name.startswith("goqueue.model.requests."))


def test_a_message_costs_an_old_node_no_more_calls_than_a_fresh_one() -> None:
    old, fresh = calls(old_node(LIVES)), calls(old_node(0))

    # Numbers with more digits, and segments that lie otherwise, take a call more here and there.
    assert old <= 1.01 * fresh


def test_what_is_deleted_or_over_leaves_nothing_behind() -> None:
    nothing = held()
    young = old_node(1)
    of_young = held() - nothing
    old = old_node(LIVES)
    of_old = held() - nothing - of_young

    assert young.node.is_serving
    assert old.node.is_serving
    assert of_young["goqueue.broker.node.Node"] == 1
    assert of_old == of_young
