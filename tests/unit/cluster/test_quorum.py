"""The machine of one voter, event by event. Times are in milliseconds, jitters in halves."""

from goqueue.cluster import (
    TERM_JUMP_MAX,
    Ballot,
    BallotPersisted,
    BecomeLeader,
    ElectionTimes,
    FollowerHeard,
    FollowLeader,
    LeaderGone,
    LeaderHeard,
    LeadershipEnded,
    LeadershipOffered,
    OfferLeadership,
    PersistBallot,
    Quorum,
    QuorumEffect,
    QuorumEvent,
    Role,
    SendVoteReply,
    SendVoteRequest,
    StepDown,
    TermHeard,
    TimerFired,
    Voter,
    VoteReplied,
    VoteRequested,
    Voters,
    VotersWritten,
)
from goqueue.model import MILLISECOND, Instant, LogEnd, VoteReply, VoteRequest

A, B, C = (Voter(name, f"{name}-disk") for name in "abc")
THREE = Voters((A, B, C))
TIMING = ElectionTimes(election_ns=1000 * MILLISECOND, jitter_ns=1000 * MILLISECOND)


NOTHING = LogEnd()
NO_BALLOT = Ballot()


class _Voter:
    """Broker A, with a clock that the test moves and a disk that syncs when it is told."""

    def __init__(
        self, *, voters: Voters = THREE, ballot: Ballot = NO_BALLOT, log: LogEnd = NOTHING
    ) -> None:
        self.now = Instant(0)
        self.quorum = Quorum(
            A, ballot=ballot, log=log, voters=voters, timing=TIMING, now=self.now, jitter=0.5
        )
        self._serial = 0

    def at(self, milliseconds: int) -> "_Voter":
        self.now = Instant(milliseconds * MILLISECOND)
        return self

    def hear(self, event: QuorumEvent) -> list[QuorumEffect]:
        effects = self.quorum.handle(event, self.now, 0.5)
        for effect in effects:
            if isinstance(effect, PersistBallot):
                self._serial = effect.serial
        return effects

    def sync(self) -> list[QuorumEffect]:
        return self.hear(BallotPersisted(self._serial))

    def elect(self) -> None:
        """Become the leader of the next term, by the vote of B."""
        self.now = max(self.now, self.quorum.next_deadline())
        self.hear(TimerFired())
        term = self.quorum.term + 1
        self.hear(VoteReplied(B, _granted(term, is_pre_vote=True)))
        self.sync()
        self.hear(VoteReplied(B, _granted(term)))
        assert self.quorum.role is Role.LEADER


def _granted(term: int, *, is_pre_vote: bool = False) -> VoteReply:
    return VoteReply(
        asked=term,
        term=term - 1 if is_pre_vote else term,
        is_granted=True,
        is_pre_vote=is_pre_vote,
    )


def _wants(
    term: int,
    *,
    sender: Voter = B,
    log: LogEnd = NOTHING,
    is_pre_vote: bool = False,
    is_transfer: bool = False,
) -> VoteRequested:
    request = VoteRequest(term=term, log=log, is_pre_vote=is_pre_vote, is_transfer=is_transfer)
    return VoteRequested(sender, request)


def _is_granted(effects: list[QuorumEffect]) -> bool:
    (reply,) = (each.reply for each in effects if isinstance(each, SendVoteReply))
    return reply.is_granted


def test_a_voter_that_hears_no_leader_asks_for_pre_votes_and_keeps_its_term() -> None:
    voter = _Voter()
    effects = voter.at(1500).hear(TimerFired())
    request = VoteRequest(term=1, log=LogEnd(), is_pre_vote=True)
    assert effects == [SendVoteRequest(B, request), SendVoteRequest(C, request)]
    assert (voter.quorum.role, voter.quorum.term) == (Role.PRE_CANDIDATE, 0)


def test_a_voter_that_is_cut_off_never_raises_its_term() -> None:
    voter = _Voter()
    for _ in range(20):
        voter.now = voter.quorum.next_deadline()
        voter.hear(TimerFired())
    assert voter.quorum.term == 0


def test_a_majority_of_pre_votes_leads_to_an_election_once_the_own_vote_is_durable() -> None:
    voter = _Voter()
    voter.at(1500).hear(TimerFired())
    effects = voter.hear(VoteReplied(B, _granted(1, is_pre_vote=True)))
    assert effects == [PersistBallot(1, Ballot(1, A))]
    request = VoteRequest(term=1, log=LogEnd())
    assert voter.sync() == [SendVoteRequest(B, request), SendVoteRequest(C, request)]


def test_votes_of_a_majority_make_a_leader() -> None:
    voter = _Voter()
    voter.at(1500).hear(TimerFired())
    voter.hear(VoteReplied(B, _granted(1, is_pre_vote=True)))
    voter.sync()
    assert voter.hear(VoteReplied(C, _granted(1))) == [BecomeLeader(1)]
    assert voter.quorum.leader == A


def test_the_only_voter_elects_itself_once_its_vote_is_durable() -> None:
    voter = _Voter(voters=Voters((A,)))
    assert voter.at(1500).hear(TimerFired()) == [PersistBallot(1, Ballot(1, A))]
    assert voter.sync() == [BecomeLeader(1)]
    assert voter.at(10_000_000).hear(TermHeard(1)) == []
    assert voter.quorum.role is Role.LEADER


def test_a_broker_that_does_not_vote_never_stands() -> None:
    voter = _Voter(voters=Voters((B, C)))
    assert voter.at(5000).hear(TimerFired()) == []
    assert voter.hear(LeadershipOffered(0)) == []


def test_a_pre_vote_is_no_vote() -> None:
    voter = _Voter()
    voter.at(1500).hear(TimerFired())
    voter.hear(VoteReplied(B, _granted(1, is_pre_vote=True)))
    voter.sync()
    assert voter.hear(VoteReplied(C, _granted(1, is_pre_vote=True))) == []


def test_a_vote_of_an_earlier_attempt_does_not_count() -> None:
    voter = _Voter()
    for _ in range(2):
        voter.now = voter.quorum.next_deadline()
        voter.hear(TimerFired())
        voter.hear(VoteReplied(B, _granted(voter.quorum.term + 1, is_pre_vote=True)))
        voter.sync()
    assert voter.quorum.term == 2
    assert voter.hear(VoteReplied(B, _granted(1))) == []


def test_a_vote_is_answered_only_when_it_is_durable() -> None:
    voter = _Voter().at(1200)
    assert voter.hear(_wants(1)) == [PersistBallot(1, Ballot(1)), PersistBallot(2, Ballot(1, B))]
    assert _is_granted(voter.sync())


def test_nothing_overtakes_an_answer_that_waits_for_the_disk() -> None:
    voter = _Voter().at(1200)
    voter.hear(_wants(1))
    assert voter.hear(_wants(1, sender=C)) == []
    first, second = (each for each in voter.sync() if isinstance(each, SendVoteReply))
    assert (first.to, first.reply.is_granted) == (B, True)
    assert (second.to, second.reply.is_granted) == (C, False)


def test_a_voter_votes_once_in_a_term_and_says_so_again_if_it_is_asked_again() -> None:
    voter = _Voter(ballot=Ballot(1, B)).at(1200)
    assert not _is_granted(voter.hear(_wants(1, sender=C)))
    assert _is_granted(voter.hear(_wants(1)))


def test_a_log_that_is_behind_gets_no_vote() -> None:
    voter = _Voter(ballot=Ballot(2), log=LogEnd(2, 5)).at(1200)
    assert not _is_granted(voter.hear(_wants(3, log=LogEnd(1, 9), is_pre_vote=True)))
    assert not _is_granted(voter.hear(_wants(3, log=LogEnd(2, 4), is_pre_vote=True)))
    assert _is_granted(voter.hear(_wants(3, log=LogEnd(2, 5), is_pre_vote=True)))


def test_the_end_of_the_log_is_the_one_that_was_reported_last() -> None:
    voter = _Voter().at(1200)
    voter.quorum.end_log(LogEnd(1, 3))
    assert not _is_granted(voter.hear(_wants(2, log=LogEnd(1, 2), is_pre_vote=True)))


def test_a_voter_that_just_started_elects_nobody_for_one_timeout() -> None:
    voter = _Voter(ballot=Ballot(1))
    assert not _is_granted(voter.at(999).hear(_wants(2, is_pre_vote=True)))
    assert not _is_granted(voter.hear(_wants(2)))
    assert voter.quorum.term == 1
    assert _is_granted(voter.at(1000).hear(_wants(2, is_pre_vote=True)))


def test_a_voter_that_never_saw_a_term_promised_nobody_anything() -> None:
    assert _is_granted(_Voter().at(1).hear(_wants(1, is_pre_vote=True)))


def test_a_founder_stands_without_waiting_for_a_leader_that_cannot_be() -> None:
    voter = _Voter(voters=Voters(())).at(100)
    assert voter.hear(VotersWritten(THREE)) == []
    assert voter.quorum.next_deadline() == Instant(600 * MILLISECOND)
    asked = voter.at(600).hear(TimerFired())
    assert [type(effect) for effect in asked] == [SendVoteRequest] * 2


def test_a_voter_that_joins_a_cluster_waits_as_long_as_any_other() -> None:
    voter = _Voter(voters=Voters((B, C)), ballot=Ballot(1)).at(100)
    before = voter.quorum.next_deadline()
    voter.hear(VotersWritten(THREE))
    assert voter.quorum.next_deadline() == before


def test_a_voter_that_heard_a_leader_elects_nobody_else_for_one_timeout() -> None:
    voter = _Voter(ballot=Ballot(1)).at(1200)
    assert voter.hear(LeaderHeard(B, 1)) == [FollowLeader(B, 1)]
    assert not _is_granted(voter.at(2199).hear(_wants(2, sender=C)))
    assert voter.quorum.term == 1
    voter.at(2200).hear(_wants(2, sender=C))
    assert _is_granted(voter.sync())


def test_a_voter_whose_leader_is_gone_stands_soon_and_votes_for_others_at_once() -> None:
    voter = _Voter(ballot=Ballot(1)).at(1200)
    voter.hear(LeaderHeard(B, 1))
    voter.hear(LeaderGone(B))
    assert voter.quorum.leader is None
    assert voter.quorum.next_deadline() == 1300 * MILLISECOND
    voter.hear(_wants(2, sender=C))
    assert _is_granted(voter.sync())


def test_a_voter_whose_leader_is_gone_asks_again_soon_those_who_have_not_noticed() -> None:
    voter = _Voter(ballot=Ballot(1)).at(1200)
    voter.hear(LeaderHeard(B, 1))
    voter.hear(LeaderGone(B))
    voter.at(1300).hear(TimerFired())
    assert voter.quorum.role is Role.PRE_CANDIDATE
    assert voter.quorum.next_deadline() == 1600 * MILLISECOND
    assert voter.quorum.term == 1


def test_a_leader_that_was_taken_for_gone_is_followed_again_when_it_is_heard() -> None:
    voter = _Voter(ballot=Ballot(1)).at(1200)
    voter.hear(LeaderHeard(B, 1))
    voter.hear(LeaderGone(B))
    assert voter.hear(LeaderHeard(B, 1)) == [FollowLeader(B, 1)]
    assert not _is_granted(voter.hear(_wants(2, sender=C)))


def test_the_end_of_another_broker_than_the_leader_changes_nothing() -> None:
    voter = _Voter(ballot=Ballot(1)).at(1200)
    voter.hear(LeaderHeard(B, 1))
    before = voter.quorum.next_deadline()
    voter.hear(LeaderGone(C))
    assert voter.quorum.leader == B
    assert voter.quorum.next_deadline() == before


def test_a_leader_is_followed_once_its_term_is_durable() -> None:
    voter = _Voter().at(100)
    assert voter.hear(LeaderHeard(B, 4)) == [PersistBallot(1, Ballot(4))]
    assert voter.sync() == [FollowLeader(B, 4)]
    assert voter.hear(LeaderHeard(B, 4)) == []


def test_a_leader_of_an_earlier_term_is_not_followed() -> None:
    voter = _Voter(ballot=Ballot(3))
    assert voter.hear(LeaderHeard(B, 2)) == []
    assert voter.quorum.leader is None


def test_a_leader_that_a_majority_does_not_confirm_steps_down() -> None:
    voter = _Voter()
    voter.elect()
    elected = voter.now
    assert voter.quorum.next_deadline() == elected + TIMING.election_ns
    voter.now = voter.quorum.next_deadline()
    assert voter.hear(TimerFired()) == [StepDown(1)]


def test_a_confirmation_counts_from_when_it_was_asked_for() -> None:
    voter = _Voter()
    voter.elect()
    asked = Instant(voter.now + 300 * MILLISECOND)
    voter.now = Instant(voter.now + 900 * MILLISECOND)
    voter.hear(FollowerHeard(C, 1, asked))
    assert voter.quorum.next_deadline() == asked + TIMING.election_ns


def test_a_confirmation_that_comes_too_late_does_not_keep_a_leader() -> None:
    voter = _Voter()
    voter.elect()
    asked = voter.now
    voter.now = voter.quorum.next_deadline()
    assert voter.hear(FollowerHeard(C, 1, asked)) == [StepDown(1)]


def test_a_confirmation_of_another_term_does_not_count() -> None:
    voter = _Voter()
    voter.elect()
    deadline = voter.quorum.next_deadline()
    voter.now = Instant(voter.now + 500 * MILLISECOND)
    voter.hear(FollowerHeard(C, 0, voter.now))
    assert voter.quorum.next_deadline() == deadline


def test_a_higher_term_ends_a_leadership_at_once() -> None:
    voter = _Voter()
    voter.elect()
    assert voter.hear(TermHeard(7)) == [StepDown(1), PersistBallot(2, Ballot(7))]
    assert (voter.quorum.role, voter.quorum.term) == (Role.FOLLOWER, 7)


def test_a_leader_refuses_votes_and_keeps_its_term() -> None:
    voter = _Voter()
    voter.elect()
    assert not _is_granted(voter.hear(_wants(5, sender=C, log=LogEnd(9, 9))))
    assert (voter.quorum.role, voter.quorum.term) == (Role.LEADER, 1)


def test_a_transfer_ends_the_leadership_before_the_other_may_begin() -> None:
    voter = _Voter()
    voter.elect()
    assert voter.hear(LeadershipEnded(C)) == [StepDown(1), OfferLeadership(C, 1)]


def test_a_leader_may_give_up_without_a_successor() -> None:
    voter = _Voter()
    voter.elect()
    assert voter.hear(LeadershipEnded()) == [StepDown(1)]
    assert voter.hear(LeadershipEnded()) == []


def test_an_offered_leadership_needs_no_pre_vote_and_no_timeout() -> None:
    voter = _Voter(ballot=Ballot(1))
    voter.hear(LeaderHeard(B, 1))
    assert voter.hear(LeadershipOffered(1)) == [PersistBallot(1, Ballot(2, A))]
    request = VoteRequest(term=2, log=LogEnd(), is_transfer=True)
    assert voter.sync() == [SendVoteRequest(B, request), SendVoteRequest(C, request)]


def test_an_offer_of_an_earlier_term_is_ignored() -> None:
    voter = _Voter(ballot=Ballot(3))
    assert voter.hear(LeadershipOffered(2)) == []


def test_a_transfer_is_voted_for_although_a_leader_was_heard() -> None:
    voter = _Voter(ballot=Ballot(1))
    voter.hear(LeaderHeard(B, 1))
    voter.hear(_wants(2, sender=C, is_transfer=True))
    assert _is_granted(voter.sync())


def test_while_voters_change_a_majority_of_each_set_is_needed() -> None:
    d, e = Voter("d", "d-disk"), Voter("e", "e-disk")
    voter = _Voter(voters=Voters((A, d, e), (A, B, C)))
    voter.at(1500).hear(TimerFired())
    assert voter.hear(VoteReplied(B, _granted(1, is_pre_vote=True))) == []
    assert voter.hear(VoteReplied(d, _granted(1, is_pre_vote=True))) == [
        PersistBallot(1, Ballot(1, A))
    ]


def test_a_candidate_that_is_no_voter_any_more_does_not_win() -> None:
    voter = _Voter()
    voter.at(1500).hear(TimerFired())
    voter.hear(VoteReplied(B, _granted(1, is_pre_vote=True)))
    voter.sync()
    voter.hear(VotersWritten(Voters((B, C))))
    assert voter.hear(VoteReplied(B, _granted(1))) == []


def test_a_leader_gives_new_voters_time_to_be_heard() -> None:
    d, e = Voter("d", "d-disk"), Voter("e", "e-disk")
    voter = _Voter(voters=Voters((A,)))
    voter.at(1500).hear(TimerFired())
    voter.sync()
    voter.at(9000).hear(VotersWritten(Voters((A, d, e), (A,))))
    assert voter.quorum.next_deadline() == 10_000 * MILLISECOND


def test_a_vote_of_a_broker_with_another_disk_does_not_count() -> None:
    voter = _Voter()
    voter.at(1500).hear(TimerFired())
    wiped = Voter("b", "another-disk")
    assert voter.hear(VoteReplied(wiped, _granted(1, is_pre_vote=True))) == []


def test_a_candidate_whose_log_became_shorter_gives_its_attempt_up() -> None:
    """The votes were for a record that its disk had no space for; it may be committed elsewhere."""
    voter = _Voter(log=LogEnd(1, 7)).at(1500)
    voter.hear(TimerFired())
    voter.hear(VoteReplied(B, _granted(1, is_pre_vote=True)))
    voter.sync()

    voter.quorum.end_log(LogEnd(1, 6))

    assert voter.hear(VoteReplied(B, _granted(1))) == []
    assert voter.quorum.role is Role.FOLLOWER
    assert voter.quorum.term == 1


def test_a_candidate_whose_log_grew_goes_on() -> None:
    voter = _Voter(log=LogEnd(1, 7)).at(1500)
    voter.hear(TimerFired())
    voter.hear(VoteReplied(B, _granted(1, is_pre_vote=True)))
    voter.sync()

    voter.quorum.end_log(LogEnd(1, 8))

    assert voter.hear(VoteReplied(B, _granted(1))) == [BecomeLeader(1)]


def test_a_term_that_no_cluster_reaches_is_not_believed() -> None:
    voter = _Voter(ballot=Ballot(1)).at(5000)
    term = 1 + TERM_JUMP_MAX + 1

    for event in (
        _wants(term, is_transfer=True),
        _wants(term, is_pre_vote=True),
        VoteReplied(B, VoteReply(asked=2, term=term, is_granted=False)),
        LeaderHeard(B, term),
        TermHeard(term),
    ):
        assert voter.hear(event) == []
    assert voter.quorum.term == 1
    voter.hear(TermHeard(term - 1))
    assert voter.quorum.term == term - 1


def test_a_voter_that_claims_to_have_heard_the_future_confirms_only_the_present() -> None:
    leader = _Voter()
    leader.elect()
    leader.hear(FollowerHeard(B, 1, Instant(1 << 61)))

    assert leader.quorum.next_deadline() == leader.now + TIMING.election_ns
