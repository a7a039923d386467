"""What members do with their leases: ack, nack, reject, release, extend, also much too late."""

from goqueue.model import SECOND, Code, Folded, Instant, Refused
from goqueue.model.requests import (
    Ack,
    Acked,
    Extend,
    Extended,
    LeaseOffsets,
    Nack,
    Reject,
    Release,
    Released,
    Reply,
    Returned,
    Settlement,
    lease_of,
)
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.dead_letters import Death
from goqueue.sim.truth.deliveries import Delivery, QueueTruth
from goqueue.sim.truth.groups import GroupTruth

__all__ = ["Settlers", "Use"]

# Around the limit of what is kept of a reason, and far beyond it.
_REASON_WORDS = (1, 30, 42, 43, 170, 171, 5000)


class Use:
    """A receipt in use, and what was known when it was sent."""

    def __init__(self, world: World, group: GroupTruth, delivery: Delivery) -> None:
        handed, now = delivery.handed, world.now.instant
        self.group = group
        self.delivery = delivery
        self.queue: QueueTruth = group.queue(handed.topic, handed.partition)
        self.epoch = group.epoch
        self.asked_at = now
        self.told = self.queue.told
        self.was_acked = handed.offset in self.queue.acked
        self.was_dead = handed.offset in self.queue.dead
        # Where a message was lost may be what nobody has to settle: an aborted one, a marker.
        self.may_be_settled = delivery.is_lost or self.queue.may_be_settled(handed.offset)
        member = group.holder(delivery.member_id)
        past = [each for each in group.past if each.member_id == delivery.member_id]
        is_out = member is None and any(world.is_surely_out(each) for each in past)
        self.is_stale = is_out or self.queue.is_surely_stale(delivery, world.life, now)
        sure_until = Instant(0) if member is None else min(member.sure_until, delivery.sure_until)
        is_latest = self.queue.latest.get(handed.offset) is delivery
        # With its segment a message goes even if it is held.
        is_kept = is_latest and delivery.life == world.life and not handed.topic.retires
        self.is_live = is_kept and now < sure_until
        self._delivered = 0
        # From now on it may be over.
        delivery.sure_until = Instant(0)
        delivery.is_used = True

    @property
    def offset(self) -> int:
        return self.delivery.handed.offset

    @property
    def is_clear(self) -> bool:
        """Whether an answer may be judged by what was known when the request was sent."""
        topic = self.queue.topic
        is_there = not (topic.is_leaving or topic.is_gone or self.group.is_leaving)
        return is_there and self.epoch is not None and self.epoch == self.group.epoch

    def ask(self) -> None:
        """The request is sent, and may settle the message."""
        self._delivered = self.queue.asked(self.offset)

    def answer(self, *, is_settled: bool) -> None:
        """The request was answered."""
        self.queue.answered(self.offset, self._delivered, is_settled=is_settled)

    def is_shared_in(self, uses: list["Use"]) -> bool:
        """Whether a concurrent request uses another receipt of the same message."""
        places = [(use.queue, use.offset) for use in uses]
        return places.count((self.queue, self.offset)) > 1

    def check_accepted(self) -> None:
        """Judge a receipt that was accepted."""
        if self.is_clear and self.is_stale:
            raise Violation("stale-receipt-accepted", self.delivery.handed.receipt)

    def check_refused(self, code: Code | None) -> None:
        if code is Code.RECEIPT_STALE and self.is_clear and self.is_live:
            raise Violation("live-receipt-refused", self.delivery.handed.receipt)


class Settlers:
    """Members that settle their leases."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self._sizes = world.sizes

    # Choosing

    def choose(self) -> tuple[GroupTruth, Delivery] | None:
        """Choose a receipt: mostly of a live lease, sometimes a used, expired or foreign one."""
        random = self._random
        groups = [group for group in self._world.groups.values() if not group.is_leaving]
        found: list[tuple[GroupTruth, Delivery]] = []
        is_fresh = random.random() < 0.85
        for group in groups:
            members = list(group.members.values()) if is_fresh else [*group.past]
            if group.receiver.deliveries:
                members.append(group.receiver)
            for member in members or group.members.values():
                held = member.deliveries[-20:]
                found.extend((group, each) for each in held if not is_fresh or not each.is_used)
        found = [each for each in found if not each[1].handed.topic.is_gone]
        return random.choice(found) if found else None

    # Acking

    def ack_any(self) -> None:
        found = self.choose()
        if found is None:
            return
        group, delivery = found
        if group.is_copied:
            return
        deliveries = [delivery]
        if self._random.random() < 0.3:
            more = [self.choose() for _ in range(3)]
            deliveries += [each[1] for each in more if each is not None and each[0] is group]
        self.ack(group, deliveries)

    def ack(self, group: GroupTruth, deliveries: list[Delivery]) -> None:
        unique = list({each.handed.receipt: each for each in deliveries}.values())
        uses = [Use(self._world, group, delivery) for delivery in unique]
        for use in uses:
            use.ask()
            # Two receipts of one message in one ack: what the one settles the other may name.
            use.may_be_settled |= use.is_shared_in(uses)
        offsets: dict[str, list[int]] = {}
        for each in unique:
            handle = lease_of(each.handed.receipt).handle
            offsets.setdefault(handle, []).append(each.handed.offset)

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Acked):
                settlements = dict(zip(offsets, reply.settlements, strict=True))
                for use in uses:
                    self._acked(use, settlements[lease_of(use.delivery.handed.receipt).handle])
            elif reply is not None:
                for use in uses:
                    use.answer(is_settled=False)

        named = [(handle, Folded.of(sorted(of))) for handle, of in offsets.items()]
        leases = tuple(LeaseOffsets(handle, each.ranges, each.steps) for handle, each in named)
        self._world.ask(Ack(leases=leases), done)

    def _acked(self, use: Use, settlement: Settlement) -> None:
        refused = _refused(settlement, use.offset)
        if refused is None and not use.is_clear:
            # It was settled before or after a reset: both are possible for ever.
            return
        is_settled = refused is None
        use.answer(is_settled=is_settled)
        if is_settled:
            if use.was_dead:
                raise Violation("dead-letter-acked", use.delivery.handed.receipt)
            if not use.may_be_settled:
                use.check_accepted()
            use.queue.told_committed(settlement.committed, use.told)
        else:
            use.check_refused(refused)
            if use.was_acked and use.is_clear and refused is Code.RECEIPT_STALE:
                raise Violation("second-ack-refused", use.delivery.handed.receipt)

    # The rest

    def nack(self) -> None:
        found = self.choose()
        if found is not None:
            delay_ns = self._random.choice([None, 0, SECOND // 2, 2 * SECOND])
            self.give_back(*found, delay_ns)

    def give_back(self, group: GroupTruth, delivery: Delivery, delay_ns: int | None) -> None:
        """Nack a message; it becomes a dead letter if this was its last delivery."""
        use = Use(self._world, group, delivery)
        limit = use.queue.topic.limit_min
        is_last = limit is not None and delivery.handed.attempt >= limit
        reason = self._reason("nacked")
        command = Nack(receipt=delivery.handed.receipt, delay_ns=delay_ns, reason=reason)
        self._give_up(use, command, may_die=is_last)

    def reject(self) -> None:
        found = self.choose()
        if found is not None:
            self.bury(*found)

    def bury(self, group: GroupTruth, delivery: Delivery) -> None:
        """Reject a message."""
        use = Use(self._world, group, delivery)
        command = Reject(receipt=delivery.handed.receipt, reason=self._reason("rejected"))
        self._give_up(use, command, may_die=True)

    def _reason(self, words: str) -> str:
        """A reason of ordinary or excessive length."""
        if not self._world.swarm.large_fields:
            return words
        return words * self._sizes.choice(_REASON_WORDS)

    def _give_up(self, use: Use, command: Nack | Reject, *, may_die: bool) -> None:
        if may_die:
            use.ask()

        def done(reply: Reply | Refused | None) -> None:
            if reply is not None and may_die and use.is_clear:
                use.answer(is_settled=False)
            if isinstance(reply, Refused):
                use.check_refused(reply.code)
            elif isinstance(reply, Returned):
                use.check_accepted()
                if reply.dead_letter_topic is not None and use.is_clear:
                    self._died(use)

        self._world.ask(command, done)

    def _died(self, use: Use) -> None:
        handed, group = use.delivery.handed, use.group
        use.queue.dead[use.offset] = None
        death = Death(handed.topic.name, handed.partition, handed.offset, group.name, handed.serial)
        self._world.dead_letters.confirmed(
            death, lambda: not (handed.topic.is_gone or handed.topic.retires or group.is_gone)
        )

    def release(self) -> None:
        found = self.choose()
        if found is None:
            return
        use = Use(self._world, *found)
        delivery = use.delivery
        delivery.may_be_released = True

        def done(reply: Reply | Refused | None) -> None:
            if not isinstance(reply, Released):
                return
            refused = reply.settlements[0].code
            if refused is not None:
                use.check_refused(refused)
                return
            use.check_accepted()
            if use.is_clear:
                delivery.is_released = True
                delivery.over_at = use.asked_at

        self._world.ask(Release(leases=(lease_of(delivery.handed.receipt),)), done)

    def extend(self) -> None:
        found = self.choose()
        if found is None:
            return
        delivery = found[1]
        was_used, over_at = delivery.is_used, delivery.over_at
        use = Use(self._world, *found)
        delivery.is_used = was_used
        timeout_ns = self._random.choice([SECOND // 2, 3 * SECOND, 10 * SECOND])
        until = Instant(use.asked_at + timeout_ns)
        if over_at is not None:
            delivery.over_at = max(over_at, until)

        def done(reply: Reply | Refused | None) -> None:
            if not isinstance(reply, Extended):
                return
            refused = reply.settlements[0].code
            if refused is not None:
                use.check_refused(refused)
            else:
                use.check_accepted()
                if not delivery.is_used and delivery.over_at == max(over_at or 0, until):
                    delivery.sure_until = delivery.over_at = until

        leases = (lease_of(delivery.handed.receipt),)
        self._world.ask(Extend(leases=leases, timeout_ns=timeout_ns), done)


def _refused(settlement: Settlement, offset: int) -> Code | None:
    """Why a message was refused, if it was."""
    codes = (each.code for each in settlement.refused if each.first <= offset < each.following)
    return next(codes, None)
