"""From a list of addresses to the first term: a blank broker joins, forms a cluster or waits.

Owns what a broker without a cluster learned about the others. Decides only who may vote; the
election itself, and whether the first record of a cluster is ever committed, belong to the quorum.

Rules
- A peer that belongs to a cluster decides it: join that one, whatever the own list says.
- The configured addresses are the electorate: their number, not the number reached, is what a
  majority is taken of. A peer with another list does not count, and is named.
- Of more than `VOTERS_MAX` addresses the first ones, sorted, are the electorate. The others wait
  for the cluster and join it; only its controller may let them vote later.
- A silent address may hide a cluster, so it is waited for. Two blank brokers of three (one that
  never came, one that was wiped) would form a second cluster; only a quorum of all excludes that.
- A log may name a cluster of which its broker does not know that it came about: it lost power too
  early. If a majority of the voters of that cluster is here, theirs is the lead: a blank broker
  that formed another one, with a broker that was wiped meanwhile, could undo what was committed.
- A peer counts while it is connected. One that was blank when it was last seen may have formed a
  cluster since, with a broker that was wiped after that.
- An own address that no peer lists, or an own id that another directory uses, is an error.

An address that stays silent votes as a stand-in that never answers: see `stand_in`.

Invariant: two brokers with the same list form clusters whose majorities share an address.
"""

from collections.abc import Iterable

import msgspec

from goqueue.cluster.voters import VOTERS_MAX, Voter, Voters
from goqueue.model import SECOND, Instant, PeerIdentity

__all__ = [
    "SILENCE_NS",
    "Bootstrap",
    "BootstrapDecision",
    "FollowCluster",
    "FormCluster",
    "Misconfigured",
    "PeerFacts",
    "WaitForPeers",
    "stand_in",
]

# How long an address may hide a cluster.
SILENCE_NS = 30 * SECOND
# Nodes of a cluster start one after the other: until then a silent address is no news.
_EXPECTED_NS = 5 * SECOND


class PeerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a handshake says of a peer; `addresses` are its configured ones with its own."""

    voter: Voter
    address: str
    addresses: tuple[str, ...] = ()
    cluster_id: str = ""
    attempt: Voters = Voters(())

    @classmethod
    def of(cls, peer: PeerIdentity) -> "PeerFacts":
        return cls(
            voter=Voter(peer.broker, peer.directory),
            address=peer.address,
            addresses=tuple(sorted({peer.address, *peer.peers})),
            cluster_id=peer.cluster_id,
            attempt=Voters(tuple(Voter(*each) for each in peer.attempt)),
        )


class WaitForPeers(msgspec.Struct, frozen=True, kw_only=True):
    """Not yet: too few brokers were reached, or an address is silent and may hide a cluster."""

    silent: tuple[str, ...]
    other_lists: tuple[str, ...] = ()
    until: Instant | None = None
    # Whether others may simply not have started yet.
    is_expected: bool = False

    @property
    def reason(self) -> str | None:
        """Whom this broker waits for, and who is there and does not count."""
        if self.is_expected and not self.other_lists:
            return None
        silent = [each for each in self.silent if each not in self.other_lists]
        words = [f"waiting for {', '.join(silent)}"] if silent else []
        if self.other_lists:
            words.append(f"other peers than here are listed by {', '.join(self.other_lists)}")
        return "; ".join(words) or None


class FollowCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Join this cluster as a broker that does not vote."""

    cluster_id: str


class FormCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Elect a first leader among these."""

    voters: Voters


class Misconfigured(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting would not help: an operator must change a setting, of this node if `is_fatal`."""

    reason: str
    is_fatal: bool = False


BootstrapDecision = WaitForPeers | FollowCluster | FormCluster | Misconfigured


def stand_in(address: str) -> Voter:
    """The voter of an address at which nobody was reached; it never votes."""
    return Voter(address, "")


class Bootstrap:
    """What a broker without a cluster knows about its peers."""

    def __init__(
        self,
        me: Voter,
        address: str,
        peers: Iterable[str],
        *,
        quorum: int | None = None,
        now: Instant,
    ) -> None:
        self._me = me
        self._address = address
        self._addresses = tuple(sorted({address, *peers}))
        self._electorate = self._addresses[:VOTERS_MAX]
        assert quorum is None or quorum <= len(self._addresses), "checked by settings"
        self._quorum = quorum or 0
        self._waits_until = Instant(now + SILENCE_NS)
        self._expected_until = Instant(now + _EXPECTED_NS)
        self._met: dict[str, PeerFacts] = {}

    @property
    def addresses(self) -> tuple[str, ...]:
        """The configured addresses with the own one, sorted."""
        return self._addresses

    def meet(self, peer: PeerFacts) -> None:
        """Learn who is at an address; the newest handshake counts."""
        self._met[peer.address] = peer

    def lose(self, address: str) -> None:
        """Nobody is connected at an address any more: what it said may not be true by now."""
        self._met.pop(address, None)

    def decide(self, now: Instant) -> BootstrapDecision:
        """What to do with what is known now."""
        clusters = sorted({peer.cluster_id for peer in self._met.values() if peer.cluster_id})
        if len(clusters) > 1:
            return Misconfigured(reason=f"peers belong to different clusters: {clusters}")
        if clusters:
            return FollowCluster(cluster_id=clusters[0])
        problem = self._problem(now)
        if problem is not None:
            return problem
        agreeing = {
            address: peer
            for address, peer in self._met.items()
            if address in self._addresses and peer.addresses == self._addresses
        }
        silent = tuple(
            address
            for address in self._addresses
            if address not in agreeing and address != self._address
        )
        reached = {self._address, *agreeing}
        electors = [address for address in self._electorate if address in reached]
        is_majority = len(electors) > len(self._electorate) // 2
        is_enough = is_majority and len(reached) >= self._quorum
        if (
            not is_enough
            or self._is_attempted()
            or self._address not in self._electorate
            or (silent and now < self._waits_until)
        ):
            return WaitForPeers(
                silent=silent,
                other_lists=tuple(sorted(set(self._met) - set(agreeing))),
                until=self._waits_until if is_enough and silent else None,
                is_expected=now < self._expected_until,
            )
        known = {self._address: self._me}
        known |= {address: peer.voter for address, peer in agreeing.items()}
        voters = [known.get(address) or stand_in(address) for address in self._electorate]
        return FormCluster(voters=Voters(tuple(sorted(voters))))

    def _is_attempted(self) -> bool:
        """Whether the voters of a cluster that a log names are here, and may go on with it."""
        here = {self._me, *(peer.voter for peer in self._met.values())}
        return any(
            peer.attempt.new and peer.attempt.is_majority(here) for peer in self._met.values()
        )

    def _problem(self, now: Instant) -> Misconfigured | None:
        owners = {self._me.broker: self._address}
        for address, peer in sorted(self._met.items()):
            if peer.voter.broker in owners:
                other = owners[peer.voter.broker]
                reason = f"{address} and {other} use the same node id {peer.voter.broker}"
                return Misconfigured(reason=reason)
            owners[peer.voter.broker] = address
        others = len(self._addresses) - 1
        is_settled = len(self._met) >= others or now >= self._waits_until
        if self._met and is_settled and not self._is_listed():
            reason = f"no peer lists the own address {self._address}"
            return Misconfigured(reason=reason, is_fatal=True)
        return None

    def _is_listed(self) -> bool:
        return any(self._address in peer.addresses for peer in self._met.values())
