"""Clients that create and delete topics during the faults of a run, and what they were told.

Every name is used once, so the history of a topic is simple: it is not there, it is there, it is
gone. The clients record at which version of the metadata each command began and was answered.

Checks that metadata are linearizable: a change takes effect at one version, between the newest one
when the command began and the newest one when it was answered; what was answered is in every later
image, until a deletion; a command that was never sent changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random

import msgspec

from goqueue.cluster import ImageStated
from goqueue.model import Refused, RequestId
from goqueue.model.requests import CreateTopic, DeleteTopic, TopicConfig
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.oracle import Violation

__all__ = ["MetadataClient"]

_WAITING_MAX = 8


class _Call(msgspec.Struct):
    """One command; `answered_at` is the newest version when its success was seen."""

    name: str
    is_deletion: bool
    machine: BrokerMachine
    request: RequestId
    began_at: int
    answered_at: int | None = None


class MetadataClient:
    """Sends commands to any node; `newest` is the newest version of the metadata anywhere."""

    def __init__(
        self,
        random: Random,
        machines: Callable[[], Sequence[BrokerMachine]],
        newest: Callable[[], int],
    ) -> None:
        self._random = random
        self._machines = machines
        self._newest = newest
        self._waiting: list[_Call] = []
        # Every command that was sent, by the name of its topic.
        self._creations: dict[str, _Call] = {}
        self._deletions: dict[str, _Call] = {}
        self.acked_total = 0

    def step(self) -> None:
        """See what was answered, and perhaps send another command."""
        self._read_replies()
        ready = [each for each in self._machines() if each.node.is_serving]
        if not ready or len(self._waiting) >= _WAITING_MAX or self._random.random() < 0.3:
            return
        machine = self._random.choice(ready)
        known = [
            name
            for name, call in self._creations.items()
            if call.answered_at is not None and name not in self._deletions
        ]
        if known and self._random.random() < 0.3:
            self._delete(machine, self._random.choice(known))
        else:
            self._create(machine)

    def _create(self, machine: BrokerMachine) -> None:
        name = f"topic-{len(self._creations)}"
        config = TopicConfig(replication_factor=1, min_insync_replicas=1)
        began_at = self._newest()
        request = machine.ask(CreateTopic(name=name, partitions=1, config=config))
        self._creations[name] = call = _Call(name, False, machine, request, began_at)
        self._waiting.append(call)

    def _delete(self, machine: BrokerMachine, name: str) -> None:
        began_at = self._newest()
        request = machine.ask(DeleteTopic(name=name))
        self._deletions[name] = call = _Call(name, True, machine, request, began_at)
        self._waiting.append(call)

    def _read_replies(self) -> None:
        waiting: list[_Call] = []
        for call in self._waiting:
            reply = call.machine.replies.get(call.request)
            if reply is None:
                # The outcome of what a dead process had not answered stays unknown.
                if not call.machine.is_over:
                    waiting.append(call)
            elif not isinstance(reply, Refused):
                call.answered_at = self._newest()
                self.acked_total += 1
        self._waiting = waiting

    # The end

    def check(self, images: Mapping[int, ImageStated]) -> None:
        """Compare what was answered with the images of all versions; raises Violation."""
        self._read_replies()
        present = {
            version: frozenset(each.topic.name for each in images[version].topics)
            for version in sorted(images)
        }
        for name in sorted({*self._creations, *(each for now in present.values() for each in now)}):
            if name not in self._creations:
                raise Violation("metadata are linearizable", f"nobody created {name}")
            self._check_topic(name, present)

    def _check_topic(self, name: str, present: Mapping[int, frozenset[str]]) -> None:
        created, deleted = self._creations[name], self._deletions.get(name)
        held = [version for version, names in present.items() if name in names]
        if not held:
            if created.answered_at is not None and not self._is_between(created, deleted, present):
                raise Violation("acknowledged changes are kept", f"{name} was never there")
            return
        first, last = held[0], held[-1]
        gaps = [each for each in present if first <= each <= last and name not in present[each]]
        gone = [each for each in present if each > last]
        if gaps:
            raise Violation("metadata are linearizable", f"{name} was gone at {gaps[0]}, and back")
        if first <= created.began_at:
            raise Violation("metadata are linearizable", f"{name} was there before its creation")
        if created.answered_at is not None and first > created.answered_at:
            raise Violation("acknowledged changes are kept", f"{name} is there from {first} on")
        if gone and deleted is None:
            raise Violation("acknowledged changes are kept", f"{name} is gone at {gone[0]}")
        if gone and deleted is not None and gone[0] <= deleted.began_at:
            raise Violation("metadata are linearizable", f"{name} was gone before its deletion")
        if deleted is not None and deleted.answered_at is not None:
            if last >= deleted.answered_at or not gone:
                raise Violation("acknowledged changes are kept", f"{name} is there again at {last}")

    @staticmethod
    def _is_between(
        created: _Call, deleted: _Call | None, present: Mapping[int, frozenset[str]]
    ) -> bool:
        """Whether a topic may have come and gone between two images that anybody had."""
        if deleted is None:
            return False
        return not [each for each in present if created.began_at < each <= deleted.began_at]
