"""Brokers that nothing disturbs but the test, and a client that asks again."""

from typing import TypeVar

import msgspec

from goqueue.model import LOCAL, MILLISECOND, SECOND, Caller, Refused
from goqueue.model.requests import Command, Reply
from goqueue.sim import Trace
from goqueue.sim.cluster import BrokerMachine, QuorumRun, QuorumSwarm

__all__ = ["CalmCluster"]

_CALM = QuorumSwarm(
    brokers=5,
    **dict.fromkeys(
        (each for each in QuorumSwarm.__struct_fields__ if each not in {"brokers", "full_disks"}),
        False,
    ),
)
R = TypeVar("R", bound=Reply)


class CalmCluster:
    """Brokers on whole disks and a quick network, without a topic."""

    def __init__(self, brokers: int = 5, *, has_short_logs: bool = False) -> None:
        swarm = msgspec.structs.replace(_CALM, brokers=brokers, short_logs=has_short_logs)
        self.run = QuorumRun(1, Trace(), swarm=swarm)
        self.run.begin()
        self.run.advance(8 * SECOND)

    def try_to_ask(
        self, command: Command, machine: BrokerMachine | None = None, caller: Caller = LOCAL
    ) -> object:
        machine = machine or self.run.machines[0]
        request = machine.ask(command, caller)
        for _ in range(600):
            if request in machine.replies:
                return machine.replies.pop(request)
            self.run.advance(20 * MILLISECOND)
        raise AssertionError(f"no answer to {command}")

    def ask(self, command: Command, kind: type[R]) -> R:
        """The answer; what is not there yet is asked for again, as clients do."""
        for _ in range(40):
            reply = self.try_to_ask(command)
            if isinstance(reply, Refused) and reply.code.is_retriable:
                self.run.advance(100 * MILLISECOND)
                continue
            assert isinstance(reply, kind), reply
            return reply
        raise AssertionError(f"never answered: {command}")

    @property
    def coordinator(self) -> BrokerMachine:
        (found,) = (
            each
            for each in self.run.machines
            if each.node.coordinators is not None and each.node.coordinators.current is not None
        )
        return found

    def lose_coordinator(self) -> BrokerMachine:
        """Take its power, and let another one take over; the one that is lost."""
        lost = self.coordinator
        self.run.kill(lost.process, loses_power=True)
        self.run.advance(8 * SECOND)
        return lost
