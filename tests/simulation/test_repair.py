"""Damaged records of one copy are fetched from another, wherever the damage is."""

from goqueue.cluster import PartitionId, PartitionState
from goqueue.model import SECOND, Damaged, LogId, Offset
from goqueue.sim.cluster import QuorumSwarm, ReplicationRun, ReplicationSwarm
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.trace import Trace
from goqueue.storage import log_directory, segment_name

LOG = LogId("orders", 0)
# The offset of the record at the byte that is flipped.
ROTTEN, BYTE = Offset(2), 150


def begun() -> ReplicationRun:
    """A quiet cluster with a topic of three copies that have some records."""
    calm = dict.fromkeys(QuorumSwarm.__struct_fields__[1:], False)
    copies = ReplicationSwarm(
        replicas=3, minimum=2, fills=False, deletes=False, small_segments=False
    )
    run = ReplicationRun(6, Trace(), swarm=QuorumSwarm(brokers=3, **calm), copies=copies)
    run.begin()
    run.create_topic()
    run.begin_publishing()
    run.advance(2 * SECOND)
    return run


def newest(run: ReplicationRun) -> PartitionState:
    member = run.machines[0].node.cluster
    assert member is not None
    hosted = member.replicas.hosted.find(LOG)
    assert hosted is not None
    state = run.checks.newest(hosted.where)
    assert state is not None
    return state


def machine_of(run: ReplicationRun, name: str | None) -> BrokerMachine:
    return next(each for each in run.machines if each.process.name == name)


def damaged(machine: BrokerMachine) -> int:
    assert machine.node.cluster is not None
    hosted = machine.node.cluster.replicas.hosted.find(LOG)
    assert hosted is not None
    assert hosted.partition is not None
    return len(hosted.partition.log.damaged)


def test_a_follower_fetches_its_damaged_records_from_the_leader() -> None:
    run = begun()
    leader = newest(run).leader
    name = next(each for each in newest(run).replicas if each != leader)
    process = next(each for each in run.processes if each.name == name)
    run.kill(process, loses_power=False)
    files, path = run.disks[name].files, f"{log_directory(LOG)}/{segment_name(Offset(0))}"
    before = files.durable_content(path)
    run.checks.rotten = name
    files.flip_bit(path, BYTE, 3)
    assert files.durable_content(path) != before
    # It reads its log, for its producers, when it begins anew.
    process.begin()
    run.advance(5 * SECOND)

    assert files.durable_content(path)[: len(before)] == before
    assert damaged(machine_of(run, name)) == 0
    assert newest(run).leader == leader
    run.end_publishing()
    run.check_end()


def test_a_damaged_leader_lets_another_copy_lead_and_is_repaired_from_it() -> None:
    run = begun()
    leader = machine_of(run, newest(run).leader)
    event = Damaged(
        log=LOG, segment=Offset(0), position=BYTE, first=ROTTEN, below=Offset(3), reason="checksum"
    )
    leader.take(event)  # type: ignore[arg-type]  # of the disk
    assert damaged(leader) == 1
    run.advance(5 * SECOND)

    assert newest(run).leader not in {None, leader.process.name}
    assert damaged(leader) == 0
    run.end_publishing()
    run.check_end()


def test_damage_that_every_copy_has_moves_the_leadership_once_for_each() -> None:
    run = begun()
    epoch = newest(run).epoch
    for machine in run.machines:
        event = Damaged(
            log=LOG, segment=Offset(0), position=0, first=Offset(0), below=Offset(3), reason="sum"
        )
        machine.take(event)  # type: ignore[arg-type]  # of the disk
    for machine in run.machines:
        # Nobody has anything to send.
        assert damaged(machine) == 1
    run.advance(10 * SECOND)
    led = {key for key in run.checks.epochs_of(PartitionId(1, 0)) if key >= epoch}
    assert len(led) <= 1 + len(run.machines)
    assert newest(run).leader is not None
