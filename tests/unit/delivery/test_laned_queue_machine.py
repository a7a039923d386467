"""The delivery queue with several lanes and a census: surveys may come in any order, and again.

What is ready is the queue's own affair here; the model knows what was handed out and what is done.
In the end everything was handed out, and the floor stands at the end of the log.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.delivery import LANES, DeliveryQueue, LeasePart, Position, PriorityIndex
from goqueue.delivery.priority_index import BLOCK
from goqueue.model import Instant
from goqueue.records import MessageSummary
from tests.examples import examples
from tests.unit.delivery.leased import offset_of, singles

NO_LIMIT = 1 << 40


class Survey:
    """Some records as they were when they were read."""

    def __init__(self, known: list[MessageSummary], first: int, upto: int) -> None:
        self.known = known
        self.first = first
        self.upto = upto


class LanedQueueMachine(RuleBasedStateMachine):
    """One queue; each message of the log is waiting, held, resting, dying or done."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.serial = 1
        self.log: dict[int, MessageSummary] = {}
        self.end = 0
        self.states: dict[int, str] = {}
        self.holders: dict[int, LeasePart] = {}
        self.gone: dict[int, None] = {}
        self.surveys: list[Survey] = []
        self.census: PriorityIndex | None = None

    @initialize(keeps_key_order=st.booleans(), has_census=st.booleans())
    def begin(self, keeps_key_order: bool, has_census: bool) -> None:
        self.position = Position(0)
        self.queue = DeliveryQueue(self.position, keeps_key_order=keeps_key_order)
        self.census = PriorityIndex(0) if has_census else None

    # The log

    @rule(
        count=st.sampled_from([1, 1, 2, 5, 40, 1100]),
        gap=st.sampled_from([0, 0, 0, 1, 7, BLOCK, 3 * BLOCK + 1]),
        lanes=st.lists(st.integers(0, LANES - 1), min_size=1, max_size=4),
        keys=st.lists(st.sampled_from([b"", b"", b"a", b"b"]), min_size=1, max_size=3),
    )
    def publish(self, count: int, gap: int, lanes: list[int], keys: list[bytes]) -> None:
        self.end += gap
        for place in range(count):
            lane, key = lanes[place % len(lanes)], keys[place % len(keys)]
            self.log[self.end] = MessageSummary(self.end, 1, lane, key, b"")
            self.states[self.end] = "waiting"
            self.end += 1

    def look(self, first: int, count: int) -> Survey:
        found = [self.log[offset] for offset in sorted(self.log) if offset >= first]
        upto = self.end if len(found) <= count else found[count - 1].offset + 1
        return Survey(found[:count], first, upto)

    @rule(count=st.sampled_from([1, 3, 30, 2000]))
    def begin_survey(self, count: int) -> None:
        offset = self.queue.wanted(self.end, self.census)
        if offset is not None:
            self.surveys.append(self.look(offset, count))

    @rule(data=st.data(), count=st.sampled_from([1, 30, 2000]))
    def survey_from_anywhere(self, data: st.DataObject, count: int) -> None:
        """As for a queue that was there before this one."""
        self.surveys.append(self.look(data.draw(st.integers(0, self.end)), count))

    @precondition(lambda self: self.surveys)
    @rule(data=st.data(), again=st.booleans())
    def hear_of_a_survey(self, data: st.DataObject, again: bool) -> None:
        index = data.draw(st.integers(0, len(self.surveys) - 1))
        survey = self.surveys[index] if again else self.surveys.pop(index)
        self.learn(survey)

    def learn(self, survey: Survey) -> None:
        self.queue.learn(survey.known, survey.upto, survey.first)
        if self.census is not None and survey.first <= self.census.upto < survey.upto:
            self.count(self.census, survey)

    def count(self, census: PriorityIndex, survey: Survey) -> None:
        lanes = bytes(known.priority for known in survey.known)
        census.count([known.offset for known in survey.known], lanes, survey.upto)

    # The census

    @precondition(lambda self: self.census is not None)
    @rule(count=st.sampled_from([1, 30, 2000]))
    def scout(self, count: int) -> None:
        assert self.census is not None
        self.count(self.census, self.look(self.census.upto, count))

    @rule(data=st.data())
    def begin_another_census(self, data: st.DataObject) -> None:
        """The topic got a second lane, or another group stands further back."""
        self.census = PriorityIndex(data.draw(st.integers(0, int(self.queue.cursor))))

    # Leases

    @rule(count=st.sampled_from([1, 3, 50, 1000]), steps=st.integers(0, 40))
    def lease(self, count: int, steps: int) -> None:
        self.now += steps * 10**9
        for held in self.leased(count):
            self.states[offset_of(held)] = "held"
            self.holders[offset_of(held)] = held

    def leased(self, count: int) -> list[LeasePart]:
        """What is handed out; records that are gone from the log are found to be gone."""
        deadline = Instant(self.now + 10**9)
        found = singles(
            self.queue.lease("m", count, NO_LIMIT, deadline, self.serial, now=Instant(self.now))
        )
        self.serial += len(found)
        lost = [held for held in found if offset_of(held) in self.gone]
        self.queue.ack(lost)
        kept = [held for held in found if offset_of(held) not in self.gone]
        for held in kept:
            assert self.states[offset_of(held)] == "waiting", "handed out twice"
            self.check_key(held.messages[0])
        return kept

    def check_key(self, known: MessageSummary) -> None:
        if not self.queue.keeps_key_order or not known.key:
            return
        ahead = [each for each in self.log.values() if each.key == known.key and each < known]
        assert all(self.states[each.offset] == "done" for each in ahead)

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), outcome=st.sampled_from(["done", "waiting", "resting", "dying"]))
    def end_leases(self, data: st.DataObject, outcome: str) -> None:
        first = data.draw(st.sampled_from(sorted(self.holders)))
        count = data.draw(st.sampled_from([1, 5, 500]))
        chosen = [offset for offset in sorted(self.holders) if offset >= first][:count]
        leases = [self.holders.pop(offset) for offset in chosen]
        if outcome == "done":
            self.queue.ack(leases)
            self.position.settle(self.queue.floor, sorted(chosen), 1)
        for held in leases:
            self.states[offset_of(held)] = outcome
            if outcome == "waiting":
                self.queue.release(held)
            elif outcome == "resting":
                self.queue.nack(held, Instant(self.now + 5))
            elif outcome == "dying":
                self.queue.reject(held)
                self.position.begin_dead_lettering(offset_of(held))

    @rule()
    def wake_those_that_rest(self) -> None:
        self.now += 5
        for part in self.queue.expire(Instant(self.now)):
            self.queue.release(part)
            for offset in part.offsets:
                del self.holders[offset]
                self.states[offset] = "waiting"
        for offset, state in self.states.items():
            if state == "resting":
                self.states[offset] = "waiting"

    @rule()
    def finish_those_that_die(self) -> None:
        for offset in [each for each, state in self.states.items() if state == "dying"]:
            self.queue.settle_dead_letters([offset])
            self.states[offset] = "done"
            self.position.settle(self.queue.floor, [offset], 1)

    # What else happens

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        self.queue.settle_below(offset)
        self.position.settle(offset, [], 1)
        for place in [each for each in self.states if each < offset]:
            self.states[place] = "done"
            self.holders.pop(place, None)

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        waiting = [place for place, state in self.states.items() if state == "waiting"]
        every = data.draw(st.integers(1, 3))
        self.queue.relearn()
        for offset in waiting[::every]:
            self.gone[offset] = None
            del self.log[offset], self.states[offset]

    @rule(keeps_key_order=st.booleans())
    def restart(self, keeps_key_order: bool) -> None:
        self.queue = DeliveryQueue(self.position, keeps_key_order=keeps_key_order)
        self.holders.clear()
        for offset, state in self.states.items():
            if state in ("held", "resting"):
                self.states[offset] = "waiting"
        if self.census is not None and self.queue.cursor < self.census.start:
            self.census = PriorityIndex(self.queue.cursor)

    # What always holds

    @invariant()
    def the_floor_is_below_everything_that_is_not_done(self) -> None:
        if hasattr(self, "queue"):
            undone = (offset for offset, state in self.states.items() if state != "done")
            assert self.queue.floor <= min(undone, default=self.end)

    def teardown(self) -> None:
        """Everything that is left comes out, and nothing is left behind it."""
        if not hasattr(self, "queue"):
            return
        self.finish_those_that_die()
        self.queue.ack(list(self.holders.values()))
        for offset in self.holders:
            self.states[offset] = "done"
        self.wake_those_that_rest()
        while True:
            wanted = self.queue.wanted(self.end, self.census)
            if wanted is not None:
                self.learn(self.look(wanted, 2000))
            leased = self.leased(1000)
            self.queue.ack(leased)
            for held in leased:
                self.states[offset_of(held)] = "done"
            self.finish_again()
            if wanted is None and not leased and not self.queue.is_ready:
                break
        assert [offset for offset, state in self.states.items() if state != "done"] == []
        assert self.queue.floor == self.end

    def finish_again(self) -> None:
        """Those that were dying when the queue began, which is known only when they are seen."""
        for offset in [each for each, state in self.states.items() if state == "dying"]:
            self.queue.settle_dead_letters([offset])
            self.states[offset] = "done"


LanedQueueMachine.TestCase.settings = settings(
    max_examples=examples(40), stateful_step_count=30, deadline=None
)
TestLanedQueueMachine = LanedQueueMachine.TestCase
