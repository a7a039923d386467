"""The election of the leader of the metadata log: Raft's roles, terms and votes, with pre-votes.

Owns the term, the vote, the role and the election timer of one broker. Knows its log only by the
term of its last record and its end, which the broker reports; replication and commits are not its
business. Reads no clock and draws no chance: every event comes with the time and with a jitter.

Invariants
- One leader per term: a broker votes once in a term, and a majority is needed.
- Whatever a message says about the own term or vote is durable before the message leaves. An effect
  that follows a `PersistBallot` is held back until `BallotPersisted`, with all effects behind it.
- A leader that a majority did not confirm within `election_ns` has stepped down. A voter that heard
  a leader, or began to run, less than `election_ns` ago elects nobody else. The exceptions are a
  transfer of leadership, since the old leader steps down before it lets the other stand, and a
  leader whose process is gone. The second is a hint: if it is wrong, a leader is deposed early, and
  the term still decides what counts.
- The votes that count are those of the voters as last written in the own log, committed or not.
- A broker leads with the log that it stood with: one whose log became shorter gives its attempt up.

A broker that is cut off raises no term: before it stands for election, a majority must say that it
would vote for it (the pre-vote). So it does not depose a leader when it comes back.

A term that is more than `TERM_JUMP_MAX` above the own is not believed: one wrong message would use
up all terms that there are.

Crash points: between a ballot and its sync (nobody has heard of it), between its sync and the
message (the vote counts for nobody, and is not given again to another).
Cost: at most one message per voter and event; nothing grows with the log.
"""

import enum
from collections import deque
from typing import assert_never

import msgspec

from goqueue.cluster.voters import Voter, Voters
from goqueue.model import MILLISECOND, Instant, LogEnd, VoteReply, VoteRequest

__all__ = [
    "TERM_JUMP_MAX",
    "Ballot",
    "BallotPersisted",
    "BecomeLeader",
    "ElectionTimes",
    "FollowLeader",
    "FollowerHeard",
    "LeaderGone",
    "LeaderHeard",
    "LeadershipEnded",
    "LeadershipOffered",
    "OfferLeadership",
    "PersistBallot",
    "Quorum",
    "QuorumEffect",
    "QuorumEvent",
    "Role",
    "SendVoteReply",
    "SendVoteRequest",
    "StepDown",
    "TermHeard",
    "TimerFired",
    "VoteReplied",
    "VoteRequested",
    "VotersWritten",
]


# An election in every second of a century is less.
TERM_JUMP_MAX = 2**32
# The time at which a leader was last confirmed by itself.
_ALWAYS = Instant(1 << 62)


class ElectionTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long a leader may be silent; the jitter comes on top, so that one voter is first.

    When the process of the leader is gone voters need not wait: only `gone_ns` spreads them.
    """

    election_ns: int = 1500 * MILLISECOND
    jitter_ns: int = 1500 * MILLISECOND
    gone_ns: int = 200 * MILLISECOND


class Ballot(msgspec.Struct, frozen=True):
    """What must survive a crash: the highest term that was seen, and the vote in it."""

    term: int = 0
    vote: Voter | None = None


class Role(enum.StrEnum):
    """What a broker is in its term."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


# Events


class VoteRequested(msgspec.Struct, frozen=True):
    """A broker asks for a vote."""

    sender: Voter
    request: VoteRequest


class VoteReplied(msgspec.Struct, frozen=True):
    """A broker replied to a request of this one."""

    sender: Voter
    reply: VoteReply


class LeaderHeard(msgspec.Struct, frozen=True):
    """A message of the leader of a term arrived."""

    leader: Voter
    term: int


class LeaderGone(msgspec.Struct, frozen=True):
    """The connection to a leader broke, and nothing listens where it was."""

    leader: Voter


class FollowerHeard(msgspec.Struct, frozen=True):
    """A voter confirmed this broker as leader of a term: it replied to what was sent at `asked`."""

    voter: Voter
    term: int
    asked: Instant


class TermHeard(msgspec.Struct, frozen=True):
    """A message mentioned a term."""

    term: int


class LeadershipOffered(msgspec.Struct, frozen=True):
    """The leader of a term stepped down so that this broker may follow it."""

    term: int


class BallotPersisted(msgspec.Struct, frozen=True):
    """The ballot with this serial number, and all before it, are durable."""

    serial: int


class VotersWritten(msgspec.Struct, frozen=True):
    """The own log names these voters last now, committed or not."""

    voters: Voters


class LeadershipEnded(msgspec.Struct, frozen=True):
    """The broker gives up its leadership: to a voter that holds its whole log, or to nobody."""

    to: Voter | None = None


class TimerFired(msgspec.Struct, frozen=True):
    """`next_deadline` has come."""


QuorumEvent = (
    VoteRequested
    | VoteReplied
    | LeaderHeard
    | LeaderGone
    | FollowerHeard
    | TermHeard
    | LeadershipOffered
    | BallotPersisted
    | VotersWritten
    | LeadershipEnded
    | TimerFired
)


# Effects


class PersistBallot(msgspec.Struct, frozen=True):
    """Make a ballot durable, and report its serial number when it is."""

    serial: int
    ballot: Ballot


class SendVoteRequest(msgspec.Struct, frozen=True):
    """Ask a voter."""

    to: Voter
    request: VoteRequest


class SendVoteReply(msgspec.Struct, frozen=True):
    """Reply to a voter."""

    to: Voter
    reply: VoteReply


class OfferLeadership(msgspec.Struct, frozen=True):
    """Let a voter stand for election at once."""

    to: Voter
    term: int


class BecomeLeader(msgspec.Struct, frozen=True):
    """Start the epoch of this term; decide nothing before its first record is committed."""

    term: int


class FollowLeader(msgspec.Struct, frozen=True):
    """Take records from the leader of this term, and confirm it."""

    leader: Voter
    term: int


class StepDown(msgspec.Struct, frozen=True):
    """Decide nothing any more: the outcome of proposals on their way is unknown."""

    term: int


QuorumEffect = (
    PersistBallot
    | SendVoteRequest
    | SendVoteReply
    | OfferLeadership
    | BecomeLeader
    | FollowLeader
    | StepDown
)


def _mentioned_term(event: QuorumEvent) -> int:
    """The term that another broker speaks of, its own or the one that it wants."""
    match event:
        case VoteRequested(_, request):
            return request.term
        case VoteReplied(_, reply):
            return reply.term
        case LeaderHeard(_, term) | TermHeard(term):
            return term
        case _:
            # Others count only in the own term.
            return 0


class Quorum:
    """One broker's part in the elections."""

    def __init__(
        self,
        me: Voter,
        *,
        ballot: Ballot,
        log: LogEnd,
        voters: Voters,
        timing: ElectionTimes,
        now: Instant,
        jitter: float,
    ) -> None:
        self._me = me
        self._ballot = ballot
        self._log = log
        self._voters = voters
        self._timing = timing
        self._role = Role.FOLLOWER
        self._leader: Voter | None = None
        # Whether the process of the last leader is gone, and no other one was heard since.
        self._is_leader_gone = False
        # A process that just started may have promised a leader, in its last life, to elect nobody;
        # not one that never saw a term.
        self._loyal_until = self._after_election(now) if ballot.term else now
        self._deadline = self._drawn(now, jitter)
        # Who would vote, or did vote, for this broker in its present attempt.
        self._granted: dict[Voter, None] = {}
        # When each voter was last known to follow this leader.
        self._confirmed: dict[Voter, Instant] = {}
        self._serial = 0
        self._durable_serial = 0
        self._held: deque[tuple[int, QuorumEffect]] = deque()
        self._effects: list[QuorumEffect] = []

    # What others see

    @property
    def role(self) -> Role:
        return self._role

    @property
    def term(self) -> int:
        """The highest term that was seen."""
        return self._ballot.term

    @property
    def leader(self) -> Voter | None:
        """The leader of the term, as far as it is known."""
        return self._leader

    @property
    def voters(self) -> Voters:
        return self._voters

    @property
    def is_term_durable(self) -> bool:
        """Whether the term may be told to others."""
        return self._durable_serial == self._serial

    def next_deadline(self) -> Instant:
        """When to report `TimerFired`."""
        if self._role is Role.LEADER:
            return self._unconfirmed_from()
        return self._deadline

    def end_log(self, log: LogEnd) -> None:
        """Learn where the own log ends now: something was appended or truncated."""
        if log < self._log and self._role in {Role.PRE_CANDIDATE, Role.CANDIDATE}:
            # Others vote for the log that they were told of, which is no longer here.
            self._role = Role.FOLLOWER
            self._granted = {}
        self._log = log

    def handle(self, event: QuorumEvent, now: Instant, jitter: float) -> list[QuorumEffect]:
        """Learn one thing and decide what follows; `jitter` is drawn from [0, 1) for each event."""
        self._effects = []
        if self._role is Role.LEADER and now >= self._unconfirmed_from():
            # Whatever comes now, comes to a broker that may have a successor.
            self._become_follower(now, jitter)
        if _mentioned_term(event) <= self.term + TERM_JUMP_MAX:
            self._learn(event, now, jitter)
        return self._effects

    def _learn(self, event: QuorumEvent, now: Instant, jitter: float) -> None:
        match event:
            case VoteRequested(sender, request):
                self._reply_to_request(sender, request, now, jitter)
            case VoteReplied(sender, reply):
                self._count_reply(sender, reply, now, jitter)
            case LeaderHeard(leader, term):
                self._follow(leader, term, now, jitter)
            case LeaderGone(leader):
                self._forget_leader(leader, now, jitter)
            case FollowerHeard(voter, term, asked):
                # Nothing was sent later than now, whatever a voter says.
                self._confirm(voter, term, min(asked, now))
            case TermHeard(term):
                self._raise_term(term, now, jitter)
            case LeadershipOffered(term):
                self._accept_offer(term, now, jitter)
            case BallotPersisted(serial):
                self._release(serial, now, jitter)
            case VotersWritten(voters):
                self._change_voters(voters, now, jitter)
            case LeadershipEnded(to):
                self._end_leadership(to, now, jitter)
            case TimerFired():
                self._begin_pre_vote(now, jitter)
            case _:
                assert_never(event)

    # Voting

    def _reply_to_request(
        self, sender: Voter, request: VoteRequest, now: Instant, jitter: float
    ) -> None:
        if self._is_loyal(now) and not request.is_transfer:
            # The term is not taken over either: a broker that was away must not depose a leader.
            is_granted = False
        elif request.is_pre_vote:
            is_granted = request.term > self.term and request.log >= self._log
        else:
            self._raise_term(request.term, now, jitter)
            is_granted = (
                request.term == self.term
                and self._ballot.vote in {None, sender}
                and request.log >= self._log
            )
            if is_granted:
                if self._ballot.vote is None:
                    self._persist(Ballot(self.term, sender))
                self._deadline = self._drawn(now, jitter)
        reply = VoteReply(
            asked=request.term,
            term=self.term,
            is_granted=is_granted,
            is_pre_vote=request.is_pre_vote,
        )
        self._emit(SendVoteReply(sender, reply))

    def _is_loyal(self, now: Instant) -> bool:
        """Whether a leader may count on this voter to elect nobody else."""
        return self._role is Role.LEADER or now < self._loyal_until

    def _count_reply(self, sender: Voter, reply: VoteReply, now: Instant, jitter: float) -> None:
        if not reply.is_granted:
            self._raise_term(reply.term, now, jitter)
            return
        awaited = Role.PRE_CANDIDATE if reply.is_pre_vote else Role.CANDIDATE
        asked = self.term + 1 if reply.is_pre_vote else self.term
        if self._role is awaited and reply.asked == asked:
            self._granted[sender] = None
            self._count_majority(now, jitter)

    def _count_majority(self, now: Instant, jitter: float) -> None:
        if not self._is_voter or not self._voters.is_majority(self._granted):
            return
        if self._role is Role.PRE_CANDIDATE:
            self._stand(now, jitter, is_transfer=False)
        elif self._role is Role.CANDIDATE:
            self._role = Role.LEADER
            self._leader = self._me
            # Nobody has confirmed anything yet: this is the time that there is to reach them.
            self._confirmed = dict.fromkeys(self._voters.all(), now)
            self._emit(BecomeLeader(self.term))

    # Standing for election

    @property
    def _is_voter(self) -> bool:
        return self._me in self._voters

    def _begin_pre_vote(self, now: Instant, jitter: float) -> None:
        if self._role is Role.LEADER or now < self._deadline:
            return
        self._deadline = self._drawn(now, jitter)
        if self._is_leader_gone:
            # Another voter may have refused because it had not noticed yet. A pre-vote costs nobody
            # anything, so it is asked again soon.
            self._deadline = Instant(now + int(self._timing.gone_ns * (1 + jitter)))
        if not self._is_voter:
            return
        self._role = Role.PRE_CANDIDATE
        self._leader = None
        self._granted = {self._me: None}
        self._ask(VoteRequest(term=self.term + 1, log=self._log, is_pre_vote=True))
        self._count_majority(now, jitter)

    def _accept_offer(self, term: int, now: Instant, jitter: float) -> None:
        if term == self.term and self._role is not Role.LEADER and self._is_voter:
            self._stand(now, jitter, is_transfer=True)

    def _stand(self, now: Instant, jitter: float, *, is_transfer: bool) -> None:
        self._role = Role.CANDIDATE
        self._leader = None
        self._granted = {}
        self._deadline = self._drawn(now, jitter)
        self._persist(Ballot(self.term + 1, self._me))
        self._ask(VoteRequest(term=self.term, log=self._log, is_transfer=is_transfer))

    def _ask(self, request: VoteRequest) -> None:
        for voter in self._voters.all():
            if voter != self._me:
                self._emit(SendVoteRequest(voter, request))

    # Terms and leaders

    def _raise_term(self, term: int, now: Instant, jitter: float) -> None:
        """Learn of a term; a higher one ends whatever role there was in the own."""
        if term > self.term:
            self._become_follower(now, jitter)
            self._persist(Ballot(term))

    def _become_follower(self, now: Instant, jitter: float) -> None:
        if self._role is Role.LEADER:
            self._emit(StepDown(self.term))
        self._role = Role.FOLLOWER
        self._leader = None
        self._granted = {}
        self._confirmed = {}
        self._deadline = self._drawn(now, jitter)

    def _follow(self, leader: Voter, term: int, now: Instant, jitter: float) -> None:
        if term < self.term:
            return
        self._raise_term(term, now, jitter)
        assert self._role is not Role.LEADER, f"{leader} leads term {term} as well"
        if self._leader != leader or self._role is not Role.FOLLOWER:
            assert self._leader in {None, leader}, f"term {term} has two leaders"
            self._role = Role.FOLLOWER
            self._granted = {}
            self._leader = leader
            self._emit(FollowLeader(leader, term))
        self._is_leader_gone = False
        self._loyal_until = self._after_election(now)
        self._deadline = self._drawn(now, jitter)

    def _forget_leader(self, leader: Voter, now: Instant, jitter: float) -> None:
        """Nobody is there to be loyal to: stand for election soon, and let others do so."""
        if self._role is Role.LEADER or self._leader != leader:
            return
        self._leader = None
        self._is_leader_gone = True
        self._loyal_until = now
        self._deadline = min(self._deadline, Instant(now + int(self._timing.gone_ns * jitter)))

    def _confirm(self, voter: Voter, term: int, asked: Instant) -> None:
        if self._role is Role.LEADER and term == self.term:
            self._confirmed[voter] = max(asked, self._confirmed.get(voter, asked))

    def _unconfirmed_from(self) -> Instant:
        """From when on a majority may have elected another leader."""
        since = self._voters.majority_since({**self._confirmed, self._me: _ALWAYS})
        assert since is not None, "a voter without a time"
        return self._after_election(since)

    def _change_voters(self, voters: Voters, now: Instant, jitter: float) -> None:
        is_founder = self.term == 0 and not self._is_voter and self._me in voters
        self._voters = voters
        if is_founder:
            # Nobody can lead yet, so there is nobody to wait for.
            self._deadline = min(self._deadline, Instant(now + self._spread(jitter)))
        if self._role is Role.LEADER:
            # A new voter has as long as any other to be heard. Until the new set counts alone, a
            # majority of the old one is needed as well.
            self._confirmed = {**dict.fromkeys(voters.all(), now), **self._confirmed}
        self._count_majority(now, jitter)

    def _end_leadership(self, to: Voter | None, now: Instant, jitter: float) -> None:
        if self._role is not Role.LEADER:
            return
        # First the end of the own right to decide, then the offer.
        self._become_follower(now, jitter)
        if to is not None:
            self._emit(OfferLeadership(to, self.term))

    # Durability

    def _persist(self, ballot: Ballot) -> None:
        self._ballot = ballot
        self._serial += 1
        self._effects.append(PersistBallot(self._serial, ballot))

    def _emit(self, effect: QuorumEffect) -> None:
        """Let an effect out, behind every ballot that it may tell of.

        To step down is no promise, so it never waits.
        """
        if self._durable_serial == self._serial or isinstance(effect, StepDown):
            self._effects.append(effect)
        else:
            self._held.append((self._serial, effect))

    def _release(self, serial: int, now: Instant, jitter: float) -> None:
        self._durable_serial = max(self._durable_serial, serial)
        while self._held and self._held[0][0] <= self._durable_serial:
            self._effects.append(self._held.popleft()[1])
        if (
            self._durable_serial == self._serial
            and self._role is Role.CANDIDATE
            and self._me not in self._granted
        ):
            # The own vote counts once it would survive a crash.
            self._granted[self._me] = None
            self._count_majority(now, jitter)

    # Times

    def _after_election(self, now: Instant) -> Instant:
        return Instant(now + self._timing.election_ns)

    def _spread(self, jitter: float) -> int:
        return int(self._timing.jitter_ns * jitter)

    def _drawn(self, now: Instant, jitter: float) -> Instant:
        return Instant(now + self._timing.election_ns + self._spread(jitter))
