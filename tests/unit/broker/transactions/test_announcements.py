"""The first delayed message and the first producer of a topic wait until the journal says so."""

from goqueue.model import SECOND
from goqueue.model.requests import DelayState, Published
from tests.unit.broker.delayed.users import delaying, state_of, store
from tests.unit.broker.transactions.words import TOPICS, begin, commit, init, writing
from tests.unit.broker.users import read_values


def test_a_producer_that_is_announced_does_not_announce_delays_that_are_not() -> None:
    node = store()
    owner = init(node)
    begin(node, owner)
    node.slow_down(TOPICS)
    first = node.begin(writing(owner, "by a producer"))
    second = node.begin(delaying(node, ("later", 600 * SECOND)))
    node.let_pass(TOPICS, 1)
    assert node.is_answered(first)
    assert not node.is_answered(second)
    third = node.begin(delaying(node, ("also later", 600 * SECOND)))

    assert not node.is_answered(third)
    node.speed_up()
    place = node.reply(third, Published).placed[0].first
    node.restart(without_snapshots=True)
    assert state_of(node, place) is DelayState.PENDING


def test_nobody_overtakes_a_publish_that_waits_for_the_announcement() -> None:
    node = store()
    owner = init(node)
    begin(node, owner)
    node.slow_down(TOPICS)
    node.begin(writing(owner, "a"))
    node.begin(delaying(node, ("later", 600 * SECOND)))
    node.begin(writing(owner, "b"))
    node.let_pass(TOPICS, 1)
    node.begin(writing(owner, "c"))
    node.speed_up()
    commit(node, owner)

    assert read_values(node) == ["a", "b", "c"]
