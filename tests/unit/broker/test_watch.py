"""Watches: waiting for records in any of several partitions."""

import pytest

from goqueue.broker.read import WATCHED_MAX
from goqueue.model import SECOND, Code, Offset, Refused
from goqueue.model.requests import DeleteTopic, Done, Isolation, Watch, Watched
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import create, publish


def _shop(partitions: int = 3) -> DrivenNode:
    node = DrivenNode()
    create(node, partitions=partitions)
    return node


def _watch(offsets: dict[int, int], wait_ns: int = 10 * SECOND, topic: str = "orders") -> Watch:
    wanted = {partition: Offset(offset) for partition, offset in offsets.items()}
    return Watch(topic=topic, offsets=wanted, wait_ns=wait_ns, isolation=Isolation.READ_COMMITTED)


def test_what_is_there_already_is_named_at_once() -> None:
    node = _shop()
    publish(node, "a", "b", targets=[0, 2])

    assert node.ask(_watch({0: 0, 1: 0, 2: 0}), Watched).partitions == (0, 2)
    assert node.ask(_watch({0: 1, 1: 0, 2: 0}), Watched).partitions == (2,)


def test_a_watch_waits_until_any_of_its_partitions_has_news() -> None:
    node = _shop()
    request = node.begin(_watch({0: 0, 1: 0}))
    publish(node, "a", targets=[2])
    assert not node.is_answered(request)

    publish(node, "b", targets=[1])
    assert node.reply(request, Watched).partitions == (1,)
    publish(node, "c", targets=[0])


def test_a_watch_in_vain_ends_with_its_time() -> None:
    node = _shop()
    request = node.begin(_watch({0: 0, 1: 0}, wait_ns=SECOND))
    node.advance(SECOND)

    assert node.reply(request, Watched).partitions == ()
    assert node.ask(_watch({0: 0}, wait_ns=0), Watched).partitions == ()


def test_who_left_is_not_woken() -> None:
    node = _shop()
    request = node.begin(_watch({0: 0, 1: 0}))
    node.leave(request)
    publish(node, "a", targets=[0])

    assert not node.is_answered(request)


def test_a_watch_ends_with_its_topic_and_with_the_node() -> None:
    node = _shop()
    request = node.begin(_watch({0: 0, 1: 0, 2: 0}))
    node.ask(DeleteTopic(name="orders"), Done)
    with pytest.raises(Refused, match=Code.TOPIC_NOT_FOUND):
        node.reply(request, Watched)

    create(node)
    request = node.begin(_watch({0: 0}))
    node.stop()
    assert node.reply(request, Watched).partitions == ()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (_watch({}), Code.REQUEST_INVALID),
        (_watch(dict.fromkeys(range(WATCHED_MAX + 1), 0)), Code.REQUEST_INVALID),
        (_watch({7: 0}), Code.PARTITION_NOT_FOUND),
        (_watch({0: 0}, topic="nowhere"), Code.TOPIC_NOT_FOUND),
    ],
)
def test_what_cannot_be_watched_is_refused(command: Watch, code: Code) -> None:
    with pytest.raises(Refused, match=code):
        _shop().ask(command, Watched)
