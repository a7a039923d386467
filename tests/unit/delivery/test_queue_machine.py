"""The delivery queue against a model that keeps the state of each message."""

from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.delivery import DeliveryQueue, Lease, LeasePart, MessageState, Position
from goqueue.model import Folded, Instant, TransactionKey, runs
from goqueue.records import MessageSummary
from tests.examples import examples

MEMBERS = ("one", "two")
VISIBILITY = 10
TRANSACTION = TransactionKey(1, 1)


class Held(NamedTuple):
    """One message of a lease: the model knows nothing of runs."""

    offset: int
    lease: Lease

    @property
    def member(self) -> str:
        return self.lease.member


def parts_of(held: Iterable[Held]) -> list[LeasePart]:
    """These messages as parts of their leases."""
    offsets: dict[Lease, list[int]] = {}
    for each in held:
        offsets.setdefault(each.lease, []).append(each.offset)
    return [
        LeasePart(lease, lease.select([(offset, offset + 1) for offset in of_lease]))
        for lease, of_lease in offsets.items()
    ]


class QueueMachine(RuleBasedStateMachine):
    """One queue; each message of the log is in one state of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.serial = 1
        self.log: dict[int, MessageSummary] = {}
        self.end = 0
        self.states: dict[int, MessageState] = {}
        # Available, but not read yet.
        self.unread: set[int] = set()
        self.before: dict[int, MessageState] = {}
        self.wakes: dict[int, int] = {}
        self.holders: dict[int, Held] = {}
        self.deadlines: dict[int, int] = {}
        self.attempts: dict[int, int] = {}
        self.over: list[Held] = []
        # What a transaction holds, and by which lease, if that would run on.
        self.held: dict[int, Held | None] = {}

    @initialize(keeps_key_order=st.booleans())
    def begin(self, keeps_key_order: bool) -> None:
        self.keeps_key_order = keeps_key_order
        self.position = Position(0)
        self.start()

    def start(self) -> None:
        self.queue = DeliveryQueue(self.position, keeps_key_order=self.keeps_key_order)
        self.queue._leases.sparse_min = 2  # noqa: SLF001 - leases are small here

    # What happens to the log

    @rule(gaps=st.lists(st.integers(0, 2), min_size=1, max_size=5), data=st.data())
    def publish(self, gaps: list[int], data: st.DataObject) -> None:
        for gap in gaps:
            offset = self.end + gap
            key = data.draw(st.sampled_from([b"", b"a", b"b"]))
            size = data.draw(st.integers(1, 9))
            self.log[offset] = MessageSummary(offset, size, 2, key, b"")
            self.states[offset] = MessageState.AVAILABLE
            self.unread.add(offset)
            self.end = offset + 1

    @rule(count=st.integers(0, 6))
    def learn(self, count: int) -> None:
        found = [self.log[offset] for offset in sorted(self.log) if offset >= self.queue.cursor]
        found = found[:count]
        upto = found[-1].offset + 1 if found else int(self.queue.cursor)
        self.queue.learn(found, upto)
        self.unread -= {message.offset for message in found}

    # Leases

    @rule(member=st.sampled_from(MEMBERS), count=st.integers(1, 4), size=st.integers(0, 20))
    def lease(self, member: str, count: int, size: int) -> None:
        expected = self.expected_lease(count, size)
        deadline = Instant(self.now + VISIBILITY)
        leased = self.queue.lease(member, count, size, deadline, self.serial)
        assert [offset for new in leased for offset in new.offsets] == expected
        for new in leased:
            assert new.lease.serial == self.serial
            assert new.lease.attempt == self.attempts.get(new.offsets[0], 0) + 1
            assert sorted(new.offsets) == list(new.lease.offsets)
            self.serial += 1
            for offset in new.offsets:
                assert self.attempts.get(offset, 0) + 1 == new.lease.attempt
                self.attempts[offset] = new.lease.attempt
                self.states[offset] = MessageState.IN_FLIGHT
                self.holders[offset] = Held(offset, new.lease)
                self.deadlines[offset] = int(deadline)
            self.position.count_delivery(new.lease.attempt, sorted(new.offsets))

    def expected_lease(self, count: int, size: int) -> list[int]:
        chosen: list[int] = []
        for offset in self.ready():
            weight = self.log[offset].size
            if len(chosen) == count or (chosen and weight > size):
                break
            chosen.append(offset)
            size -= weight
        return chosen

    def ready(self) -> list[int]:
        """What may be delivered, earliest first: of each key only the first that is not done."""
        found: list[int] = []
        blocked: set[bytes] = set()
        for offset in sorted(self.states):
            key = self.log[offset].key if self.keeps_key_order else b""
            state = self.states[offset]
            if state is MessageState.SETTLED or offset in self.unread:
                continue
            if state is MessageState.AVAILABLE and key not in blocked:
                found.append(offset)
            if key:
                blocked.add(key)
        return found

    def some(self, data: st.DataObject) -> list[Held]:
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.holders)), min_size=1))
        return [self.holders[offset] for offset in sorted(chosen)]

    def end_leases(self, ended: list[Held], state: MessageState) -> None:
        for held in ended:
            del self.holders[held.offset]
            self.states[held.offset] = state
            self.over.append(held)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        settled = self.some(data)
        offsets = [held.offset for held in settled]
        assert list(self.queue.ack(parts_of(settled))) == offsets
        self.end_leases(settled, MessageState.SETTLED)
        self.journal(offsets)

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), backoff=st.integers(1, 15))
    def nack(self, data: st.DataObject, backoff: int) -> None:
        nacked = self.some(data)
        for part in parts_of(nacked):
            self.queue.nack(part, Instant(self.now + backoff))
        self.end_leases(nacked, MessageState.BACKOFF)
        self.wakes.update((held.offset, self.now + backoff) for held in nacked)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        released = self.some(data)
        for part in parts_of(released):
            self.queue.release(part)
        self.end_leases(released, MessageState.AVAILABLE)

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), timeout=st.integers(1, 30))
    def extend(self, data: st.DataObject, timeout: int) -> None:
        extended = self.some(data)
        for part in parts_of(extended):
            self.queue.extend(part, Instant(self.now + timeout))
        self.deadlines.update((held.offset, self.now + timeout) for held in extended)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def reject(self, data: st.DataObject) -> None:
        rejected = self.some(data)
        for part in parts_of(rejected):
            self.queue.reject(part)
        for held in rejected:
            self.position.begin_dead_lettering(held.offset)
        self.end_leases(rejected, MessageState.DEAD_LETTERING)

    @precondition(lambda self: MessageState.DEAD_LETTERING in self.states.values())
    @rule(data=st.data())
    def settle_dead_letter(self, data: st.DataObject) -> None:
        leaving = [
            offset for offset, state in self.states.items() if state is MessageState.DEAD_LETTERING
        ]
        offset = data.draw(st.sampled_from(leaving))
        self.queue.settle_dead_letters([offset])
        self.states[offset] = MessageState.SETTLED
        self.journal([offset])

    @rule(member=st.sampled_from(MEMBERS))
    def member_leaves(self, member: str) -> None:
        mine = [held for held in self.holders.values() if held.member == member]
        assert self.queue.release_member(member) == len(mine)
        self.end_leases(mine, MessageState.AVAILABLE)
        for offset, lease in self.held.items():
            if lease is not None and lease.member == member:
                self.held[offset] = None
                self.over.append(lease)

    # A transaction

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        chosen = sorted(data.draw(st.sets(st.sampled_from(sorted(self.holders)), min_size=1)))
        leases = [self.holders.pop(offset) for offset in chosen]
        self.position.holds.add(TRANSACTION, runs(chosen))
        for part in parts_of(leases):
            self.queue.hold(part)
        for held in leases:
            self.held[held.offset] = held
            self.states[held.offset] = MessageState.HELD

    @precondition(lambda self: self.held)
    @rule()
    def commit_transaction(self) -> None:
        offsets = sorted(self.held)
        self.position.holds.remove(TRANSACTION)
        self.position.settle(0, offsets, 1)
        parts = self.queue.ack_held(offsets)
        by_lease = sorted(offset for part in parts for offset in part.offsets)
        assert by_lease == [offset for offset in offsets if self.held[offset] is not None]
        for offset, lease in self.held.items():
            self.states[offset] = MessageState.SETTLED
            self.unread.discard(offset)
            if lease is not None:
                self.over.append(lease)
        self.held.clear()
        self.journal(offsets)

    @precondition(lambda self: self.held)
    @rule()
    def abort_transaction(self) -> None:
        self.position.holds.remove(TRANSACTION)
        self.queue.release_held(sorted(self.held))
        for offset, lease in self.held.items():
            if lease is None:
                self.states[offset] = MessageState.AVAILABLE
            else:
                self.states[offset] = MessageState.IN_FLIGHT
                self.holders[offset] = lease
        self.held.clear()

    # Time and the log

    @rule(steps=st.integers(0, 12), count_max=st.integers(1, 5))
    def pass_time(self, steps: int, count_max: int) -> None:
        self.now += steps
        mine = {offset for offset in self.holders if self.deadlines[offset] <= self.now}
        earliest = -1
        while due := self.queue.next_deadline():
            if due > self.now:
                break
            awake = self.queue.backoff_count
            expired = self.queue.expire(Instant(self.now), count_max)
            offsets = [offset for part in expired for offset in part.offsets]
            assert len(offsets) + awake - self.queue.backoff_count <= count_max
            assert len(offsets) == len(set(offsets)) == sum(map(len, expired))
            for part in expired:
                deadlines = {self.deadlines[offset] for offset in part.offsets}
                assert len(deadlines) == 1
                assert min(deadlines) >= earliest
                earliest = min(deadlines)
                self.queue.release(part)
            mine -= set(offsets)
            self.end_leases([self.holders[offset] for offset in offsets], MessageState.AVAILABLE)
        assert not mine
        for offset in [offset for offset, wake in self.wakes.items() if wake <= self.now]:
            del self.wakes[offset]
            if self.states[offset] is MessageState.BACKOFF:
                self.states[offset] = MessageState.AVAILABLE

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        self.queue.settle_below(offset)
        self.position.settle(offset, [], 1)
        for place in self.states:
            if place < offset:
                held = self.holders.pop(place, None)
                if held is not None:
                    self.over.append(held)
                lease = self.held.pop(place, None)
                if lease is not None:
                    self.over.append(lease)
                self.wakes.pop(place, None)
                self.unread.discard(place)
                self.states[place] = MessageState.SETTLED

    @rule()
    def relearn(self) -> None:
        """Records may be gone from the log: what was only looked at is looked at again."""
        self.queue.relearn()
        self.unread.update(self.available())

    def available(self) -> list[int]:
        return [place for place, state in self.states.items() if state is MessageState.AVAILABLE]

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        """Records that nobody holds are gone, and the queue is told so."""
        loose = self.available()
        if loose:
            gone = data.draw(st.sets(st.sampled_from(loose)))
            self.relearn()
            self.unread -= gone
            for offset in gone:
                del self.log[offset], self.states[offset]

    @rule(keeps_key_order=st.booleans())
    def restart(self, keeps_key_order: bool) -> None:
        """The process ends, or the group takes another mode."""
        self.keeps_key_order = keeps_key_order
        self.over.extend(self.holders.values())
        self.holders.clear()
        self.wakes.clear()
        self.start()
        for offset, lease in self.held.items():
            # The transaction holds its messages in the next life, too, but leases are over.
            self.held[offset] = None
            if lease is not None:
                self.over.append(lease)
        for offset, state in self.states.items():
            if state in (MessageState.IN_FLIGHT, MessageState.BACKOFF):
                self.states[offset] = MessageState.AVAILABLE
            if state is not MessageState.SETTLED:
                self.unread.add(offset)

    def journal(self, offsets: list[int]) -> None:
        self.position.settle(self.queue.floor, sorted(offsets), 1)

    # What always holds

    @invariant()
    def the_floor_is_below_everything_that_is_not_done(self) -> None:
        if not hasattr(self, "queue"):
            return
        undone = [
            offset for offset, state in self.states.items() if state is not MessageState.SETTLED
        ]
        assert self.queue.floor <= min(undone, default=self.end)
        assert self.position.floor <= min(undone, default=self.end)

    @invariant()
    def every_message_is_in_the_state_that_the_model_says(self) -> None:
        for offset, state in self.states.items():
            assert self.queue.state_of(offset) is state

    @invariant()
    def only_legal_transitions_occur(self) -> None:
        for offset, state in self.states.items():
            before = self.before.get(offset, state)
            assert before is state or before.may_become(state), f"{before} → {state}"
        self.before = dict(self.states)

    @invariant()
    def leases_are_what_the_model_says(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert self.queue.in_flight == len(self.holders)
        for member in MEMBERS:
            mine = sum(held.member == member for held in self.holders.values())
            assert self.queue.load_of(member) == mine
        for offset, held in self.holders.items():
            part = self.queue.find_lease(held.lease.serial, Folded.of([offset]))
            assert part is not None
            assert part.lease is held.lease
            assert list(part.offsets) == [offset]
        for held in self.over:
            over = self.queue.find_lease(held.lease.serial, Folded.of([held.offset]))
            assert over is None or not over.mask

    @invariant()
    def the_next_deadline_is_never_missed(self) -> None:
        if not hasattr(self, "queue"):
            return
        due = [self.deadlines[offset] for offset in self.holders]
        due += list(self.wakes.values())
        assert self.queue.next_deadline() == min(due, default=None)


QueueMachine.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None
)
TestQueueMachine = QueueMachine.TestCase
