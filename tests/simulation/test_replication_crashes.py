"""The crash points of replication: brokers lose their power between two steps, and start again.

Chance meets these moments as well (`FailoverRun`); here each has a name. Whatever is lost between
two steps, what was acknowledged is on every copy at the end, once, and all copies are equal.
"""

from collections.abc import Callable

import pytest

from goqueue.broker import HostedLog
from goqueue.model import MILLISECOND, SECOND, LogId, Offset
from goqueue.sim import Trace
from goqueue.sim.cluster import (
    BrokerMachine,
    ClusterProcess,
    QuorumSwarm,
    ReplicationRun,
    ReplicationSwarm,
)

_LOG = LogId("orders", 0)
_STEP_NS = 20_000
_CALM = QuorumSwarm(
    brokers=3,
    **dict.fromkeys(
        (each for each in QuorumSwarm.__struct_fields__ if each not in {"brokers", "full_disks"}),
        False,
    ),
)
_COPIES = ReplicationSwarm(replicas=3, minimum=2, fills=False, deletes=False, small_segments=False)

Moment = Callable[["Scene"], bool]


class Scene:
    """Three brokers that all keep a partition, and one producer of it with an id."""

    def __init__(self) -> None:
        self.run = ReplicationRun(1, Trace(), swarm=_CALM, copies=_COPIES)
        self.run.begin()
        self.run.create_topic()
        (self.publisher,) = (
            each for each in self.run.publishers if each.is_idempotent and each.partition == 0
        )
        self.wishes = 0
        self.run.checks.on_wish = self._wished
        for _ in range(3):
            self.publish()
        self.settle()
        # The roles as the scene begins, and where every copy ends then.
        self.leader = next(each for each in self.run.machines if self.hosted(each).leader)
        self.followers = [each for each in self.run.machines if each is not self.leader]
        self.end = end_of(self, self.leader)

    def _wished(self, *_: object) -> None:
        self.wishes += 1

    def hosted(self, machine: BrokerMachine) -> HostedLog:
        """The copy of a broker."""
        assert machine.node.cluster is not None
        found = machine.node.cluster.replicas.hosted.find(_LOG)
        assert found is not None
        return found

    def is_open(self, machine: BrokerMachine) -> bool:
        member = machine.node.cluster
        found = None if member is None else member.replicas.hosted.find(_LOG)
        return found is not None and found.partition is not None

    def publish(self) -> None:
        """Publish a message until it is acknowledged."""
        count = len(self.publisher.acked)
        for _ in range(2000):
            self.publisher.step()
            if len(self.publisher.acked) > count:
                return
            self.run.advance(10 * MILLISECOND)
        raise AssertionError("the message was not acknowledged")

    def begin_publish(self) -> None:
        """Send a message to the leader, and wait for nothing."""
        for _ in range(50):
            self.publisher.step()
            if end_of(self, self.leader) > self.end:
                return
            self.run.advance(_STEP_NS)

    def settle(self) -> None:
        self.run.advance(2 * SECOND)

    def wait_for(self, moment: Moment, patience_ns: int = 12 * SECOND) -> None:
        """Stop in the turn after which a moment is there."""
        until = self.run.time.now_ns + patience_ns
        while not moment(self):
            assert self.run.time.now_ns < until, "the moment did not come"
            self.run.advance(_STEP_NS)

    def lose_power(self, processes: list[ClusterProcess]) -> None:
        for process in processes:
            if process.is_running:
                self.run.kill(process, loses_power=True)

    def end_well(self) -> None:
        """All run again; the producer repeats what was not answered, and everything is there."""
        self.run.advance(SECOND)
        self.run.heal()
        self.publish()
        self.publish()
        self.run.advance(10 * SECOND)
        self.run.end_publishing()
        self.run.check_end()
        assert len(self.publisher.acked) >= 4


def end_of(scene: Scene, machine: BrokerMachine) -> Offset:
    partition = scene.hosted(machine).partition
    assert partition is not None
    return partition.log.end


def durable(scene: Scene, machine: BrokerMachine) -> Offset:
    partition = scene.hosted(machine).partition
    assert partition is not None
    return partition.log.watermarks.durable


def committed(scene: Scene, machine: BrokerMachine) -> Offset:
    partition = scene.hosted(machine).partition
    assert partition is not None
    return partition.log.high_watermark


def held_by(scene: Scene, machine: BrokerMachine) -> Offset:
    """What the leader believes a follower to have synced."""
    leader = scene.hosted(scene.leader).leader
    assert leader is not None
    progress = leader.progress(machine.process.name)
    assert progress is not None
    return progress.held


def batch_sent(scene: Scene) -> bool:
    return end_of(scene, scene.leader) > scene.end


def leader_synced(scene: Scene) -> bool:
    return durable(scene, scene.leader) > scene.end


def follower_appended(scene: Scene) -> bool:
    return any(end_of(scene, each) > scene.end for each in scene.followers)


def follower_synced(scene: Scene) -> bool:
    return any(durable(scene, each) > scene.end for each in scene.followers)


def follower_acknowledged(scene: Scene) -> bool:
    return any(held_by(scene, each) > scene.end for each in scene.followers)


def leader_committed(scene: Scene) -> bool:
    return committed(scene, scene.leader) > scene.end


def follower_knows_the_high_watermark(scene: Scene) -> bool:
    return any(committed(scene, each) > scene.end for each in scene.followers)


_MOMENTS = (
    batch_sent,
    leader_synced,
    follower_appended,
    follower_synced,
    follower_acknowledged,
    leader_committed,
    follower_knows_the_high_watermark,
)


@pytest.mark.parametrize("who", ["the leader", "a follower", "the followers", "everybody"])
@pytest.mark.parametrize("moment", _MOMENTS, ids=lambda moment: moment.__name__)
def test_a_batch_is_on_every_copy_or_on_none_wherever_the_power_goes(
    moment: Moment, who: str
) -> None:
    scene = Scene()
    scene.begin_publish()
    scene.wait_for(moment)

    leader = [scene.leader.process]
    followers = [each.process for each in scene.followers]
    lost = {
        "the leader": leader,
        "a follower": followers[:1],
        "the followers": followers,
        "everybody": leader + followers,
    }
    scene.lose_power(lost[who])

    scene.end_well()


@pytest.mark.parametrize("trouble", ["write error", "sync error", "full disk"])
@pytest.mark.parametrize("is_leader", [True, False], ids=["leader", "follower"])
def test_a_batch_that_its_own_disk_does_not_take_keeps_its_offset_for_nothing_else(
    trouble: str, is_leader: bool
) -> None:
    scene = Scene()
    machine = scene.leader if is_leader else scene.followers[0]
    scene.run.checks.failing = machine.process.name
    faults = scene.run.disks[machine.process.name].faults
    scene.begin_publish()
    scene.wait_for(batch_sent if is_leader else follower_appended)
    if trouble == "write error":
        faults.arm_write_error()
    elif trouble == "sync error":
        faults.arm_sync_error()
    else:
        faults.fill(0)

    scene.run.advance(SECOND)
    faults.calm()
    scene.end_well()


def test_what_a_follower_wrote_and_did_not_sync_is_not_counted_when_its_power_goes() -> None:
    scene = Scene()
    victim = next(each for each in scene.followers)
    scene.run.checks.failing = victim.process.name
    scene.begin_publish()
    scene.wait_for(lambda scene: end_of(scene, victim) > scene.end)
    scene.run.disks[victim.process.name].faults.arm_sync_error()
    scene.run.advance(50 * MILLISECOND)
    assert held_by(scene, victim) <= scene.end

    scene.lose_power([each.process for each in scene.run.machines])
    scene.end_well()


def successor(scene: Scene) -> BrokerMachine | None:
    """Whoever leads after the leader of the beginning."""
    for machine in scene.run.machines:
        if machine is not scene.leader and scene.is_open(machine):
            if scene.hosted(machine).leader is not None:
                return machine
    return None


def epoch_record_appended(scene: Scene) -> bool:
    found = successor(scene)
    return found is not None and end_of(scene, found) > scene.end + 1


def epoch_record_committed(scene: Scene) -> bool:
    found = successor(scene)
    return found is not None and committed(scene, found) > scene.end + 1


@pytest.mark.parametrize("who", ["the new leader", "everybody"])
@pytest.mark.parametrize(
    "moment", [epoch_record_appended, epoch_record_committed], ids=lambda each: each.__name__
)
def test_a_new_leader_that_loses_its_power_around_the_record_of_its_epoch_loses_nothing(
    moment: Moment, who: str
) -> None:
    scene = Scene()
    scene.begin_publish()
    # Both followers have the batch, and do not know that it is committed.
    scene.wait_for(lambda scene: all(held_by(scene, each) > scene.end for each in scene.followers))
    scene.lose_power([scene.leader.process])
    scene.wait_for(moment)

    found = successor(scene)
    assert found is not None
    everybody = [each.process for each in scene.run.machines]
    scene.lose_power([found.process] if who == "the new leader" else everybody)
    scene.run.advance(500 * MILLISECOND)
    scene.end_well()


def cut_off(scene: Scene) -> ClusterProcess:
    """The leader has a batch that nobody else has, and another one leads."""
    old = scene.leader.process
    for each in scene.followers:
        scene.run.network.cut(old.address, each.process.address)
        scene.run.network.cut(each.process.address, old.address)
    scene.begin_publish()
    scene.wait_for(leader_synced)
    scene.wait_for(lambda scene: successor(scene) is not None)
    scene.run.advance(SECOND)
    assert end_of(scene, scene.leader) > scene.end
    scene.run.network.heal()
    return old


def truncation_begun(scene: Scene) -> bool:
    partition = scene.hosted(scene.leader).partition
    return partition is not None and partition.log.is_changing


def truncation_done(scene: Scene) -> bool:
    hosted = scene.hosted(scene.leader)
    assert hosted.partition is not None
    log = hosted.partition.log
    return hosted.follower is not None and not log.is_changing and log.end <= scene.end


def subscribed(scene: Scene) -> bool:
    follower = scene.hosted(scene.leader).follower
    return follower is not None and follower.agrees


@pytest.mark.parametrize("is_everybody", [False, True], ids=["the old leader", "everybody"])
@pytest.mark.parametrize(
    "moment", [truncation_begun, truncation_done, subscribed], ids=lambda each: each.__name__
)
def test_a_deposed_leader_that_loses_its_power_while_it_cuts_its_tail_follows_in_the_end(
    moment: Moment, is_everybody: bool
) -> None:
    scene = Scene()
    old = cut_off(scene)
    scene.wait_for(moment)

    everybody = [each.process for each in scene.run.machines]
    scene.lose_power(everybody if is_everybody else [old])
    scene.end_well()


def isr_change_proposed(scene: Scene) -> bool:
    return scene.wishes > 0


def isr_change_committed(scene: Scene) -> bool:
    leader = scene.hosted(scene.leader).leader
    return leader is not None and len(leader.image.isr) == 2


@pytest.mark.parametrize("who", ["the leader", "the other member", "everybody"])
@pytest.mark.parametrize(
    "moment", [isr_change_proposed, isr_change_committed], ids=lambda each: each.__name__
)
def test_an_isr_that_shrinks_while_power_is_lost_holds_all_that_was_acknowledged(
    moment: Moment, who: str
) -> None:
    scene = Scene()
    gone, other = scene.followers
    scene.wishes = 0
    scene.lose_power([gone.process])
    scene.wait_for(moment)

    lost = {
        "the leader": [scene.leader.process],
        "the other member": [other.process],
        "everybody": [each.process for each in scene.run.machines],
    }
    scene.lose_power(lost[who])
    scene.end_well()


@pytest.mark.parametrize("who", ["the leader", "whoever joins", "everybody"])
def test_an_isr_that_grows_while_power_is_lost_holds_all_that_was_acknowledged(who: str) -> None:
    scene = Scene()
    gone = scene.followers[0].process
    scene.lose_power([gone])
    scene.wait_for(isr_change_committed)
    scene.publish()
    scene.wishes = 0
    gone.begin()
    scene.wait_for(isr_change_proposed)

    lost = {
        "the leader": [scene.leader.process],
        "whoever joins": [gone],
        "everybody": [each.process for each in scene.run.machines],
    }
    scene.lose_power(lost[who])
    scene.end_well()
