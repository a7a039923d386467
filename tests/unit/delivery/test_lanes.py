"""Deficit round robin over five lanes: shares, who goes first, and that nothing is lost."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from goqueue.delivery import LANES, Lanes
from goqueue.model import SECOND, Instant
from goqueue.model.requests import LaneSettings
from goqueue.records import MessageSummary
from tests.examples import examples

CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = range(LANES)
NO_LIMIT = 1 << 40
START = Instant(1000 * SECOND)


def message(offset: int, lane: int, size: int = 10) -> MessageSummary:
    return MessageSummary(offset, size, lane, b"", b"")


def filled(*counts: int, weights: LaneSettings | None = None) -> Lanes:
    """Lanes with so many messages each, critical first; offsets go up from lane to lane."""
    lanes = Lanes(weights)
    offset = 0
    for lane, count in enumerate(counts):
        for _ in range(count):
            lanes.put(message(offset, lane))
            offset += 1
    return lanes


def taken_lanes(taken: list[MessageSummary]) -> list[int]:
    return [known.priority for known in taken]


# Turns


def test_one_round_of_full_lanes_goes_by_weight_critical_first() -> None:
    taken = taken_lanes(filled(100, 100, 100, 100, 100).take(100, NO_LIMIT, START).messages)

    assert taken == [0] * 50 + [1] * 25 + [2] * 15 + [3] * 7 + [4] * 3


def test_a_round_goes_on_where_the_last_take_ended() -> None:
    lanes = filled(100, 100, 100, 100, 100)
    parts = [lanes.take(count, NO_LIMIT, START).messages for count in (49, 2, 30, 19)]
    taken = [known for part in parts for known in part]

    assert taken_lanes(taken) == [0] * 50 + [1] * 25 + [2] * 15 + [3] * 7 + [4] * 3


def test_critical_messages_that_come_within_a_round_go_before_the_rest_of_it() -> None:
    lanes = filled(0, 0, 50, 0, 50)
    lanes.take(5, NO_LIMIT, START)
    lanes.put(message(500, CRITICAL))

    assert taken_lanes(lanes.take(2, NO_LIMIT, START).messages) == [CRITICAL, NORMAL]


def test_an_idle_lane_saves_nothing_up() -> None:
    lanes = filled(0, 0, 1000, 0, 0)
    lanes.take(900, NO_LIMIT, START)
    for offset in range(2000, 2200):
        lanes.put(message(offset, CRITICAL))

    taken = taken_lanes(lanes.take(130, NO_LIMIT, START).messages)
    assert taken == [CRITICAL] * 100 + [NORMAL] * 15 + [CRITICAL] * 15


def test_a_lane_alone_gets_everything() -> None:
    lanes = filled(0, 0, 0, 0, 500)

    assert len(lanes.take(500, NO_LIMIT, START).messages) == 500
    assert len(lanes) == 0


def test_what_comes_back_goes_before_what_is_new_in_its_lane() -> None:
    lanes = filled(0, 0, 5, 0, 0)
    first, second = lanes.take(2, NO_LIMIT, START).messages
    lanes.put_back(second)
    lanes.put_back(first)

    assert [known.offset for known in lanes.take(9, NO_LIMIT, START).messages] == [0, 1, 2, 3, 4]


@settings(max_examples=examples(15))
@given(
    weights=st.tuples(*[st.integers(1, 60)] * LANES),
    batches=st.lists(st.integers(1, 300), min_size=1, max_size=8),
)
def test_under_saturation_shares_are_within_two_points_for_any_weights(
    weights: tuple[int, ...], batches: list[int]
) -> None:
    lanes = filled(*[4000] * LANES, weights=LaneSettings(weights=weights))
    whole = sum(weights)
    counts = [0] * LANES
    # A share is over rounds; less than one more is cut off at the end.
    turn, left = 0, min(whole * 60, 3900)
    total = left
    while left:
        count = min(left, batches[turn % len(batches)])
        turn += 1
        taken = lanes.take(count, NO_LIMIT, START).messages
        assert len(taken) == count
        left -= count
        for lane in taken_lanes(taken):
            counts[lane] += 1

    slack = 0.02 * total + whole
    for lane in range(LANES):
        assert abs(counts[lane] - total * weights[lane] / whole) <= slack


@given(lacking=st.sets(st.integers(0, LANES - 1), max_size=LANES - 1))
def test_lanes_that_have_something_share_what_the_others_leave(lacking: set[int]) -> None:
    weights = LaneSettings().weights
    lanes = filled(*[0 if lane in lacking else 4000 for lane in range(LANES)])
    taken = taken_lanes(lanes.take(3000, NO_LIMIT, START).messages)

    whole = sum(weights[lane] for lane in range(LANES) if lane not in lacking)
    for lane in range(LANES):
        share = 0.0 if lane in lacking else weights[lane] / whole
        assert abs(taken.count(lane) / 3000 - share) <= 0.02


# Limits in bytes


@settings(max_examples=examples(200))
@given(
    st.lists(st.integers(0, 90), min_size=LANES, max_size=LANES),
    st.lists(st.integers(1, 60), min_size=LANES, max_size=LANES),
    st.lists(st.integers(0, 150), max_size=4),
)
def test_many_at_once_come_in_the_order_in_which_they_come_one_by_one(
    counts: list[int], weights: list[int], sizes: list[int]
) -> None:
    settings_ = LaneSettings(weights=tuple(weights))
    together, singly = (filled(*counts, weights=settings_) for _ in range(2))
    for size in sizes:
        at_once = together.take(size, NO_LIMIT, START)
        # Less room than for any: one comes all the same.
        one_by_one = [each for _ in range(size) for each in singly.take(1, 1, START).messages]

        assert at_once.messages == one_by_one
        offsets = [each.offset for each in at_once.messages]
        assert not at_once.is_rising or offsets == sorted(offsets)
    assert [together.facts(lane) for lane in range(LANES)] == [
        singly.facts(lane) for lane in range(LANES)
    ]


def test_the_first_message_is_taken_even_if_it_is_larger_than_allowed() -> None:
    lanes = filled(0, 0, 2, 0, 0)

    assert [known.offset for known in lanes.take(5, 0, START).messages] == [0]
    assert [known.offset for known in lanes.take(5, 3, START).messages] == [1]


def test_a_message_that_is_too_large_for_the_rest_keeps_its_turn() -> None:
    lanes = Lanes()
    lanes.put(message(0, CRITICAL, 10))
    lanes.put(message(1, CRITICAL, 100))
    lanes.put(message(2, NORMAL, 10))

    assert [known.offset for known in lanes.take(5, 50, START).messages] == [0]
    assert [known.offset for known in lanes.take(5, 200, START).messages] == [1, 2]


# Boost


def test_a_lane_that_waited_too_long_is_served_first_and_once() -> None:
    lanes = filled(1000, 0, 0, 0, 10)
    lanes.take(1, NO_LIMIT, START)
    almost = Instant(START + 30 * SECOND - 1)
    assert taken_lanes(lanes.take(2, NO_LIMIT, almost).messages) == [CRITICAL, CRITICAL]

    due = Instant(START + 30 * SECOND)
    assert taken_lanes(lanes.take(3, NO_LIMIT, due).messages) == [BACKGROUND, CRITICAL, CRITICAL]


def test_of_several_overdue_lanes_the_one_that_waited_longest_goes_first() -> None:
    lanes = filled(1000, 0, 0, 0, 10)
    lanes.take(1, NO_LIMIT, START)
    lanes.put(message(5000, HIGH))
    lanes.take(1, NO_LIMIT, Instant(START + SECOND))

    taken = lanes.take(3, NO_LIMIT, Instant(START + 60 * SECOND)).messages
    assert taken_lanes(taken)[:2] == [BACKGROUND, HIGH]


def test_the_boost_is_as_long_as_the_topic_says() -> None:
    lanes = filled(1000, 0, 0, 0, 10, weights=LaneSettings(boost_ns=SECOND))
    lanes.take(1, NO_LIMIT, START)

    assert taken_lanes(lanes.take(1, NO_LIMIT, Instant(START + SECOND)).messages) == [BACKGROUND]


def test_a_lane_that_was_emptied_meanwhile_does_not_wait() -> None:
    lanes = filled(0, 0, 0, 0, 3)
    lanes.put(message(10, CRITICAL))
    lanes.take(1, NO_LIMIT, START)
    lanes.keep_from(10)
    assert lanes.facts(BACKGROUND).waiting_from is None
    lanes.put(message(11, BACKGROUND))
    lanes.put(message(12, CRITICAL))

    later = Instant(START + 60 * SECOND)
    assert taken_lanes(lanes.take(1, NO_LIMIT, later).messages) == [CRITICAL]


# Settings that change


def test_other_weights_hold_from_the_next_turn_on() -> None:
    lanes = filled(500, 500, 500, 500, 500)
    lanes.take(1, NO_LIMIT, START)
    lanes.weigh(LaneSettings(weights=(1, 1, 1, 1, 1)))

    assert taken_lanes(lanes.take(10, NO_LIMIT, START).messages)[-5:] == [0, 1, 2, 3, 4]


# Facts


def test_waiting_counts_from_when_somebody_came_and_did_not_take_it() -> None:
    lanes = filled(0, 0, 3, 0, 0)
    lanes.take(1, NO_LIMIT, START)
    assert lanes.facts(NORMAL).waited_ns == 0
    lanes.take(2, NO_LIMIT, Instant(START + SECOND))
    assert lanes.facts(NORMAL).waited_ns == 2 * SECOND

    lanes.put(message(9, NORMAL))
    lanes.take(1, NO_LIMIT, Instant(START + 3600 * SECOND))
    assert lanes.facts(NORMAL).waited_ns == 2 * SECOND


def test_facts_count_what_went_in_and_out() -> None:
    lanes = filled(0, 2, 0, 0, 0)
    (first,) = lanes.take(1, NO_LIMIT, START).messages
    lanes.put_back(first)
    facts = lanes.facts(HIGH)

    assert (facts.ready, facts.enqueued, facts.dequeued) == (2, 3, 1)
    assert facts.served_at == START
    assert lanes.facts(LOW).served_at is None


# Against a model


class LanesMachine(RuleBasedStateMachine):
    """Every message is ready or taken; each lane goes by offset."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes = Lanes()
        self.now = int(START)
        self.end = 0
        self.ready: dict[int, MessageSummary] = {}
        self.taken: dict[int, MessageSummary] = {}

    @rule(drawn=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), max_size=30))
    def put(self, drawn: list[tuple[int, int]]) -> None:
        for lane, size in drawn:
            known = self.ready[self.end] = message(self.end, lane, size)
            self.lanes.put(known)
            self.end += 1

    @rule(count=st.integers(1, 40), size=st.integers(0, 120), steps=st.integers(0, 40))
    def take(self, count: int, size: int, steps: int) -> None:
        self.now += steps * SECOND
        taken = self.lanes.take(count, size, Instant(self.now)).messages
        assert len(taken) <= count
        assert bool(taken) == bool(self.ready)
        assert len(taken) <= 1 or sum(known.size for known in taken) <= size
        for known in taken:
            ahead = [each for each in self.ready.values() if each.priority == known.priority]
            assert known == min(ahead)
            self.taken[known.offset] = self.ready.pop(known.offset)
        if len(taken) < count and self.ready:
            # It stopped for the bytes: what is left of them does not do for some lane's next.
            left = size - sum(known.size for known in taken)
            nexts = {
                known.priority: known.size for known in sorted(self.ready.values(), reverse=True)
            }
            assert left <= 0 or any(each > left for each in nexts.values())

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.taken)))
        known = self.ready[offset] = self.taken.pop(offset)
        self.lanes.put_back(known)

    @rule(data=st.data())
    def keep_from(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        gone = [known for known in self.ready.values() if known.offset < offset]
        assert sorted(self.lanes.keep_from(offset)) == sorted(gone)
        for known in gone:
            del self.ready[known.offset]

    @rule(weights=st.tuples(*[st.integers(1, 60)] * LANES))
    def weigh(self, weights: tuple[int, ...]) -> None:
        self.lanes.weigh(LaneSettings(weights=weights))

    @invariant()
    def everything_is_there_once(self) -> None:
        assert sorted(self.lanes) == sorted(self.ready.values())
        assert len(self.lanes) == len(self.ready)
        for lane in range(LANES):
            mine = sum(known.priority == lane for known in self.ready.values())
            assert self.lanes.ready(lane) == mine


LanesMachine.TestCase.settings = settings(
    max_examples=examples(32), stateful_step_count=40, deadline=None
)
TestLanesMachine = LanesMachine.TestCase
