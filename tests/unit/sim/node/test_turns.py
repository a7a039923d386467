"""A turn that does too much is a violation: the judge of turns, and loops without a bound."""

from random import Random

import pytest

from goqueue.broker import TurnBudget
from goqueue.model import (
    LOCAL,
    SECOND,
    Answer,
    Asked,
    Instant,
    Message,
    Now,
    RequestId,
    Timestamp,
    Woke,
)
from goqueue.model.requests import (
    Ack,
    Command,
    CreateTopic,
    Done,
    Join,
    Joined,
    Mode,
    Poll,
    Publish,
    TopicConfig,
    TopicDescription,
    lease_of,
)
from goqueue.records import build
from goqueue.sim import Trace, Violation
from goqueue.sim.node import NodeSwarm, TurnLimits, World, check_turn

_BUDGET = 10

_MANY = 400


def _asked(command: Command) -> Asked:
    return Asked(request=RequestId(1), command=command, caller=LOCAL)


def test_a_turn_within_its_budget_is_no_violation() -> None:
    check_turn([Woke()], [], units=_BUDGET, limits=TurnLimits(_BUDGET))


def test_a_turn_far_beyond_its_budget_is_a_violation() -> None:
    with pytest.raises(Violation, match="turn-too-long: Woke"):
        check_turn([Woke()], [], units=_MANY, limits=TurnLimits(_BUDGET))


def test_what_a_command_names_is_allowed_on_top() -> None:
    command = Ack(leases=tuple(map(lease_of, ("a",) * _MANY)))

    check_turn([_asked(command)], [], units=_MANY, limits=TurnLimits(_BUDGET))


def test_the_messages_of_a_publish_are_allowed_on_top() -> None:
    batch = build([Message(value=b"v")] * _MANY)
    command = Publish(topic="t", batch=batch)

    check_turn([_asked(command)], [], units=_MANY, limits=TurnLimits(_BUDGET))


def test_a_command_that_names_little_and_does_much_is_a_violation() -> None:
    command = Ack(leases=(lease_of("a"),))

    with pytest.raises(Violation, match="turn-too-long: Ack"):
        check_turn([_asked(command)], [], units=_MANY, limits=TurnLimits(_BUDGET))


def test_answers_to_commands_that_were_committed_together_are_allowed_on_top() -> None:
    answers = [Answer(request=RequestId(number), reply=Done()) for number in range(_MANY)]

    check_turn([Woke()], answers, units=_MANY, limits=TurnLimits(_BUDGET))


def test_a_change_of_rights_may_look_at_every_request_with_a_key() -> None:
    limits = TurnLimits(_BUDGET, keyed=_MANY)
    check_turn([Woke()], [], units=_MANY, limits=limits)
    with pytest.raises(Violation):
        check_turn([Woke()], [], units=3 * _MANY, limits=limits)


def _world_with_polls(count: int) -> World:
    """A calm node with so many polls whose wait ends together."""
    calm = NodeSwarm(**dict.fromkeys(NodeSwarm.__struct_fields__, False))
    world = World(Random(1), Trace(), calm, turn_units_max=_BUDGET, ticks=Random(2))
    world.process.begin(bytes(32))
    world.process.settle(world.now)
    made = world.ask_now(CreateTopic(name="t", partitions=1, config=TopicConfig()))
    assert isinstance(made, TopicDescription)
    joined = world.ask_now(
        Join(group="g", client_id="c", topics=("t",), token="", mode=Mode.SHARED)
    )
    assert isinstance(joined, Joined)
    for _ in range(count):
        world.ask(Poll(group="g", member_id=joined.member_id, wait_ns=SECOND), lambda _: None)
    return world


def _let_them_end(world: World) -> None:
    now = world.now
    world.now = Now(Instant(now.instant + SECOND), Timestamp(now.wall + SECOND))
    world.process.wake(world.now)
    world.process.settle(world.now)


def test_many_polls_that_end_together_take_many_turns() -> None:
    world = _world_with_polls(_MANY)

    _let_them_end(world)

    assert not world.callers.waiting


def test_a_node_without_a_budget_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    world = _world_with_polls(_MANY)
    monkeypatch.setattr(TurnBudget, "is_spent", False)
    monkeypatch.setattr(TurnBudget, "left", _MANY)

    with pytest.raises(Violation, match="turn-too-long: Woke"):
        _let_them_end(world)
