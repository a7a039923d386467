"""A member of a group in a cluster: joins, polls, settles what it gets, and remembers.

It asks any broker; each answers for the coordinator. After a refusal or silence it goes on with
another one, and joins again where it is no member any more.
"""

from collections.abc import Callable, Iterator
from random import Random

import msgspec

from goqueue.model import MILLISECOND, Code, Offset, Refused, RequestId
from goqueue.model.requests import (
    Ack,
    Acked,
    Beat,
    Command,
    CommitOffsets,
    DescribeOffsets,
    Extend,
    Heartbeat,
    Join,
    Joined,
    Leased,
    LeaseOffsets,
    Leave,
    Nack,
    Offsets,
    Poll,
    Reject,
    Release,
    Returned,
    receipt_of,
)
from goqueue.records import decode, walk
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.group_truth import Delivered, GroupTruth
from goqueue.sim.oracle import Violation

__all__ = ["GroupConsumer"]

_PATIENCE_STEPS = 120
_VISIBILITY_NS = 2_000 * MILLISECOND
_SESSION_NS = 10_000 * MILLISECOND
_WAIT_NS = 200 * MILLISECOND
# Clocks run up to 5 % too fast.
_SURE_SHARE = 0.9
_MISSING = frozenset({Code.MEMBER_NOT_FOUND, Code.GROUP_NOT_FOUND, Code.GENERATION_STALE})


class _Asked(msgspec.Struct, frozen=True):
    """A request on its way."""

    machine: BrokerMachine
    request: RequestId
    command: Command
    at: int
    about: tuple[Delivered, ...] = ()


class GroupConsumer:
    """One member, which settles messages in any way."""

    def __init__(
        self,
        name: str,
        topic: str,
        truth: GroupTruth,
        random: Random,
        machines: Callable[[], list[BrokerMachine]],
        *,
        now: Callable[[], int],
        commits: bool,
    ) -> None:
        """With `commits` it commits offsets of a stream instead of settling messages."""
        self.name = name
        self._topic = topic
        self._truth = truth
        self._random = random
        self._machines = machines
        self._now = now
        self._commits = commits
        self._joined: Joined | None = None
        self._joins = 0
        self._asked: _Asked | None = None
        self._steps = 0
        self._held: list[Delivered] = []
        # All that this member got.
        self._got: list[Delivered] = []
        self._values: dict[tuple[int, int], bytes] = {}
        # Towards the end everything is acked.
        self.is_draining = False
        self.is_stopped = False
        self.lag: int | None = None

    @property
    def values(self) -> dict[tuple[int, int], bytes]:
        """What was delivered."""
        return self._values

    def step(self) -> None:
        """Look at the answer, or ask."""
        asked = self._asked
        if asked is None:
            if not self.is_stopped:
                self._ask()
            return
        reply = asked.machine.replies.pop(asked.request, None)
        self._steps += 1
        if reply is None and not asked.machine.is_over and self._steps < _PATIENCE_STEPS:
            return
        self._asked = None
        if reply is not None:
            self._learn(asked, reply)

    def _ask(self) -> None:
        machines = [each for each in self._machines() if each.node.is_serving]
        if not machines:
            return
        command, about = self._next()
        machine = self._random.choice(machines)
        for each in about:
            if isinstance(command, Ack | Reject):
                self._truth.ask(each)
            elif not isinstance(command, Extend):
                self._truth.give_back(each)
        self._steps = 0
        self._asked = _Asked(machine, machine.ask(command), command, self._now(), about)

    def _next(self) -> tuple[Command, tuple[Delivered, ...]]:
        joined = self._joined
        if joined is None:
            self._joins += 1
            return Join(
                group=self._truth.name,
                client_id=self.name,
                topics=(self._topic,),
                token=f"{self._joins}",
                session_ns=_SESSION_NS,
            ), ()
        if self._commits:
            return self._next_of_stream(joined), ()
        if self._held:
            return self._settle(self._held.pop())
        chance = 1.0 if self.is_draining else self._random.random()
        member, group = joined.member_id, self._truth.name
        if chance < 0.03:
            # What the member holds is available at once.
            return Leave(group=group, member_id=member), tuple(self._got)
        if chance < 0.1:
            beat = Heartbeat(group=group, member_id=member, generation=joined.generation)
            return beat, ()
        return Poll(
            group=group,
            member_id=member,
            messages_max=self._random.choice((1, 3, 20)),
            wait_ns=self._random.choice((0, _WAIT_NS)),
            visibility_ns=_VISIBILITY_NS,
        ), ()

    def _next_of_stream(self, joined: Joined) -> Command:
        group = self._truth.name
        if self._random.random() < 0.4 or not joined.assigned:
            return DescribeOffsets(group=group)
        log = self._random.choice(joined.assigned)
        return CommitOffsets(
            group=group,
            offsets={log: Offset(self._random.randrange(6))},
            member_id=joined.member_id,
            generation=joined.generation,
        )

    def _settle(self, held: Delivered) -> tuple[Command, tuple[Delivered, ...]]:
        offset = held.place[1]
        leases = (LeaseOffsets(held.handle, ((offset, offset + 1),)),)
        receipt = receipt_of(held.handle, offset)
        chance = 0.0 if self.is_draining else self._random.random()
        if chance < 0.6:
            same = [each for each in self._held if each.handle == held.handle]
            self._held = [each for each in self._held if each.handle != held.handle]
            offsets = sorted(each.place[1] for each in (held, *same))
            ranges = tuple((each, each + 1) for each in offsets)
            return Ack(leases=(LeaseOffsets(held.handle, ranges),)), (held, *same)
        if chance < 0.7:
            return Nack(receipt=receipt, delay_ns=0, reason="again"), (held,)
        if chance < 0.8:
            return Reject(receipt=receipt, reason="bad"), (held,)
        if chance < 0.9:
            return Release(leases=leases), (held,)
        return Extend(leases=leases, timeout_ns=_VISIBILITY_NS), (held,)

    # Answers

    def _learn(self, asked: _Asked, reply: object) -> None:
        command = asked.command
        if isinstance(reply, Refused):
            self._refused(command, reply)
            return
        if isinstance(reply, Joined):
            self._join(reply)
        elif isinstance(reply, Beat):
            if self._joined is not None and reply.generation != self._joined.generation:
                self._joined = None
        elif isinstance(reply, Leased):
            self._take(asked, reply)
        elif isinstance(reply, Acked):
            self._confirm(asked, reply)
        elif isinstance(reply, Offsets):
            self._read_offsets(asked, reply)
        elif isinstance(command, Reject):
            assert isinstance(reply, Returned)
            self._truth.reject(asked.about[0])
        elif isinstance(command, Leave):
            self._forget()

    def _confirm(self, asked: _Asked, acked: Acked) -> None:
        refused = {
            offset
            for settlement in acked.settlements
            for each in settlement.refused
            for offset in range(each.first, each.following)
        }
        for held in asked.about:
            if held.place[1] not in refused:
                self._truth.ack(held, self._now())

    def _read_offsets(self, asked: _Asked, offsets: Offsets) -> None:
        if isinstance(asked.command, CommitOffsets):
            for log, offset in asked.command.offsets.items():
                self._truth.commit(log.partition, offset, self._now())
        else:
            for log, offset in offsets.offsets.items():
                self._truth.describe(log.partition, offset, asked.at)

    def _join(self, joined: Joined) -> None:
        self._joined = joined
        numbers = [log.partition for log in joined.assigned]
        self._truth.own(joined.member_id, joined.generation, numbers)

    def _refused(self, command: Command, refused: Refused) -> None:
        if refused.code in _MISSING or isinstance(command, Join):
            self._forget()
        elif refused.code is Code.PARTITION_NOT_ASSIGNED:
            self._joined = None
        elif refused.code is Code.RECEIPT_INVALID:
            raise Violation("a receipt stays one", f"{self.name}: {command}")

    def _forget(self) -> None:
        self._joined = None
        self._held.clear()
        self._got.clear()

    def _take(self, asked: _Asked, leased: Leased) -> None:
        now = self._now()
        for each in leased.partitions:
            values = dict(_values(each.data))
            for run in each.leases:
                epoch = int(run.handle.split(":")[3].split(".")[1], 16)
                for offset in run.offsets:
                    held = Delivered(
                        place=(each.log.partition, offset),
                        attempt=run.attempt,
                        handle=run.handle,
                        epoch=epoch,
                        asked_at=asked.at,
                        answered_at=now,
                        sure_until=asked.at + int(_SURE_SHARE * _VISIBILITY_NS),
                    )
                    if offset not in values:
                        raise Violation("leased bytes hold the message", f"{each.log}:{offset}")
                    self._values[held.place] = values[offset]
                    self._truth.deliver(held)
                    self._held.append(held)
                    self._got.append(held)
        self._random.shuffle(self._held)


def _values(data: tuple[memoryview, ...]) -> Iterator[tuple[int, bytes]]:
    for piece in data:
        for position in walk(piece).positions:
            record = decode(piece, position)
            yield record.offset, record.value or b""
