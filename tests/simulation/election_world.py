"""Brokers that elect a leader over a bad network, with a log that is replicated as Raft does it.

Everything that can happen is a method; who calls them, a seed (`election_chance`) or a search,
decides when. Messages may be lost, repeated, reordered and late; ballots and records are lost by a
crash unless they were synced; a broker may come back with an empty disk and another directory id.

The world checks at every step: one leader per term; no leader is elected while an earlier one may
still decide; a committed record is in the log of every later leader and never changes.
"""

import random
from collections.abc import Iterator

import msgspec

from goqueue.cluster import (
    Ballot,
    BallotPersisted,
    BecomeLeader,
    ElectionTimes,
    FollowerHeard,
    FollowLeader,
    LeaderHeard,
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
from goqueue.model import Instant, LogEnd, VoteReply, VoteRequest

__all__ = ["Disk", "ElectionWorld", "Process", "Violation"]

TIMING = ElectionTimes()


class Violation(AssertionError):
    """Something that must never happen."""


class Record(msgspec.Struct, frozen=True):
    """A record of the metadata log: the term that wrote it, and what it says."""

    term: int
    value: int = 0
    voters: Voters | None = None


class Append(msgspec.Struct, frozen=True):
    """Records of a leader, behind `end` records of which the last has `term_before`."""

    term: int
    end: int
    term_before: int
    records: tuple[Record, ...]
    committed: int
    asked: Instant


class AppendReply(msgspec.Struct, frozen=True):
    """How much of the leader's log is synced; None if it does not fit, or the term is old."""

    term: int
    durable: int | None
    asked: Instant


class Offer(msgspec.Struct, frozen=True):
    """Leadership, offered by the leader of a term."""

    term: int


Content = VoteRequest | VoteReply | Append | AppendReply | Offer


class Packet(msgspec.Struct, frozen=True):
    """A message on its way."""

    sender: Voter
    to: Voter
    content: Content


class Disk(msgspec.Struct):
    """What a broker keeps over a crash."""

    directory: str
    ballot: Ballot = Ballot()
    records: tuple[Record, ...] = ()


class Process:
    """One life of a broker: the machine, and a replicated log around it."""

    def __init__(
        self, name: str, disk: Disk, founders: Voters, now: Instant, jitter: float
    ) -> None:
        self.me = Voter(name, disk.directory)
        self.disk = disk
        self.records = list(disk.records)
        self.durable_records = len(self.records)
        self.committed = 0
        self.following: FollowLeader | None = None
        # The term in which this process may decide, if it leads.
        self.leads: int | None = None
        # Of a leader: what each voter has synced, and from where on it is sent more.
        self.matches: dict[Voter, int] = {}
        self.sent_from: dict[Voter, int] = {}
        self.ballots: list[PersistBallot] = []
        self._founders = founders
        self.quorum = Quorum(
            self.me,
            ballot=disk.ballot,
            log=self.log_end,
            voters=self.voters,
            timing=TIMING,
            now=now,
            jitter=jitter,
        )

    @property
    def log_end(self) -> LogEnd:
        return LogEnd(self.records[-1].term if self.records else 0, len(self.records))

    @property
    def voters(self) -> Voters:
        """As last written in the log."""
        written = [record.voters for record in self.records if record.voters is not None]
        return written[-1] if written else self._founders

    def term_before(self, end: int) -> int:
        return self.records[end - 1].term if end else 0


class ElectionWorld:
    """Brokers, what is on its way between them, and what was ever decided."""

    def __init__(self, brokers: int, seed: int = 0, *, first_voters: int | None = None) -> None:
        self.random = random.Random(seed)
        self.now = Instant(0)
        self.packets: list[Packet] = []
        # Messages that the network holds back, maybe for seconds.
        self.late: list[Packet] = []
        # Which broker cannot reach which other.
        self.cuts: set[tuple[str, str]] = set()
        names = [f"b{number}" for number in range(brokers)]
        self.disks = {name: Disk(f"{name}-0") for name in names}
        founders = tuple(Voter(name, f"{name}-0") for name in names[: first_voters or brokers])
        self.founders = Voters(founders)
        self.processes: dict[str, Process] = {}
        self.leaders: dict[int, Voter] = {}
        self.committed: list[Record] = []
        self.elections = 0
        self._wiped = 0
        # How many milliseconds pass at most, most of the time.
        self._tempo = self.random.choice([50, 300])
        self._value = 0
        for name in names:
            self.start(name)

    def jitter(self) -> float:
        """A draw for one event; a search that wants none sets it to zero."""
        return self.random.random()

    # Brokers

    def start(self, name: str) -> None:
        """A broker begins to run on what its disk holds."""
        disk = self.disks[name]
        self.processes[name] = Process(name, disk, self.founders, self.now, self.jitter())

    def crash(self, name: str) -> None:
        """A broker ends: what it had not synced may be on its disk or not."""
        process = self.processes.pop(name)
        kept = self.random.randint(process.durable_records, len(process.records))
        process.disk.records = tuple(process.records[:kept])
        for ballot in process.ballots[: self.random.randint(0, len(process.ballots))]:
            process.disk.ballot = ballot.ballot

    def wipe(self, name: str) -> None:
        """A broker that does not run loses its disk."""
        assert name not in self.processes
        self._wiped += 1
        self.disks[name] = Disk(f"{name}-{self._wiped}")

    def sync(self, name: str) -> None:
        """What a broker wrote becomes durable."""
        process = self.processes[name]
        process.disk.records = tuple(process.records)
        process.durable_records = len(process.records)
        ballots, process.ballots = process.ballots, []
        for each in ballots:
            process.disk.ballot = each.ballot
        if process.leads is not None:
            self._commit(process)
        if ballots:
            self.handle(name, BallotPersisted(ballots[-1].serial))

    def handle(self, name: str, event: QuorumEvent) -> None:
        """The machine of a broker learns something."""
        process = self.processes[name]
        for effect in process.quorum.handle(event, self.now, self.jitter()):
            self._carry_out(process, effect)
        self._check_roles(process)

    def fire(self, name: str) -> None:
        """Let the time pass until the timer of a broker fires."""
        deadline = self.processes[name].quorum.next_deadline()
        self.now = max(self.now, deadline)
        self.handle(name, TimerFired())

    def deliver(self, number: int, *, keeps: bool = False) -> None:
        """A message arrives; with `keeps` it will arrive again."""
        packet = self.packets[number] if keeps else self.packets.pop(number)
        process = self.processes.get(packet.to.broker)
        is_cut = (packet.sender.broker, packet.to.broker) in self.cuts
        if process is None or process.me != packet.to or is_cut:
            return
        match packet.content:
            case VoteRequest() as request:
                self.handle(packet.to.broker, VoteRequested(packet.sender, request))
            case VoteReply() as reply:
                self.handle(packet.to.broker, VoteReplied(packet.sender, reply))
            case Offer(term):
                self.handle(packet.to.broker, LeadershipOffered(term))
            case Append() as append:
                self._receive(process, packet.sender, append)
            case AppendReply() as appended:
                self._count(process, packet.sender, appended)

    # The log

    def propose(self, name: str) -> None:
        """A client wants something of a leader."""
        process = self.processes[name]
        if process.leads is not None:
            self._value += 1
            self._append(process, Record(process.leads, self._value))

    def change_voters(self, name: str) -> None:
        """A leader makes other running brokers the voters, by way of both sets."""
        process = self.processes[name]
        is_settled = process.committed == len(process.records) and (
            process.records and process.records[-1].term == process.leads
        )
        if process.leads is None or not is_settled:
            return
        before = process.voters
        running = sorted(each.me for each in self.processes.values())
        count = self.random.randint(1, len(running))
        wanted = tuple(sorted(self.random.sample(running, count)))
        if before.is_joint:
            after = Voters(before.new)
        elif before.new == wanted:
            return
        else:
            after = Voters(wanted, before.new)
        self._append(process, Record(process.leads, voters=after))

    def replicate(self, name: str) -> None:
        """A leader sends everybody what they lack, or that it is there."""
        process = self.processes[name]
        if process.leads is None:
            return
        for voter in process.voters.all():
            if voter != process.me:
                end = process.sent_from.get(voter, len(process.records))
                append = Append(
                    process.leads,
                    end,
                    process.term_before(end),
                    tuple(process.records[end:]),
                    process.committed,
                    self.now,
                )
                self.packets.append(Packet(process.me, voter, append))

    def _append(self, process: Process, record: Record) -> None:
        process.records.append(record)
        self._log_changed(process)

    def _log_changed(self, process: Process) -> None:
        process.quorum.end_log(process.log_end)
        if process.quorum.voters != process.voters:
            self.handle(process.me.broker, VotersWritten(process.voters))

    def _receive(self, process: Process, leader: Voter, append: Append) -> None:
        self.handle(process.me.broker, LeaderHeard(leader, append.term))
        followed = process.following
        if append.term < process.quorum.term:
            # An answer of a term that may be lost would be a lie.
            if process.disk.ballot.term == process.quorum.term:
                reply = AppendReply(process.quorum.term, None, append.asked)
                self.packets.append(Packet(process.me, leader, reply))
            return
        if followed is None or followed.term != append.term:
            return
        if append.end > len(process.records) or (
            process.term_before(append.end) != append.term_before
        ):
            reply = AppendReply(append.term, None, append.asked)
            self.packets.append(Packet(process.me, leader, reply))
            return
        self._store(process, append)
        # What both have is synced, or is with the next sync.
        reached = min(append.end + len(append.records), process.durable_records)
        reply = AppendReply(append.term, reached, append.asked)
        self.packets.append(Packet(process.me, leader, reply))

    def _store(self, process: Process, append: Append) -> None:
        for index, record in enumerate(append.records, append.end):
            if index < len(process.records) and process.records[index] == record:
                continue
            if index < process.committed:
                raise Violation(f"{process.me} replaces a committed record")
            del process.records[index:]
            process.durable_records = min(process.durable_records, index)
            process.records.append(record)
        known = append.end + len(append.records)
        process.committed = max(process.committed, min(append.committed, known))
        self._log_changed(process)

    def _count(self, process: Process, voter: Voter, reply: AppendReply) -> None:
        if reply.term > process.quorum.term:
            self.handle(process.me.broker, TermHeard(reply.term))
            return
        self.handle(process.me.broker, FollowerHeard(voter, reply.term, reply.asked))
        if process.leads != reply.term:
            return
        if reply.durable is None:
            before = process.sent_from.get(voter, len(process.records))
            process.sent_from[voter] = max(0, before - 1)
            return
        process.matches[voter] = max(process.matches.get(voter, 0), reply.durable)
        process.sent_from[voter] = process.matches[voter]
        self._commit(process)

    def _commit(self, process: Process) -> None:
        """Count what a majority holds, if a record of the own term is the last of it."""
        holders = dict(process.matches)
        holders[process.me] = process.durable_records
        for end in range(len(process.records), process.committed, -1):
            if process.records[end - 1].term != process.leads:
                return
            have = [voter for voter, match in holders.items() if match >= end]
            if process.voters.is_majority(have):
                process.committed = end
                self._decide(process)
                return

    def _decide(self, process: Process) -> None:
        """What a leader has committed is committed for ever."""
        mine = process.records[: process.committed]
        common = min(len(mine), len(self.committed))
        if mine[:common] != self.committed[:common]:
            raise Violation(f"{process.me} commits other records than {self.committed}")
        self.committed.extend(mine[common:])

    # Effects

    def _carry_out(self, process: Process, effect: QuorumEffect) -> None:
        match effect:
            case PersistBallot():
                process.ballots.append(effect)
            case SendVoteRequest(to, request):
                if not request.is_pre_vote:
                    self._check_durable(process, Ballot(request.term, process.me))
                self.packets.append(Packet(process.me, to, request))
            case SendVoteReply(to, reply):
                is_vote = reply.is_granted and not reply.is_pre_vote
                self._check_durable(process, Ballot(reply.term, to if is_vote else None))
                self.packets.append(Packet(process.me, to, reply))
            case OfferLeadership(to, term):
                self.packets.append(Packet(process.me, to, Offer(term)))
            case BecomeLeader(term):
                self._lead(process, term)
            case FollowLeader():
                self._check_durable(process, Ballot(effect.term))
                process.following = effect
                process.leads = None
            case StepDown():
                process.leads = None

    def _lead(self, process: Process, term: int) -> None:
        self.elections += 1
        self._check_durable(process, Ballot(term, process.me))
        known = self.leaders.setdefault(term, process.me)
        if known != process.me:
            raise Violation(f"{known} and {process.me} lead term {term}")
        if process.records[: len(self.committed)] != self.committed:
            raise Violation(f"{process.me} leads term {term} without {self.committed}")
        self._check_deposed(process)
        process.leads = term
        process.following = None
        process.matches = {}
        process.sent_from = {}
        self._append(process, Record(term))

    # Checks

    def _check_roles(self, process: Process) -> None:
        is_leader = process.quorum.role is Role.LEADER
        if is_leader != (process.leads is not None):
            raise Violation(f"{process.me} is {process.quorum.role} and leads {process.leads}")

    def _check_durable(self, process: Process, told: Ballot) -> None:
        """What a broker tells of its term and vote survives a crash."""
        kept = process.disk.ballot
        if kept.term < told.term or (
            told.vote is not None and kept.term == told.term and kept.vote != told.vote
        ):
            raise Violation(f"{process.me} tells {told} and keeps {kept}")

    def _check_deposed(self, process: Process) -> None:
        """A new leader finds none that still believes to be confirmed.

        A leader decides once a record of its own term is committed; before, nobody relies on it.
        """
        for other in self.processes.values():
            decides = other.committed > 0 and (
                other.records[other.committed - 1].term == other.leads
            )
            if other is not process and decides and self.now < other.quorum.next_deadline():
                raise Violation(f"{process.me} leads while {other.me} may still decide")

    def leaders_now(self) -> Iterator[Process]:
        """The processes that lead in some term."""
        return (each for each in self.processes.values() if each.leads is not None)
