"""Faults planted into the metadata quorum of real nodes, one at a time.

Faults of the election alone are in `planted_in_elections`; those of its waits and of joint voters,
and Raft's figure 8, which chance hardly meets, are scripts in tests/unit.
"""

from typing import Any

import msgspec
import pytest

from goqueue.cluster import (
    BallotPersisted,
    FormCluster,
    Voters,
    VotersChanged,
    WaitForPeers,
)
from goqueue.model import Offset
from tests.simulation.planted_patches import Plant, attribute

__all__ = ["PLANTED_IN_QUORUM"]

_METADATA = "goqueue.broker.cluster.quorum_metadata.QuorumMetadata"
_FOLLOWER = "goqueue.broker.cluster.log_follower.LogFollower"
_LEADER = "goqueue.broker.cluster.log_leader.LogLeader"
_CONTROLLER = "goqueue.broker.cluster.controller.Controller"
_AUDIT = "goqueue.broker.audit.AuditTrail"


def votes_before_the_ballot_is_synced(patch: pytest.MonkeyPatch) -> None:
    persist = attribute(f"{_METADATA}._persist")

    def hasty(metadata: Any, serial: int, ballot: Any, now: Any) -> None:
        persist(metadata, serial, ballot, now)
        if ballot.vote is not None:
            metadata._handle(BallotPersisted(serial), now)

    patch.setattr(f"{_METADATA}._persist", hasty)


def tells_a_term_before_it_is_synced(patch: pytest.MonkeyPatch) -> None:
    persist = attribute(f"{_METADATA}._persist")

    def hasty(metadata: Any, serial: int, ballot: Any, now: Any) -> None:
        persist(metadata, serial, ballot, now)
        if ballot.vote is None:
            metadata._handle(BallotPersisted(serial), now)

    patch.setattr(f"{_METADATA}._persist", hasty)


def keeps_its_identity_when_its_disk_is_wiped(patch: pytest.MonkeyPatch) -> None:
    wipe = attribute("goqueue.sim.cluster.processes.ClusterProcess.wipe")

    def same(process: Any) -> None:
        directory = process.directory
        wipe(process)
        process.directory = directory

    patch.setattr("goqueue.sim.cluster.processes.ClusterProcess.wipe", same)


def counts_a_majority_of_an_older_term(patch: pytest.MonkeyPatch) -> None:
    lead = attribute(f"{_METADATA}._lead")

    def hasty(metadata: Any, term: int, now: Any) -> None:
        lead(metadata, term, now)
        metadata.epoch_first = Offset(0)

    patch.setattr(f"{_METADATA}._lead", hasty)


def applies_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    apply = attribute(f"{_METADATA}._apply")

    def hasty(metadata: Any) -> None:
        while metadata._records and not metadata._is_reset:
            record = metadata._records.popleft()
            metadata._image.apply(record.changes, record.version)
            metadata._applied.append(record)
        apply(metadata)

    patch.setattr(f"{_METADATA}._apply", hasty)


def decides_before_a_record_of_its_own_term_is_committed(patch: pytest.MonkeyPatch) -> None:
    def hasty(metadata: Any) -> bool:
        return metadata._leader is not None

    patch.setattr(f"{_METADATA}.is_controller", property(hasty))


def states_half_of_the_image(patch: pytest.MonkeyPatch) -> None:
    propose = attribute(f"{_METADATA}.propose")

    def halved(metadata: Any, changes: Any, answers: Any, now: Any) -> None:
        halves = [
            msgspec.structs.replace(each, brokers=each.brokers[:-1])
            if type(each).__name__ == "ImageStated"
            else each
            for each in changes
        ]
        propose(metadata, halves, answers, now)

    patch.setattr(f"{_METADATA}.propose", halved)


def drops_the_log_before_its_image_is_committed(patch: pytest.MonkeyPatch) -> None:
    propose = attribute(f"{_METADATA}.propose")

    def hasty(metadata: Any, changes: Any, answers: Any, now: Any) -> None:
        propose(metadata, changes, answers, now)
        proposal = metadata._proposal
        if proposal is not None and proposal.states_from is not None:
            metadata._state.outbox.extend(metadata._log.delete_before(proposal.states_from))

    patch.setattr(f"{_METADATA}.propose", hasty)


def keeps_its_image_when_its_log_begins_anew(patch: pytest.MonkeyPatch) -> None:
    apply = attribute(f"{_METADATA}._apply")

    def keeping(metadata: Any) -> None:
        metadata._is_reset = False
        apply(metadata)

    patch.setattr(f"{_METADATA}._apply", keeping)


def confirms_a_change_whose_record_another_leader_replaced(patch: pytest.MonkeyPatch) -> None:
    step_down = attribute(f"{_METADATA}._step_down")

    def hopeful(metadata: Any, term: int) -> None:
        proposal, metadata._proposal = metadata._proposal, None
        step_down(metadata, term)
        metadata._proposal = proposal

    patch.setattr(f"{_METADATA}._step_down", hopeful)


def decides_after_losing_its_leadership(patch: pytest.MonkeyPatch) -> None:
    step_down = attribute(f"{_METADATA}._step_down")

    def stubborn(metadata: Any, term: int) -> None:
        leader = metadata._leader
        step_down(metadata, term)
        metadata._leader = leader

    patch.setattr(f"{_METADATA}._step_down", stubborn)


def acknowledges_what_is_only_written(patch: pytest.MonkeyPatch) -> None:
    send = attribute(f"{_FOLLOWER}._send")

    def hasty(follower: Any, message: Any) -> None:
        if type(message).__name__ == "ReplicaAck" and message.is_agreed:
            message = msgspec.structs.replace(message, durable=follower._log.end)
        send(follower, message)

    patch.setattr(f"{_FOLLOWER}._send", hasty)


def acknowledges_before_it_agrees(patch: pytest.MonkeyPatch) -> None:
    begin = attribute(f"{_FOLLOWER}.__init__")

    def agreeable(follower: Any, *args: Any, **how: Any) -> None:
        begin(follower, *args, **how)
        follower._agrees = True

    patch.setattr(f"{_FOLLOWER}.__init__", agreeable)


def takes_records_behind_another_epoch(patch: pytest.MonkeyPatch) -> None:
    append = attribute(f"{_FOLLOWER}.append")

    def careless(follower: Any, message: Any, data: Any, now: Any) -> Any:
        same = msgspec.structs.replace(message, before=follower._log.last_epoch)
        return append(follower, same, data, now)

    agree = attribute(f"{_LEADER}.subscribe")

    def trusting(leader: Any, who: Any, asked: Any, lineage: str, now: Any) -> None:
        end = min(asked.end, leader._log.end)
        if end > leader._log.start and asked.end <= leader._log.end:
            last = leader._log.epochs.epoch_at(Offset(end - 1))
            asked = msgspec.structs.replace(asked, last=last)
        agree(leader, who, asked, lineage, now)

    patch.setattr(f"{_FOLLOWER}.append", careless)
    patch.setattr(f"{_LEADER}.subscribe", trusting)


def lets_a_wiped_broker_take_over_its_id(patch: pytest.MonkeyPatch) -> None:
    check = attribute(f"{_CONTROLLER}._check")

    def trusting(controller: Any, wanted: Any) -> Any:
        refusal = check(controller, wanted)
        return None if refusal and "another data directory" in refusal else refusal

    patch.setattr(f"{_CONTROLLER}._check", trusting)


def changes_voters_before_a_record_of_its_own_term(patch: pytest.MonkeyPatch) -> None:
    decide = attribute(f"{_CONTROLLER}.decide")

    def hasty(controller: Any, now: Any) -> None:
        metadata = controller._metadata
        voters = metadata.image.voters
        is_first = metadata.election.voters == voters
        if metadata.epoch_leader is not None and not metadata.is_controller and is_first:
            # What was committed when it was elected may not be the last that was written.
            old = () if voters.is_joint else voters.new
            metadata._append([VotersChanged(new=voters.new, old=old)], now)
        decide(controller, now)

    patch.setattr(f"{_CONTROLLER}.decide", hasty)


def commits_by_the_new_voters_alone(patch: pytest.MonkeyPatch) -> None:
    def simple(voters: Any, ends: Any) -> Offset:
        held = sorted((ends.get(voter, Offset(0)) for voter in voters.new), reverse=True)
        return held[len(held) // 2] if held else Offset(0)

    patch.setattr("goqueue.cluster.voters.Voters.majority_end", simple)


def answers_changes_before_they_are_committed(patch: pytest.MonkeyPatch) -> None:
    propose = attribute(f"{_METADATA}.propose")

    def hasty(metadata: Any, changes: Any, answers: Any, now: Any) -> None:
        metadata._state.outbox.extend(answers)
        propose(metadata, changes, (), now)

    patch.setattr(f"{_METADATA}.propose", hasty)


def forms_a_cluster_of_whom_it_reached(patch: pytest.MonkeyPatch) -> None:
    decide = attribute("goqueue.cluster.bootstrap.Bootstrap.decide")

    def hasty(bootstrap: Any, now: Any) -> Any:
        found = decide(bootstrap, now)
        met = [each.voter for each in bootstrap._met.values()]
        if isinstance(found, WaitForPeers) and met and not bootstrap._is_attempted():
            return FormCluster(voters=Voters(tuple(sorted([bootstrap._me, *met]))))
        return found

    patch.setattr("goqueue.cluster.bootstrap.Bootstrap.decide", hasty)


def writes_audit_records_again_after_a_start(patch: pytest.MonkeyPatch) -> None:
    begin = attribute(f"{_AUDIT}.begin")

    def forgetful(audit: Any, now: Any) -> None:
        begin(audit, now)
        audit._followed = type(audit._followed)(0, 0)

    patch.setattr(f"{_AUDIT}.begin", forgetful)


def takes_what_it_followed_for_what_its_audit_log_has(patch: pytest.MonkeyPatch) -> None:
    """As if the journal noted at once how far it is, and not what was written."""
    follow, begin = attribute(f"{_AUDIT}.follow"), attribute(f"{_AUDIT}.begin")
    places: dict[str, Any] = {}

    def hasty(audit: Any, *followed: Any) -> None:
        follow(audit, *followed)
        places[audit._node_id] = audit._followed

    def begun(audit: Any, now: Any) -> None:
        begin(audit, now)
        audit._followed = max(places.get(audit._node_id, audit._followed), audit._followed)

    patch.setattr(f"{_AUDIT}.follow", hasty)
    patch.setattr(f"{_AUDIT}.begin", begun)


PLANTED_IN_QUORUM: tuple[Plant, ...] = (
    votes_before_the_ballot_is_synced,
    tells_a_term_before_it_is_synced,
    keeps_its_identity_when_its_disk_is_wiped,
    counts_a_majority_of_an_older_term,
    applies_before_the_commit,
    decides_before_a_record_of_its_own_term_is_committed,
    states_half_of_the_image,
    drops_the_log_before_its_image_is_committed,
    keeps_its_image_when_its_log_begins_anew,
    confirms_a_change_whose_record_another_leader_replaced,
    decides_after_losing_its_leadership,
    acknowledges_what_is_only_written,
    acknowledges_before_it_agrees,
    takes_records_behind_another_epoch,
    lets_a_wiped_broker_take_over_its_id,
    changes_voters_before_a_record_of_its_own_term,
    commits_by_the_new_voters_alone,
    answers_changes_before_they_are_committed,
    forms_a_cluster_of_whom_it_reached,
    writes_audit_records_again_after_a_start,
    takes_what_it_followed_for_what_its_audit_log_has,
)
