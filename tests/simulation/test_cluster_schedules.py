"""Schedules of a cluster, step by step: sent by the coordinator, once, whoever that is."""

from collections.abc import Callable

import pytest

from goqueue.model import MILLISECOND, SCHEDULE_HEADER, SECOND, TICK_HEADER, Code, Offset, Refused
from goqueue.model.requests import (
    CreateSchedule,
    CreateTopic,
    DeleteSchedule,
    DeleteTopic,
    DescribeSchedule,
    Done,
    ListSchedules,
    MissedPolicy,
    PauseSchedule,
    Read,
    Records,
    ResumeSchedule,
    RunSchedule,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleList,
    ScheduleRan,
    ScheduleSpec,
    ScheduleState,
    TopicConfig,
)
from goqueue.records import Flag, decode, walk
from goqueue.sim import Trace
from goqueue.sim.cluster import ScheduleRun
from tests.simulation.calm_cluster import CalmCluster
from tests.simulation.replays import named_when_it_fails

TOPIC = "ticks"
NAME = "beat"


class TickingCluster(CalmCluster):
    """Three brokers, a topic, and a schedule that ticks every second."""

    def __init__(self, minimum: int = 2) -> None:
        super().__init__(3)
        now = self.run.time.now_ns
        clocks = [process.clock for process in self.run.processes]
        for clock in clocks:
            # A schedule is silent while the clock of its coordinator is behind.
            clock.jump(clocks[0].wall(now) - clock.wall(now))
        self.create_topic(minimum)
        self.create()

    def create_topic(self, minimum: int = 2) -> None:
        config = TopicConfig(replication_factor=3, min_insync_replicas=minimum)
        created = self.try_to_ask(CreateTopic(name=TOPIC, partitions=1, config=config))
        assert not isinstance(created, Refused)
        self.run.advance(SECOND)

    def create(self) -> ScheduleDescription:
        spec = ScheduleSpec(
            name=NAME,
            topic=TOPIC,
            message=ScheduledMessage(value=b"tick"),
            every_ns=SECOND,
            missed=MissedPolicy.ALL,
            grace_ns=60 * SECOND,
        )
        return self.ask(CreateSchedule(spec=spec), ScheduleDescription)

    def describe(self) -> ScheduleDescription:
        return self.ask(DescribeSchedule(name=NAME), ScheduleDescription)

    def headers(self) -> list[dict[str, str]]:
        """The headers of all messages that readers see."""
        read = Read(topic=TOPIC, partition=0, offset=Offset(0), bytes_max=1 << 20)
        reply = self.ask(read, Records)
        found = []
        for piece in reply.data:
            columns = walk(piece)
            for position, flags in zip(columns.positions, columns.flags, strict=True):
                if not flags & Flag.CONTROL:
                    headers = decode(piece, position).headers
                    found.append({key: value.decode() for key, value in headers})
        return found

    def ticks(self) -> list[str]:
        return [each[TICK_HEADER] for each in self.headers() if TICK_HEADER in each]


@pytest.fixture(scope="module")
def calm() -> Callable[[], TickingCluster]:
    return TickingCluster


def test_each_tick_is_one_message_and_says_of_which_schedule(
    calm: Callable[[], TickingCluster],
) -> None:
    cluster = calm()
    cluster.run.advance(5 * SECOND)
    paused = cluster.ask(PauseSchedule(name=NAME), ScheduleDescription)
    ticks = cluster.ticks()

    assert paused.sent == len(ticks) == len(set(ticks)) >= 4
    assert {each[SCHEDULE_HEADER] for each in cluster.headers()} == {NAME}


def test_the_next_coordinator_sends_what_the_last_one_owed_and_nothing_again(
    calm: Callable[[], TickingCluster],
) -> None:
    cluster = calm()
    cluster.run.advance(3 * SECOND)
    before = cluster.ticks()
    cluster.lose_coordinator()
    cluster.run.advance(4 * SECOND)
    paused = cluster.ask(PauseSchedule(name=NAME), ScheduleDescription)
    ticks = cluster.ticks()

    assert ticks[: len(before)] == before
    assert len(ticks) == len(set(ticks)) == paused.sent > len(before)
    assert ticks == sorted(ticks)


def test_a_pause_outlives_the_coordinator_and_nothing_follows_its_answer(
    calm: Callable[[], TickingCluster],
) -> None:
    cluster = calm()
    paused = cluster.ask(PauseSchedule(name=NAME), ScheduleDescription)
    cluster.lose_coordinator()
    cluster.run.advance(5 * SECOND)

    described = cluster.describe()
    assert (described.state, described.sent) == (ScheduleState.PAUSED, paused.sent)
    cluster.ask(ResumeSchedule(name=NAME), ScheduleDescription)


def test_a_schedule_is_run_by_hand_through_any_broker(
    calm: Callable[[], TickingCluster],
) -> None:
    cluster = calm()
    cluster.ask(PauseSchedule(name=NAME), ScheduleDescription)
    for machine in cluster.run.machines:
        reply = cluster.try_to_ask(RunSchedule(name=NAME), machine)
        assert isinstance(reply, ScheduleRan), reply
    runs = [each for each in cluster.headers() if TICK_HEADER not in each]
    assert len(runs) == 3


def test_a_run_is_refused_before_it_is_appended_while_too_few_copies_live() -> None:
    """It was appended, aborted and tried again for as long as a node was missing."""
    cluster = TickingCluster(minimum=3)
    cluster.ask(PauseSchedule(name=NAME), ScheduleDescription)
    before = len(cluster.headers())
    others = [each for each in cluster.run.machines[1:] if each is not cluster.coordinator]
    missing = others[0].process
    cluster.run.kill(missing, loses_power=False)
    cluster.run.advance(8 * SECOND)

    refused = cluster.try_to_ask(RunSchedule(name=NAME))
    assert isinstance(refused, Refused)
    assert refused.code is Code.NOT_ENOUGH_REPLICAS

    missing.begin()
    cluster.run.advance(8 * SECOND)
    cluster.ask(RunSchedule(name=NAME), ScheduleRan)
    assert len(cluster.headers()) == before + 1


def test_schedules_are_listed_and_deleted(calm: Callable[[], TickingCluster]) -> None:
    cluster = calm()
    listed = cluster.ask(ListSchedules(), ScheduleList)
    assert [each.spec.name for each in listed.schedules] == [NAME]
    cluster.ask(DeleteSchedule(name=NAME), Done)
    assert cluster.ask(ListSchedules(), ScheduleList).total == 0
    refused = cluster.try_to_ask(DescribeSchedule(name=NAME))
    assert isinstance(refused, Refused)
    assert refused.code is Code.SCHEDULE_NOT_FOUND


def test_a_schedule_waits_for_its_topic_to_be_made_again(
    calm: Callable[[], TickingCluster],
) -> None:
    cluster = calm()
    assert not isinstance(cluster.try_to_ask(DeleteTopic(name=TOPIC)), Refused)
    cluster.run.advance(3 * SECOND)
    assert cluster.describe().problem == f"there is no topic {TOPIC}"
    cluster.create_topic()
    cluster.run.advance(3 * SECOND)

    assert cluster.describe().problem is None
    assert cluster.ticks()


def test_nothing_ticks_while_the_coordinator_cannot_commit_and_no_tick_is_lost(
    calm: Callable[[], TickingCluster],
) -> None:
    cluster = calm()
    cluster.run.advance(2 * SECOND)
    others = [each for each in cluster.run.machines if each is not cluster.coordinator]
    for machine in others:
        cluster.run.kill(machine.process, loses_power=True)
    cluster.run.advance(3 * SECOND)
    for machine in others:
        machine.process.begin()
    cluster.run.advance(10 * SECOND)
    paused = cluster.ask(PauseSchedule(name=NAME), ScheduleDescription)
    cluster.run.advance(500 * MILLISECOND)

    ticks = cluster.ticks()
    assert len(ticks) == len(set(ticks)) == paused.sent


# 3: a copy that was folded from a snapshot knew the producer of a tick whose marker it had.
@pytest.mark.parametrize("seed", [3])
def test_a_seed_that_found_something_finds_nothing_more(seed: int) -> None:
    with named_when_it_fails("cluster-schedules", seed):
        run = ScheduleRun(seed, Trace())
        run.live()
    assert run.ticks_total > 0
