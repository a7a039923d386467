"""What must hold of elections and of the metadata log, whatever happens (C1 to C5, C11, C12).

Looks at every broker after each of its turns, and at every message before it leaves. Knows the
history of each cluster: what the image was at each version that any broker ever had.
"""

import re
from collections.abc import Mapping

import msgspec

from goqueue.broker import QuorumMetadata
from goqueue.cluster import ImageStated, MetadataImage, Voter, Voters, VotersChanged
from goqueue.model import (
    METADATA_REPLICA,
    MILLISECOND,
    LeadershipOffer,
    ReplicaAck,
    Send,
    VoteReply,
    VoteRequest,
)
from goqueue.records import scan
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.oracle import Violation

__all__ = ["QuorumChecks", "quorum_of"]

_DRIFT_NS = 250 * MILLISECOND
_BALLOT = re.compile(rb'"ballot":\{"term":(\d+),"vote":(?:null|\["([^"]*)")')


def quorum_of(machine: BrokerMachine) -> QuorumMetadata | None:
    """The metadata log of a broker, once it was read."""
    member = machine.node.cluster
    metadata = None if member is None else member.metadata
    assert metadata is None or isinstance(metadata, QuorumMetadata)
    return metadata


class QuorumChecks:
    """The history of a world, and its judge."""

    def __init__(self) -> None:
        # Who led a term; two attempts to form a cluster have different lineages.
        self._leaders: dict[tuple[str, int], Voter] = {}
        self._grants: dict[tuple[Voter, int], str] = {}
        self._images: dict[str, dict[int, ImageStated]] = {}
        self._newest: dict[str, int] = {}
        self._decided: dict[tuple[str, int], None] = {}
        self._seen: dict[int, tuple[int, int, int]] = {}
        self._machines: dict[str, BrokerMachine] = {}
        # The directory of each id in the newest image of a cluster, and its version.
        self._owners: dict[str, dict[str, str]] = {}
        self._owners_at: dict[str, int] = {}
        self.elections_total = 0
        # What each voter acknowledged to the leader of a term, and what that leader had committed
        # and who voted after its last turn.
        self._acked: dict[tuple[str, int], dict[Voter, int]] = {}
        self._commits: dict[tuple[Voter, int], tuple[int, Voters]] = {}

    @property
    def clusters(self) -> list[str]:
        """The clusters of which anything was ever committed."""
        return [each for each in self._images if each]

    def images(self, cluster: str) -> Mapping[int, ImageStated]:
        """What the image of a cluster was at each version that any broker had."""
        return self._images[cluster]

    def newest_version(self) -> int:
        """The newest version that any broker had."""
        return max((max(each) for name, each in self._images.items() if name), default=0)

    @property
    def versions_total(self) -> int:
        return sum(map(len, self._images.values()))

    # Messages

    def sending(self, machine: BrokerMachine, effect: Send) -> None:
        """C3 and C4: votes and terms are durable before they are told, and given once."""
        message = effect.message
        me = Voter(machine.process.name, machine.process.directory)
        if isinstance(message, VoteReply) and message.is_granted and not message.is_pre_vote:
            self._check_durable(machine, message.asked, effect.broker)
            granted = self._grants.setdefault((me, message.asked), effect.broker)
            if granted != effect.broker:
                voted = f"{me.broker} voted for {granted} and {effect.broker}"
                raise Violation("one vote per term", f"{voted} in term {message.asked}")
        elif isinstance(message, VoteReply | VoteRequest | ReplicaAck):
            self._check_durable(machine, _term_told(message))
            if isinstance(message, ReplicaAck):
                self._check_held(machine, message)
                if message.is_agreed and message.log == METADATA_REPLICA:
                    acked = self._acked.setdefault((effect.broker, message.epoch), {})
                    acked[me] = max(message.durable, acked.get(me, 0))
        elif isinstance(message, LeadershipOffer):
            metadata = quorum_of(machine)
            if metadata is not None and metadata.epoch_leader is not None:
                raise Violation("offer after resigning", machine.process.name)

    def _check_held(self, machine: BrokerMachine, ack: ReplicaAck) -> None:
        """What is acknowledged is on the disk of this broker, whatever its power does."""
        metadata = quorum_of(machine)
        if metadata is None or ack.durable <= metadata.log.start:
            return
        base = max(each.base for each in metadata.log.segments if each.base < ack.durable)
        path = next(
            each
            for each in machine.disk.files.paths()
            if "__metadata" in each and each.endswith(f"{base:020d}.log")
        )
        found = scan(machine.disk.files.durable_content(path)).columns.offsets
        if not found or found[-1] + 1 < ack.durable:
            raise Violation("acknowledged is durable", f"{machine.process.name}: {ack.durable}")

    def _check_durable(self, machine: BrokerMachine, term: int, vote: str = "") -> None:
        """A term, and a vote in it, are on the disk; or a later term, in which they do not matter.

        A disk that was full for a while has only the last of several ballots.
        """
        if not term:
            return
        files = machine.disk.files
        paths = [each for each in files.paths() if "__broker_state" in each and ".log" in each]
        kept = [found for path in paths for found in _BALLOT.findall(files.durable_content(path))]
        is_kept = any(
            int(known) > term or (int(known) == term and vote.encode() in {b"", voted})
            for known, voted in kept
        )
        if not is_kept:
            raise Violation("ballots are durable", f"{machine.process.name} told of term {term}")

    # Turns

    def turned(self, machine: BrokerMachine) -> None:
        """Look at a broker after its turn."""
        metadata = quorum_of(machine)
        if metadata is None:
            return
        self._machines[machine.process.name] = machine
        image = metadata.image
        facts = (image.version, metadata.election.term, int(metadata.is_controller))
        is_leader = metadata.epoch_leader is not None
        if self._seen.get(id(machine)) == facts and not is_leader:
            return
        self._seen[id(machine)] = facts
        who = Voter(machine.process.name, machine.process.directory)
        if is_leader:
            self._check_leader(who, metadata.lineage, metadata.election.term)
            self._check_commit(who, metadata)
            self._check_voter_change(who, metadata)
        self._check_image(who, image)
        if metadata.is_controller:
            self._check_complete(who, image.cluster_id, image.version, metadata.election.term)
        if metadata.refusal is not None:
            raise Violation("no leader lacks what is committed", metadata.refusal)

    def _check_leader(self, who: Voter, lineage: str, term: int) -> None:
        known = self._leaders.get((lineage, term))
        if known is None:
            self._leaders[lineage, term] = who
            self.elections_total += 1
            self._check_deposed(who, lineage, term)
        elif known != who:
            raise Violation("one leader per term", f"{known} and {who} in term {term}")

    def _check_commit(self, who: Voter, metadata: QuorumMetadata) -> None:
        """A leader commits what a majority has acknowledged, of both sets while they change."""
        leader, term = metadata.epoch_leader, metadata.election.term
        assert leader is not None
        committed = metadata.log.high_watermark
        before, voters = self._commits.get((who, term), (committed, metadata.election.voters))
        self._commits[who, term] = (committed, metadata.election.voters)
        if committed == before:
            return
        ends = {**self._acked.get((who.broker, term), {}), who: leader.durable_ends(who)[who]}
        for part in (voters.new, voters.old):
            holders = [voter for voter in part if ends.get(voter, 0) >= committed]
            if part and len(holders) <= len(part) // 2:
                known = f"{committed} of term {term} is held by {holders} of {part}"
                raise Violation("a majority holds what is committed", known)

    def _check_voter_change(self, who: Voter, metadata: QuorumMetadata) -> None:
        """Voters change only after a record of the own term is committed."""
        if metadata.is_controller:
            return
        for record in metadata.pending():
            is_own = record.version > metadata.epoch_first
            if is_own and any(isinstance(each, VotersChanged) for each in record.changes):
                raise Violation("own record before voters", f"{who.broker} at {record.version}")

    def _check_deposed(self, who: Voter, lineage: str, term: int) -> None:
        """Nobody who led before may still decide; clocks differ in rate by a tenth."""
        for machine in self._machines.values():
            metadata = quorum_of(machine)
            if machine.is_over or metadata is None or metadata.epoch_leader is None:
                continue
            if metadata.election.term < term and metadata.lineage == lineage:
                left_ns = metadata.election.next_deadline() - machine.process.now().instant
                if left_ns > _DRIFT_NS:
                    names = f"{machine.process.name} before {who.broker}, for {left_ns} ns"
                    raise Violation("one decides at a time", names)

    def _check_image(self, who: Voter, image: MetadataImage) -> None:
        cluster, version, stated = image.cluster_id, image.version, image.stated()
        if not cluster:
            return
        self._check_ids(cluster, stated)
        history = self._images.setdefault(cluster, {})
        known = history.get(version)
        if not image.is_whole:
            # The rest of a statement is in later records: nobody decides by this.
            if known is None:
                return
            stated = msgspec.structs.replace(
                stated,
                access_count=known.access_count,
                access_sum=known.access_sum,
                schema_sum=known.schema_sum,
            )
        known = history.setdefault(version, stated)
        if known != stated:
            raise Violation("one history", f"{who.broker} at {version}: {stated} is not {known}")

    def _check_ids(self, cluster: str, stated: ImageStated) -> None:
        """An id belongs to one directory until the image no longer has it."""
        known = self._owners.get(cluster, {})
        if stated.version <= self._owners_at.get(cluster, 0):
            return
        owners = {each.registration.broker: each.voter.directory for each in stated.brokers}
        for broker, directory in owners.items():
            if known.get(broker, directory) != directory:
                raise Violation("an id has one directory", f"{broker} at {stated.version}")
        self._owners[cluster], self._owners_at[cluster] = owners, stated.version

    def _check_complete(self, who: Voter, cluster: str, version: int, term: int) -> None:
        """A broker that may decide has all that was committed before it was elected."""
        if (cluster, term) not in self._decided:
            self._decided[cluster, term] = None
            newest = self._newest.get(cluster, 0)
            if version < newest:
                lost = f"{who.broker} decides in term {term} at {version}, committed was {newest}"
                raise Violation("committed changes are kept", lost)
        self._newest[cluster] = max(version, self._newest.get(cluster, 0))

    def halting(self, machine: BrokerMachine, reason: str) -> None:
        """A node ends its process: only for what a run does to it."""
        if not machine.disk.faults.is_full:
            raise Violation("no halt", f"{machine.process.name}: {reason}")

    # The end

    def check_healed(self, machines: list[BrokerMachine]) -> None:
        """Ten seconds after all faults ended: one controller, and everybody knows the same."""
        found = [each.node.cluster.metadata for each in machines if each.node.cluster is not None]
        metadata = [each for each in found if each is not None]
        if len(metadata) != len(machines):
            raise Violation("liveness", "a broker did not start")
        controllers = [each for each in metadata if each.is_controller]
        if len(controllers) != 1:
            raise Violation("liveness", f"{len(controllers)} controllers")
        images = [each.image.stated() for each in metadata]
        if any(image != images[0] for image in images):
            versions = [image.version for image in images]
            raise Violation("liveness", f"images differ: {versions}")
        for machine in machines:
            member = machine.node.cluster
            assert member is not None
            if member.registered is None:
                name = machine.process.name
                raise Violation("liveness", f"{name} is not registered: {member.problem}")


def _term_told(message: VoteReply | VoteRequest | ReplicaAck) -> int:
    """The term that a message says its sender has reached; a pre-vote says none."""
    if isinstance(message, VoteRequest):
        return 0 if message.is_pre_vote else message.term
    return message.epoch if isinstance(message, ReplicaAck) else message.term
