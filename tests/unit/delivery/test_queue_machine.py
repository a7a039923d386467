"""The delivery queue against a model that keeps the state of each message."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.delivery import DeliveryQueue, Lease, MessageState, Position, runs
from goqueue.model import Instant, TransactionKey
from goqueue.records import MessageSummary

MEMBERS = ("one", "two")
VISIBILITY = 10
TRANSACTION = TransactionKey(1, 1)


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
        self.holders: dict[int, Lease] = {}
        self.deadlines: dict[int, int] = {}
        self.attempts: dict[int, int] = {}
        self.over: list[Lease] = []
        # What a transaction holds, and by which lease, if that would run on.
        self.held: dict[int, Lease | None] = {}

    @initialize(keeps_key_order=st.booleans())
    def begin(self, keeps_key_order: bool) -> None:
        self.keeps_key_order = keeps_key_order
        self.position = Position(0)
        self.start()

    def start(self) -> None:
        self.queue = DeliveryQueue(self.position, keeps_key_order=self.keeps_key_order)

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
        assert [held.offset for held in leased] == expected
        for held in leased:
            offset = held.offset
            assert held.serial == self.serial
            assert held.attempt == self.attempts.get(offset, 0) + 1
            self.attempts[offset] = held.attempt
            self.position.count_delivery(held.attempt, [offset])
            self.serial += 1
            self.states[offset] = MessageState.IN_FLIGHT
            self.holders[offset] = held
            self.deadlines[offset] = int(deadline)

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

    def a_held(self, data: st.DataObject) -> Lease:
        return self.holders[data.draw(st.sampled_from(sorted(self.holders)))]

    def end_lease(self, held: Lease, state: MessageState) -> None:
        del self.holders[held.offset]
        self.states[held.offset] = state
        self.over.append(held)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.holders)), min_size=1))
        settled = [self.holders[offset] for offset in sorted(chosen)]
        self.queue.ack(settled)
        for held in settled:
            self.end_lease(held, MessageState.SETTLED)
        self.journal(sorted(chosen))

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), backoff=st.integers(1, 15))
    def nack(self, data: st.DataObject, backoff: int) -> None:
        held = self.a_held(data)
        self.queue.nack(held, Instant(self.now + backoff))
        self.end_lease(held, MessageState.BACKOFF)
        self.wakes[held.offset] = self.now + backoff

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        held = self.a_held(data)
        self.queue.release(held)
        self.end_lease(held, MessageState.AVAILABLE)

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), timeout=st.integers(1, 30))
    def extend(self, data: st.DataObject, timeout: int) -> None:
        held = self.a_held(data)
        self.queue.extend(held, Instant(self.now + timeout))
        self.deadlines[held.offset] = self.now + timeout

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def reject(self, data: st.DataObject) -> None:
        held = self.a_held(data)
        self.queue.reject(held)
        self.position.begin_dead_lettering(held.offset)
        self.end_lease(held, MessageState.DEAD_LETTERING)

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
        for held in mine:
            self.end_lease(held, MessageState.AVAILABLE)
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
        self.queue.hold(leases)
        for lease in leases:
            self.held[lease.offset] = lease
            self.states[lease.offset] = MessageState.HELD

    @precondition(lambda self: self.held)
    @rule()
    def commit_transaction(self) -> None:
        offsets = sorted(self.held)
        self.position.holds.remove(TRANSACTION)
        self.position.settle(0, offsets, 1)
        self.queue.ack_held(offsets)
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

    @rule(steps=st.integers(0, 12))
    def pass_time(self, steps: int) -> None:
        self.now += steps
        expired = self.queue.expire(Instant(self.now))
        mine = {offset for offset in self.holders if self.deadlines[offset] <= self.now}
        assert {held.offset for held in expired} == mine
        deadlines = [self.deadlines[held.offset] for held in expired]
        assert deadlines == sorted(deadlines)
        for held in expired:
            self.queue.release(held)
            self.end_lease(held, MessageState.AVAILABLE)
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
            assert self.queue.find_lease(offset, held.serial) is held
        for held in self.over:
            assert self.queue.find_lease(held.offset, held.serial) is None

    @invariant()
    def the_next_deadline_is_never_missed(self) -> None:
        if not hasattr(self, "queue"):
            return
        due = [self.deadlines[offset] for offset in self.holders]
        due += list(self.wakes.values())
        assert self.queue.next_deadline() == min(due, default=None)


QueueMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestQueueMachine = QueueMachine.TestCase
