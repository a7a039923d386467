"""One simulated life of a cluster whose schemas are registered and deleted while brokers fail.

Clients ask any broker. In the end everything healed, and every broker is asked for what was
answered: an id names one content for ever, a version the content that it was registered with, and
what nobody deleted is there.
"""

from collections.abc import Sequence
from random import Random

import msgspec

from goqueue.model import (
    SECOND,
    DeleteSubject,
    DescribeSchema,
    FindSchemaById,
    Refused,
    RegisterSchema,
    RequestId,
    SchemaDescription,
    SchemaText,
    SchemaType,
)
from goqueue.model.requests import Command
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.quorum_run import Create, QuorumRun
from goqueue.sim.oracle import Violation
from goqueue.sim.trace import Trace

__all__ = ["SchemaRun"]

_KEPT = ("orders", "invoices")
_DELETED = ("drafts",)
_CONTENTS = 12
_WAITING_MAX = 6


def _text(number: int) -> str:
    """A record that has one field, or one more than another: all of them are compatible."""
    field = {"name": f"field_{number}", "type": "int", "default": 0}
    return msgspec.json.encode({"type": "record", "name": "Sim", "fields": [field]}).decode()


class _Asked(msgspec.Struct, frozen=True):
    machine: BrokerMachine
    request: RequestId
    command: Command


class SchemaClients:
    """Clients of the registry, and what they were told."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._waiting: list[_Asked] = []
        # By id, the content that was told; by subject and version, the id.
        self.contents: dict[int, str] = {}
        self.places: dict[tuple[str, int], int] = {}
        self.deleted_total = 0

    def step(self, machines: Sequence[BrokerMachine]) -> None:
        """See what was answered, and perhaps ask for more."""
        self.read_replies()
        ready = [each for each in machines if each.node.is_serving]
        if not ready or len(self._waiting) >= _WAITING_MAX:
            return
        for _ in range(self._random.randrange(3)):
            machine = self._random.choice(ready)
            command = self._draw()
            self._waiting.append(_Asked(machine, machine.ask(command), command))

    def _draw(self) -> Command:
        chance = self._random
        draw = chance.random()
        if draw < 0.2 and self.contents:
            return FindSchemaById(id=chance.choice(list(self.contents)))
        if draw < 0.4:
            return DeleteSubject(
                subject=chance.choice(_DELETED), is_permanent=chance.random() < 0.6
            )
        text = SchemaText(type=SchemaType.AVRO, text=_text(chance.randrange(_CONTENTS)))
        return RegisterSchema(subject=chance.choice(_KEPT + _DELETED), schema=text)

    def read_replies(self) -> None:
        waiting: list[_Asked] = []
        for asked in self._waiting:
            reply = asked.machine.replies.pop(asked.request, None)
            if reply is not None:
                self._note(asked.command, reply)
            elif not asked.machine.is_over:
                waiting.append(asked)
        self._waiting = waiting

    def _note(self, command: Command, reply: object) -> None:
        if isinstance(command, DeleteSubject):
            self.deleted_total += not isinstance(reply, Refused)
        if not isinstance(reply, SchemaDescription):
            return
        self.see(reply)
        if isinstance(command, RegisterSchema):
            if reply.schema.text != command.schema.text:
                raise Violation("a registration is answered with itself", f"{command}: {reply}")
            if reply.subject in _KEPT:
                place = reply.subject, reply.version
                if self.places.setdefault(place, reply.id) != reply.id:
                    raise Violation("a version has one content", f"{place} is {reply.id}, too")

    def see(self, told: SchemaDescription) -> None:
        """A broker says what an id is; raises Violation."""
        known = self.contents.setdefault(told.id, told.schema.text)
        if known != told.schema.text:
            raise Violation("an id names one content", f"{told.id}: {told.schema.text}, {known}")


class SchemaRun(QuorumRun):
    """The run of one seed."""

    def __init__(
        self, seed: int, trace: Trace, steps: int = 40, *, create: Create | None = None
    ) -> None:
        super().__init__(seed, trace, steps, create=create)
        self.clients = SchemaClients(Random(seed * 29 + 7))  # noqa: S311 - chance to be repeated

    def _operate(self) -> None:
        super()._operate()
        self.clients.step(self.machines)

    def live(self) -> None:
        """The whole run; raises Violation."""
        super().live()
        self.clients.read_replies()
        asked: list[tuple[_Asked, int]] = []
        for machine in self.machines:
            for (subject, version), id_ in self.clients.places.items():
                command = DescribeSchema(subject=subject, version=version)
                asked.append((_Asked(machine, machine.ask(command), command), id_))
        self.advance(SECOND)
        for each, id_ in asked:
            reply = each.machine.replies.pop(each.request, None)
            name = each.machine.process.name
            if not isinstance(reply, SchemaDescription):
                raise Violation("what was registered is kept", f"{name}: {each.command}: {reply}")
            self.clients.see(reply)
            if reply.id != id_:
                raise Violation("a version has one content", f"{name}: {reply} is not {id_}")
