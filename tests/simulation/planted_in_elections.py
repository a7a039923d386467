"""Faults planted into the elections, one at a time, to see that the world finds them.

A candidate whose log became shorter has a test of its own in tests/unit/cluster/test_quorum.py: no
disk of this world is ever full.
"""

from collections.abc import Callable
from typing import Any

import pytest

from goqueue.cluster import Ballot, FollowerHeard, Quorum, Role, Voter, Voters
from goqueue.model import Instant
from tests.simulation.election_world import Disk, ElectionWorld

__all__ = ["PLANTED", "Plant"]

Plant = Callable[[pytest.MonkeyPatch], None]


def sends_before_the_ballot_is_durable(patch: pytest.MonkeyPatch) -> None:
    def hasty(quorum: Any, effect: Any) -> None:
        quorum._effects.append(effect)

    patch.setattr(Quorum, "_emit", hasty)


def never_persists_a_raised_term(patch: pytest.MonkeyPatch) -> None:
    persist = Quorum._persist

    def forgetful(quorum: Any, ballot: Ballot) -> None:
        if ballot.vote is None:
            quorum._ballot = ballot
        else:
            persist(quorum, ballot)

    patch.setattr(Quorum, "_persist", forgetful)


def never_persists_a_vote_for_another(patch: pytest.MonkeyPatch) -> None:
    persist = Quorum._persist

    def forgetful(quorum: Any, ballot: Ballot) -> None:
        if ballot.vote not in {None, quorum._me}:
            quorum._ballot = ballot
        else:
            persist(quorum, ballot)

    patch.setattr(Quorum, "_persist", forgetful)


def counts_its_own_vote_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    stand = Quorum._stand

    def hasty(quorum: Any, now: Any, jitter: Any, **how: Any) -> None:
        stand(quorum, now, jitter, **how)
        quorum._granted[quorum._me] = None
        quorum._durable_serial = quorum._serial
        while quorum._held:
            quorum._effects.append(quorum._held.popleft()[1])

    patch.setattr(Quorum, "_stand", hasty)


def votes_again_in_the_same_term(patch: pytest.MonkeyPatch) -> None:
    reply = Quorum._reply_to_request

    def generous(quorum: Any, sender: Any, request: Any, now: Any, jitter: Any) -> None:
        if not request.is_pre_vote and request.term == quorum.term:
            quorum._ballot = Ballot(quorum.term)
        reply(quorum, sender, request, now, jitter)

    patch.setattr(Quorum, "_reply_to_request", generous)


def votes_for_a_shorter_log(patch: pytest.MonkeyPatch) -> None:
    def silent(_quorum: Any, _log: Any) -> None:
        """The end of the log stays where it was at the start."""

    patch.setattr(Quorum, "end_log", silent)


def votes_again_after_its_disk_was_wiped(patch: pytest.MonkeyPatch) -> None:
    def same(world: Any, name: str) -> None:
        world._wiped += 1
        world.disks[name] = Disk(f"{name}-0")

    patch.setattr(ElectionWorld, "wipe", same)


def leads_without_being_confirmed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Quorum, "_unconfirmed_from", lambda _quorum: Instant(1 << 61))


def keeps_leading_while_it_hands_over(patch: pytest.MonkeyPatch) -> None:
    end = Quorum._end_leadership

    def greedy(quorum: Any, to: Any, now: Any, jitter: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Quorum, "_become_follower", lambda *_args: None)
            end(quorum, to, now, jitter)

    patch.setattr(Quorum, "_end_leadership", greedy)


def counts_pre_votes_as_votes(patch: pytest.MonkeyPatch) -> None:
    count = Quorum._count_reply

    def careless(quorum: Any, sender: Voter, reply: Any, now: Any, jitter: Any) -> None:
        if reply.is_granted and quorum.role == "candidate":
            quorum._granted[sender] = None
            quorum._count_majority(now, jitter)
            return
        count(quorum, sender, reply, now, jitter)

    patch.setattr(Quorum, "_count_reply", careless)


def elects_at_once_after_a_start(patch: pytest.MonkeyPatch) -> None:
    begin = Quorum.__init__

    def hasty(quorum: Any, *args: Any, **how: Any) -> None:
        begin(quorum, *args, **how)
        quorum._loyal_until = how["now"]

    patch.setattr(Quorum, "__init__", hasty)


def elects_another_while_it_hears_a_leader(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Quorum, "_is_loyal", lambda quorum, _now: quorum.role is Role.LEADER)


def counts_confirmations_from_their_arrival(patch: pytest.MonkeyPatch) -> None:
    learn = Quorum._learn

    def late(quorum: Any, event: Any, now: Any, jitter: Any) -> None:
        if isinstance(event, FollowerHeard):
            event = FollowerHeard(event.voter, event.term, now)
        learn(quorum, event, now, jitter)

    patch.setattr(Quorum, "_learn", late)


def counts_only_the_new_voters_while_they_change(patch: pytest.MonkeyPatch) -> None:
    def simple(voters: Voters, members: Any) -> bool:
        return sum(voter in members for voter in voters.new) > len(voters.new) // 2

    patch.setattr(Voters, "is_majority", simple)


PLANTED: tuple[Plant, ...] = (
    sends_before_the_ballot_is_durable,
    never_persists_a_raised_term,
    never_persists_a_vote_for_another,
    counts_its_own_vote_before_the_sync,
    votes_again_in_the_same_term,
    votes_for_a_shorter_log,
    votes_again_after_its_disk_was_wiped,
    leads_without_being_confirmed,
    keeps_leading_while_it_hands_over,
    counts_pre_votes_as_votes,
    elects_at_once_after_a_start,
    elects_another_while_it_hears_a_leader,
    counts_confirmations_from_their_arrival,
    counts_only_the_new_voters_while_they_change,
)
