"""The delivery queue against a model that keeps one word for each message."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.delivery import DeliveryQueue, Held, Position
from goqueue.model import Instant
from goqueue.records import MessageSummary

MEMBERS = ("one", "two")
VISIBILITY = 10


class QueueMachine(RuleBasedStateMachine):
    """One queue; each message of the log is in one state of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.serial = 1
        self.log: dict[int, MessageSummary] = {}
        self.end = 0
        self.states: dict[int, str] = {}
        self.wakes: dict[int, int] = {}
        self.holders: dict[int, Held] = {}
        self.deadlines: dict[int, int] = {}
        self.attempts: dict[int, int] = {}
        self.over: list[Held] = []

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
            self.states[offset] = "unknown"
            self.end = offset + 1

    @rule(count=st.integers(0, 6))
    def learn(self, count: int) -> None:
        found = [self.log[offset] for offset in sorted(self.log) if offset >= self.queue.cursor]
        found = found[:count]
        upto = found[-1].offset + 1 if found else int(self.queue.cursor)
        self.queue.learn(found, upto)
        for known in found:
            if self.states[known.offset] == "unknown":
                self.states[known.offset] = "ready"

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
            self.states[offset] = "held"
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
            if state in ("done", "unknown"):
                continue
            if state == "ready" and key not in blocked:
                found.append(offset)
            if key:
                blocked.add(key)
        return found

    def a_held(self, data: st.DataObject) -> Held:
        return self.holders[data.draw(st.sampled_from(sorted(self.holders)))]

    def end_lease(self, held: Held, state: str) -> None:
        del self.holders[held.offset]
        self.states[held.offset] = state
        self.over.append(held)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.holders)), min_size=1))
        settled = [self.holders[offset] for offset in sorted(chosen)]
        self.queue.settle(settled)
        for held in settled:
            self.end_lease(held, "done")
        self.journal(sorted(chosen))

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), rest=st.integers(0, 15))
    def give_back(self, data: st.DataObject, rest: int) -> None:
        held = self.a_held(data)
        self.queue.give_back(held, Instant(self.now + rest) if rest else None)
        self.end_lease(held, "resting" if rest else "ready")
        if rest:
            self.wakes[held.offset] = self.now + rest

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), timeout=st.integers(1, 30))
    def extend(self, data: st.DataObject, timeout: int) -> None:
        held = self.a_held(data)
        self.queue.extend(held, Instant(self.now + timeout))
        self.deadlines[held.offset] = self.now + timeout

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def bury(self, data: st.DataObject) -> None:
        held = self.a_held(data)
        self.queue.bury(held)
        self.position.begin_dying(held.offset)
        self.end_lease(held, "dying")

    @precondition(lambda self: "dying" in self.states.values())
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        dying = [offset for offset, state in self.states.items() if state == "dying"]
        offset = data.draw(st.sampled_from(dying))
        self.queue.finish([offset])
        self.states[offset] = "done"
        self.journal([offset])

    @rule(member=st.sampled_from(MEMBERS))
    def free(self, member: str) -> None:
        mine = [held for held in self.holders.values() if held.member == member]
        assert self.queue.free(member) == len(mine)
        for held in mine:
            self.end_lease(held, "ready")

    @rule(steps=st.integers(0, 12))
    def pass_time(self, steps: int) -> None:
        self.now += steps
        expired = self.queue.expire(Instant(self.now))
        mine = {offset for offset in self.holders if self.deadlines[offset] <= self.now}
        assert {held.offset for held in expired} == mine
        deadlines = [self.deadlines[held.offset] for held in expired]
        assert deadlines == sorted(deadlines)
        for held in expired:
            self.queue.give_back(held)
            self.end_lease(held, "ready")
        for offset in [offset for offset, wake in self.wakes.items() if wake <= self.now]:
            del self.wakes[offset]
            if self.states[offset] == "resting":
                self.states[offset] = "ready"

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        self.queue.pass_over(offset)
        self.position.settle(offset, [], 1)
        for place in self.states:
            if place < offset:
                held = self.holders.pop(place, None)
                if held is not None:
                    self.over.append(held)
                self.wakes.pop(place, None)
                self.states[place] = "done"

    @rule()
    def relearn(self) -> None:
        """Records may be gone from the log: what was only looked at is looked at again."""
        self.queue.relearn()
        for offset, state in self.states.items():
            if state == "ready":
                self.states[offset] = "unknown"

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        """Records that nobody holds are gone, and the queue is told so."""
        loose = [place for place, state in self.states.items() if state in ("ready", "unknown")]
        if loose:
            gone = data.draw(st.sets(st.sampled_from(loose)))
            self.relearn()
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
        for offset, state in self.states.items():
            if state not in ("done", "dying"):
                self.states[offset] = "unknown"
        # What is dying is not ready, but it is not known either before it was looked at.

    def journal(self, offsets: list[int]) -> None:
        self.position.settle(self.queue.floor, sorted(offsets), 1)

    # What always holds

    @invariant()
    def the_floor_is_below_everything_that_is_not_done(self) -> None:
        if not hasattr(self, "queue"):
            return
        undone = [offset for offset, state in self.states.items() if state != "done"]
        assert self.queue.floor <= min(undone, default=self.end)
        assert self.position.floor <= min(undone, default=self.end)

    @invariant()
    def leases_are_what_the_model_says(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert self.queue.in_flight == len(self.holders)
        for member in MEMBERS:
            mine = sum(held.member == member for held in self.holders.values())
            assert self.queue.load_of(member) == mine
        for offset, held in self.holders.items():
            assert self.queue.held(offset, held.serial) is held
        for held in self.over:
            assert self.queue.held(held.offset, held.serial) is None

    @invariant()
    def the_next_deadline_is_never_missed(self) -> None:
        if not hasattr(self, "queue"):
            return
        due = [self.deadlines[offset] for offset in self.holders]
        due += [wake for offset, wake in self.wakes.items() if self.states[offset] == "resting"]
        assert self.queue.next_deadline() == min(due, default=None)


QueueMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestQueueMachine = QueueMachine.TestCase
