"""Priorities in a whole node: shares under saturation, no starving, and no message that is lost."""

from collections import Counter
from random import Random

import pytest

from goqueue.gateways import leased_records
from goqueue.model import SECOND, Instant, Message, Now, Timestamp
from goqueue.model.requests import (
    Ack,
    Acked,
    CreateTopic,
    Join,
    Joined,
    LaneSettings,
    Leased,
    Mode,
    Poll,
    Publish,
    Published,
    TopicConfig,
    TopicDescription,
    lease_of,
)
from goqueue.records import build
from goqueue.sim import Trace
from goqueue.sim.node import NodeSwarm, World

_WEIGHTS = LaneSettings().weights
_LANES = range(len(_WEIGHTS))


class _Crowd:
    """A calm node with one topic, one producer, and one member that takes and acknowledges."""

    def __init__(self, mode: Mode = Mode.SHARED) -> None:
        calm = NodeSwarm(**dict.fromkeys(NodeSwarm.__struct_fields__, False))
        self._world = World(Random(1), Trace(), calm, ticks=Random(2))
        world = self._world
        world.process.begin(bytes(32))
        world.process.settle(world.now)
        # A lease outlives every test, so that nothing is delivered again.
        config = TopicConfig(visibility_ns=3600 * SECOND)
        made = world.ask_now(CreateTopic(name="t", partitions=1, config=config))
        assert isinstance(made, TopicDescription)
        joining = Join(group="g", client_id="c", topics=("t",), token=mode.value, mode=mode)
        joined = world.ask_now(joining)
        assert isinstance(joined, Joined)
        self._member_id = joined.member_id
        self._next = 0
        self.published: list[int] = []
        self.offsets: list[int] = []

    @property
    def seconds(self) -> int:
        return self._world.now.instant // SECOND

    def publish(self, lanes: list[int]) -> None:
        """One message for each lane that is named, in this order."""
        messages = [
            Message(value=b"%d" % (self._next + index), priority=lane)
            for index, lane in enumerate(lanes)
        ]
        self._next += len(lanes)
        self.published += lanes
        reply = self._world.ask_now(Publish(topic="t", batch=build(messages)))
        assert isinstance(reply, Published)

    def pass_time(self, elapsed: int) -> None:
        world = self._world
        world.now = Now(Instant(world.now.instant + elapsed), Timestamp(world.now.wall + elapsed))
        world.process.wake(world.now)
        world.process.settle(world.now)

    def take(self, count: int) -> list[int]:
        """Poll once and acknowledge all; the lane of each message in the order of delivery."""
        poll = Poll(group="g", member_id=self._member_id, wait_ns=0, messages_max=count)
        leased = self._world.ask_now(poll)
        assert isinstance(leased, Leased)
        lanes: list[int] = []
        for share in leased.partitions:
            records = leased_records(share, 1 << 30)
            shown = {record.offset: record.priority for record in records}
            lanes += [shown[offset] for offset in share.offsets]
            self.offsets += share.offsets
            acked = self._world.ask_now(Ack(leases=tuple(lease_of(each[2]) for each in share)))
            assert isinstance(acked, Acked)
        return lanes


def _deal(count: int, seed: int) -> list[int]:
    """So many of each lane, shuffled."""
    dealt = [lane for lane in _LANES for _ in range(count)]
    Random(seed).shuffle(dealt)
    return dealt


@pytest.mark.parametrize(("count", "total"), [(1, 1000), (7, 3000), (100, 4000), (1000, 4000)])
def test_under_saturation_each_lane_gets_its_share_within_two_points(
    count: int, total: int
) -> None:
    crowd = _Crowd()
    for part in range(10):
        crowd.publish(_deal(400, part))

    taken: Counter[int] = Counter()
    # At most as many as leave something in the lane that is served most.
    while taken.total() < total:
        taken.update(crowd.take(count))

    shares = [100 * taken[lane] / taken.total() for lane in _LANES]
    assert all(abs(share - _WEIGHTS[lane]) <= 2 for lane, share in enumerate(shares)), shares


def test_no_lane_starves_while_a_slow_member_polls_and_more_critical_messages_come() -> None:
    crowd = _Crowd()
    crowd.publish(_deal(40, 1))
    served_at = dict.fromkeys(_LANES, crowd.seconds)
    longest = dict.fromkeys(_LANES, 0)

    for _ in range(150):
        crowd.publish([0, 0])
        crowd.pass_time(SECOND)
        for lane in crowd.take(1):
            longest[lane] = max(longest[lane], crowd.seconds - served_at[lane])
            served_at[lane] = crowd.seconds

    # One message a second: lanes whose time is over together are served one after the other.
    assert max(longest.values()) <= 30 + len(_LANES), longest
    assert max(crowd.seconds - at for at in served_at.values()) <= 30 + len(_LANES)


def test_one_critical_message_behind_a_large_backlog_is_next_once_the_backlog_is_counted() -> None:
    crowd = _Crowd()
    for _ in range(10):
        crowd.publish([4] * 1000)
    crowd.publish([0])
    # Somebody polls for the first time: only now is it of interest what stands where.
    crowd.take(1)
    crowd.pass_time(SECOND)

    assert crowd.take(1) == [0]
    assert crowd.offsets[-1] == 10_000


@pytest.mark.parametrize("mode", list(Mode))
def test_every_message_is_delivered_once_whatever_its_priority_and_the_mode(mode: Mode) -> None:
    crowd = _Crowd(mode)
    for part in range(5):
        crowd.publish(_deal(300, part))

    taken: list[int] = []
    while lanes := crowd.take(250):
        taken += lanes

    assert sorted(crowd.offsets) == list(range(len(crowd.published)))
    assert Counter(taken) == Counter(crowd.published)
