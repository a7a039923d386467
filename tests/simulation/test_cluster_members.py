"""Three nodes and an operator: what commands say, who is registered, what a wiped disk may do."""

import msgspec

from goqueue.broker import Node
from goqueue.cluster import TERM_JUMP_MAX, BrokerState
from goqueue.model import MILLISECOND, SECOND, Code, Refused
from goqueue.model.requests import (
    AskVote,
    CheckClusterHealth,
    ClusterDescription,
    ClusterHealth,
    ClusterJoined,
    Command,
    CreateTopic,
    DescribeCluster,
    Done,
    ForgetBroker,
    HearNode,
    JoinCluster,
    LeaveCluster,
    NodeHeard,
    Reply,
    TopicConfig,
    VoteGiven,
)
from goqueue.sim import Trace
from goqueue.sim.cluster import BrokerMachine, QuorumRun, QuorumSwarm

_CALM = QuorumSwarm(
    brokers=3,
    kills=False,
    power_losses=False,
    blackouts=False,
    wipes=True,
    stops=False,
    pauses=False,
    cuts=False,
    resets=False,
    jumps=False,
    slow_links=False,
    slow_disks=False,
    short_logs=False,
)


def formed() -> QuorumRun:
    run = QuorumRun(3, Trace(), swarm=_CALM)
    run.begin()
    run.advance(8 * SECOND)
    return run


def asked(machine: BrokerMachine, command: Command, run: QuorumRun) -> Reply | Refused:
    request = machine.ask(command)
    run.advance(SECOND)
    return machine.replies[request]


def is_registered(machine: BrokerMachine) -> bool:
    member = machine.node.cluster
    return member is not None and member.registered is not None


def described(run: QuorumRun, machine: BrokerMachine) -> ClusterDescription:
    reply = asked(machine, DescribeCluster(), run)
    assert isinstance(reply, ClusterDescription)
    return reply


def controller_of(run: QuorumRun) -> BrokerMachine:
    (found,) = [
        machine
        for machine in run.machines
        if machine.node.cluster is not None
        and machine.node.cluster.metadata is not None
        and machine.node.cluster.metadata.is_controller
    ]
    return found


def test_three_nodes_describe_the_same_cluster() -> None:
    run = formed()

    replies = [described(run, machine) for machine in run.machines]

    assert len({reply.cluster_id for reply in replies}) == 1
    assert len({reply.controller_id for reply in replies}) == 1
    for reply in replies:
        assert [node.status for node in reply.nodes] == ["alive"] * 3
        assert [node.is_voter for node in reply.nodes] == [True] * 3
        assert sum(node.is_controller for node in reply.nodes) == 1


def test_three_blank_nodes_form_a_cluster_within_three_seconds_of_the_last_start() -> None:
    run = QuorumRun(5, Trace(), swarm=_CALM)
    for process in run.processes:
        process.begin()
    run.advance(3 * SECOND)

    assert [is_registered(machine) for machine in run.machines] == [True] * 3


def test_a_silent_node_is_fenced_then_suspect_then_dead() -> None:
    run = formed()
    controller = controller_of(run)
    silent = next(each for each in run.processes if each.machine is not controller)
    run.kill(silent, loses_power=True)
    statuses: dict[int, str] = {}
    for second in range(11):
        nodes = described(run, controller).nodes
        statuses[second] = next(node.status for node in nodes if node.id == silent.name)

    assert (statuses[3], statuses[7], statuses[10]) == ("alive", "suspect", "dead")
    health = asked(controller, CheckClusterHealth(), run)
    assert isinstance(health, ClusterHealth)
    assert (health.status, health.healthy, health.unhealthy) == ("degraded", 2, 1)


def test_another_node_decides_soon_after_the_loss_of_the_controller() -> None:
    run = formed()
    lost = controller_of(run)
    run.kill(lost.process, loses_power=True)
    run.advance(5 * SECOND)

    assert controller_of(run) is not lost


def test_a_controller_that_stops_hands_over_within_three_tenths_of_a_second() -> None:
    run = formed()
    old = controller_of(run)

    old.stop()
    run.advance(300 * MILLISECOND)

    assert controller_of(run) is not old


def test_a_change_that_waits_for_a_controller_is_passed_on_when_there_is_one() -> None:
    """Who leads the metadata log is news, although the metadata are the same as before."""
    run = formed()
    lost = controller_of(run)
    run.kill(lost.process, loses_power=False)
    first, second = run.machines
    config = TopicConfig(replication_factor=1, min_insync_replicas=1)
    while first.node.cluster is None or _leader(first) == lost.process.name:
        run.advance(MILLISECOND)
    request = first.ask(CreateTopic(name="t", partitions=1, config=config))
    run.advance(1900 * MILLISECOND)

    reply = first.replies.get(request)

    assert not isinstance(reply, Refused)
    assert reply is not None
    assert {_leader(first), _leader(second)} <= {first.process.name, second.process.name}


def _leader(machine: BrokerMachine) -> str | None:
    member = machine.node.cluster
    assert member is not None
    assert member.metadata is not None
    leader = member.metadata.election.leader
    return None if leader is None else leader.broker


def test_a_wiped_node_is_refused_until_an_operator_forgets_the_old_one() -> None:
    run = formed()
    wiped = next(each for each in run.processes if each.machine is not controller_of(run))
    run.kill(wiped, loses_power=False)
    run.wipe(wiped)
    wiped.begin()
    run.advance(6 * SECOND)
    machine = wiped.machine
    assert isinstance(machine, BrokerMachine)
    member = machine.node.cluster
    assert member is not None
    assert not is_registered(machine)
    assert "another data directory" in (member.problem or "")

    assert asked(controller_of(run), ForgetBroker(node=wiped.name), run) == Done()
    run.advance(3 * SECOND)

    assert is_registered(machine)
    voters = {node.id: node.is_voter for node in described(run, machine).nodes}
    assert voters == dict.fromkeys(voters, True), "it holds the log, so it votes again"


def test_a_node_that_is_alive_is_not_forgotten() -> None:
    run = formed()
    controller = controller_of(run)

    refusal = asked(controller, ForgetBroker(node=controller.process.name), run)

    assert isinstance(refusal, Refused)
    assert refusal.code is Code.NODE_ALIVE


def test_a_node_that_starts_on_a_full_disk_joins_when_there_is_space() -> None:
    run = formed()
    process = next(each for each in run.processes if each.machine is not controller_of(run))
    run.kill(process, loses_power=False)
    faults = run.disks[process.name].faults
    faults.fill(0)
    process.begin()
    run.advance(5 * SECOND)
    machine = process.machine
    assert isinstance(machine, BrokerMachine)
    assert machine.node.cluster is not None
    assert machine.node.cluster.metadata is None, "nobody heard of a run without a number"

    faults.free()
    run.advance(5 * SECOND)

    assert is_registered(machine)


def test_any_node_passes_changes_of_nodes_to_the_controller() -> None:
    run = formed()
    controller = controller_of(run)
    other = next(each for each in run.machines if each is not controller)

    assert asked(other, LeaveCluster(node=other.process.name), run) == Done()

    nodes = {node.id: node.status for node in described(run, controller).nodes}
    assert nodes[other.process.name] == "leaving"


def test_a_member_exports_its_cluster_and_a_standalone_node_none() -> None:
    run = formed()
    controller = controller_of(run)

    samples = {
        (family.name, sample[0]): sample[1]
        for family in controller.node.metrics()
        if family.name.startswith("goqueue_cluster_")
        for sample in family.samples
        if sample is not None
    }

    assert samples["goqueue_cluster_nodes_total", ()] == 3
    assert samples["goqueue_cluster_nodes_healthy", ()] == 3
    assert samples["goqueue_cluster_is_controller", ()] == 1
    assert samples["goqueue_cluster_controller_elections_total", ()] == 1
    alone = Node("alone", b"secret")
    assert not [each for each in alone.metrics() if each.name.startswith("goqueue_cluster_")]


def test_a_caller_of_an_older_epoch_or_another_cluster_is_refused() -> None:
    run = formed()
    machine = controller_of(run)
    name, epoch = machine.process.name, described(run, machine).controller_epoch
    vote = AskVote(
        candidate=name, epoch=epoch - 1, last_log_epoch=9, last_log_index=99, is_pre_vote=False
    )
    for command in (
        HearNode(node=name, epoch=epoch - 1),
        JoinCluster(node=name, cluster_id=described(run, machine).cluster_id, epoch=epoch - 1),
        vote,
    ):
        refusal = asked(machine, command, run)
        assert isinstance(refusal, Refused)
        assert (refusal.code, refusal.facts["epoch"]) == (Code.EPOCH_STALE, epoch)

    refusal = asked(machine, HearNode(node=name, cluster_id="another", epoch=epoch), run)
    assert isinstance(refusal, Refused)
    assert refusal.code is Code.REQUEST_INVALID
    refusal = asked(machine, HearNode(node="nobody", epoch=epoch), run)
    assert isinstance(refusal, Refused)
    assert refusal.code is Code.NODE_NOT_FOUND


def test_an_epoch_that_a_caller_knows_is_durable_before_it_is_answered() -> None:
    run = formed()
    machine = controller_of(run)
    name, epoch = machine.process.name, described(run, machine).controller_epoch + 4

    request = machine.ask(HearNode(node=name, epoch=epoch))
    assert request not in machine.replies, "it is not durable yet"
    run.advance(SECOND)

    reply = machine.replies[request]
    assert isinstance(reply, NodeHeard)
    assert reply.epoch == epoch
    run.advance(5 * SECOND)
    assert described(run, controller_of(run)).controller_epoch > epoch


def test_a_vote_is_given_over_http_by_the_rules_of_the_election() -> None:
    run = formed()
    controller = controller_of(run)
    voter, candidate = (each for each in run.machines if each is not controller)
    epoch = described(run, controller).controller_epoch + 1

    def vote(last_log_index: int, *, is_pre_vote: bool) -> bool:
        command = AskVote(
            candidate=candidate.process.name,
            epoch=epoch,
            last_log_epoch=epoch - 1,
            last_log_index=last_log_index,
            is_pre_vote=is_pre_vote,
        )
        reply = asked(voter, command, run)
        assert isinstance(reply, VoteGiven)
        return reply.is_granted

    assert not vote(1000, is_pre_vote=True), "it hears its leader"
    run.kill(controller.process, loses_power=True)
    run.network.cut(candidate.process.address, voter.process.address)
    run.network.cut(voter.process.address, candidate.process.address)
    run.advance(4 * SECOND)
    assert not vote(1, is_pre_vote=True), "its log is behind"
    assert vote(1000, is_pre_vote=True)
    assert vote(1000, is_pre_vote=False)
    assert not vote(1, is_pre_vote=False), "its log is behind, whoever has the vote"


def test_a_join_that_knows_a_higher_epoch_has_it_stored_and_is_sent_to_the_next_controller() -> (
    None
):
    run = formed()
    machine = controller_of(run)
    epoch = described(run, machine).controller_epoch + 50

    request = machine.ask(JoinCluster(node="broker-9", epoch=epoch))
    assert request not in machine.replies, "it is not durable yet"
    run.advance(SECOND)

    refusal = machine.replies[request]
    assert isinstance(refusal, Refused)
    assert refusal.code is Code.NOT_CONTROLLER
    run.advance(5 * SECOND)
    assert described(run, machine).controller_epoch > epoch


def test_a_node_with_another_address_than_it_registered_has_to_register_again() -> None:
    run = formed()
    machine = controller_of(run)
    name = machine.process.name

    for address, is_registered_so in ((machine.process.address, True), ("elsewhere:7000", False)):
        reply = asked(machine, JoinCluster(node=name, address=address), run)
        assert isinstance(reply, ClusterJoined)
        assert reply.is_registered is is_registered_so


def test_an_epoch_that_no_cluster_reaches_is_refused() -> None:
    run = formed()
    machine = controller_of(run)
    name, epoch = machine.process.name, described(run, machine).controller_epoch
    vote = AskVote(
        candidate=name,
        epoch=epoch + TERM_JUMP_MAX + 1,
        last_log_epoch=9,
        last_log_index=99,
        is_pre_vote=False,
    )
    for command in (
        HearNode(node=name, epoch=epoch + TERM_JUMP_MAX + 1),
        JoinCluster(node=name, epoch=epoch + TERM_JUMP_MAX + 1),
        vote,
    ):
        refusal = asked(machine, command, run)
        assert isinstance(refusal, Refused)
        assert refusal.code is Code.REQUEST_INVALID
    assert described(run, machine).controller_epoch == epoch


def test_two_callers_that_ask_for_the_same_vote_are_both_answered() -> None:
    run = formed()
    controller = controller_of(run)
    voter, candidate = (each for each in run.machines if each is not controller)
    run.kill(controller.process, loses_power=True)
    run.network.cut(candidate.process.address, voter.process.address)
    run.network.cut(voter.process.address, candidate.process.address)
    run.advance(4 * SECOND)
    vote = AskVote(
        candidate=candidate.process.name,
        epoch=described(run, voter).controller_epoch + 1,
        last_log_epoch=1000,
        last_log_index=1000,
        is_pre_vote=False,
    )

    requests = [voter.ask(vote), voter.ask(vote)]
    run.advance(SECOND)

    replies = [voter.replies[request] for request in requests]
    assert [isinstance(each, VoteGiven) and each.is_granted for each in replies] == [True, True]


def test_a_node_that_stops_is_leaving_before_it_is_silent() -> None:
    run = formed()
    controller = controller_of(run)
    stopped = next(each for each in run.machines if each is not controller)

    stopped.stop()
    run.advance(50 * MILLISECOND)
    request = controller.ask(DescribeCluster())

    reply = controller.replies[request]
    assert isinstance(reply, ClusterDescription)
    statuses = {node.id: node.status for node in reply.nodes}
    assert statuses[stopped.process.name] == "leaving"


def test_a_controller_that_stood_still_accuses_nobody_of_its_own_silence() -> None:
    run = formed()
    controller = controller_of(run)
    silent = next(each for each in run.processes if each.machine is not controller)
    run.kill(silent, loses_power=True)
    run.advance(2200 * MILLISECOND)

    controller.process.pause()
    run.advance(SECOND)
    controller.process.resume()
    run.advance(200 * MILLISECOND)

    def state_of_silent() -> BrokerState:
        member = controller.node.cluster
        assert member is not None
        assert member.metadata is not None
        assert member.metadata.is_controller
        return member.metadata.image.brokers[silent.name].state

    assert state_of_silent() is BrokerState.ACTIVE
    run.advance(4 * SECOND)
    assert state_of_silent() is BrokerState.FENCED


def test_nine_nodes_form_a_cluster_in_which_five_vote() -> None:
    run = QuorumRun(5, Trace(), swarm=msgspec.structs.replace(_CALM, brokers=9))
    for process in run.processes:
        process.begin()
    run.advance(8 * SECOND)

    assert [is_registered(machine) for machine in run.machines] == [True] * 9
    nodes = described(run, run.machines[8]).nodes
    assert sum(node.is_voter for node in nodes) == 5
