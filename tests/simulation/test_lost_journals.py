"""The files of a node's own journals vanish while it is down: damage, never taken for "empty"."""

from goqueue.model import SECOND, LogId, Offset
from goqueue.model.requests import CommitOffsets, DescribeOffsets, Offsets
from goqueue.sim.cluster import BrokerMachine
from goqueue.storage import log_directory
from tests.simulation.test_groups import GROUP, CalmCluster

OFFSETS = LogId("__consumer_offsets", 0)
METADATA = LogId("__metadata", 0)


def remove_files(cluster: CalmCluster, machine: BrokerMachine, log: LogId) -> None:
    """The node ends, and its copy of a log is gone when it starts again."""
    cluster.run.kill(machine.process, loses_power=True)
    cluster.run.advance(6 * SECOND)
    machine.disk.files.lose_power()
    directory = f"{log_directory(log)}/"
    gone = [path for path in machine.disk.files.paths() if path.startswith(directory)]
    assert gone, "the log had files"
    for path in gone:
        machine.disk.files.delete(path)
    cluster.run.checks.loses_copies = True


def isr_of(cluster: CalmCluster, log: LogId) -> tuple[str, ...]:
    """The copies in sync, as the broker with the newest image knows them."""
    members = [each.node.cluster for each in cluster.run.machines]
    images = [each.metadata.image for each in members if each and each.metadata]
    image = max(images, key=lambda each: each.version)
    topic = image.topic(log.topic)
    assert topic is not None
    state = image.partition(topic.number, log.partition)
    assert state is not None
    return state.isr


def test_a_coordinator_whose_log_vanished_is_filled_before_it_coordinates_again() -> None:
    cluster = CalmCluster()
    member = cluster.join()
    log = member.assigned[0]
    commit = CommitOffsets(
        group=GROUP,
        offsets={log: Offset(3)},
        member_id=member.member_id,
        generation=member.generation,
    )
    cluster.ask(commit, Offsets)
    lost = cluster.coordinator

    remove_files(cluster, lost, OFFSETS)
    lost.process.begin()
    cluster.run.advance(10 * SECOND)

    assert len(isr_of(cluster, OFFSETS)) == 3, "it is filled again"
    for _ in range(2):
        # Each of the others goes, so that the one that lost its log coordinates.
        gone = cluster.coordinator
        if gone.process is not lost.process:
            cluster.run.kill(gone.process, loses_power=True)
            cluster.run.advance(8 * SECOND)
            gone.process.begin()
            cluster.run.advance(8 * SECOND)
        assert cluster.ask(DescribeOffsets(group=GROUP), Offsets).offsets[log] == 3


def test_a_voter_whose_metadata_log_vanished_ends_instead_of_voting_with_an_empty_one() -> None:
    cluster = CalmCluster()
    voter = cluster.run.machines[0]

    remove_files(cluster, voter, METADATA)
    cluster.run.checks.failing = voter.process.name
    voter.process.begin()
    ended = voter.process.machine
    cluster.run.advance(5 * SECOND)

    assert isinstance(ended, BrokerMachine)
    assert "the log __metadata is gone" in (ended.halted or "")
    assert not voter.process.is_running
    assert len(cluster.run.machines) == 2
