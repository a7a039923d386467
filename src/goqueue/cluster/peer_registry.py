"""Which links count: at most one for each broker and lane. Without IO.

Both ends of a pair judge by the same rules, so the same link survives on both sides, whoever
dialled first and in whatever order bytes arrive (docs/adr/0046-peer-links.md has the table).

Invariants
- For each broker and lane there is at most one link; all links of a broker are of one directory and
  one incarnation.
- Once a link of an incarnation was open, none of a lower one opens again in this process.
- A number with which an incarnation dialled a lane is accepted once.

Cost: dictionary accesses. What is remembered is bounded by `BROKERS_MAX`.
"""

from typing import Generic, TypeVar

from goqueue.cluster.peer_handshake import LinkRefused, Offer, RefusalReason
from goqueue.model import PeerLane

__all__ = ["BROKERS_MAX", "PeerRegistry"]

BROKERS_MAX = 64

T = TypeVar("T")


class _Life:
    """What is known of one broker's data directory: its newest life, and how it dialled."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        # The highest number that it dialled with, by lane.
        self.numbers: dict[PeerLane, int] = {}


class PeerRegistry(Generic[T]):
    """The open links of one broker; `T` is what stands for a link outside."""

    def __init__(self, own_broker: str) -> None:
        self._own_broker = own_broker
        self._links: dict[tuple[str, PeerLane], tuple[Offer, T]] = {}
        # By broker and directory, the one that was heard last at the end.
        self._lives: dict[tuple[str, str], _Life] = {}

    def find(self, broker: str, lane: PeerLane) -> T | None:
        """The link that counts."""
        found = self._links.get((broker, lane))
        return None if found is None else found[1]

    def links(self) -> list[tuple[Offer, T]]:
        """Every link that counts."""
        return list(self._links.values())

    def judge(self, offer: Offer) -> None:
        """Raise LinkRefused if a link like this would not count."""
        peer, lane = offer.peer, offer.lane
        for other in PeerLane:
            present = self._links.get((peer.broker, other))
            if present is not None and present[0].peer.directory != peer.directory:
                words = f"a broker with the id {peer.broker} and another directory is connected"
                raise LinkRefused(RefusalReason.BROKER_ID_TAKEN, words)
        life = self._lives.get((peer.broker, peer.directory))
        if life is None:
            if len({broker for broker, _ in self._links}) >= BROKERS_MAX:
                raise LinkRefused(RefusalReason.TOO_MANY_BROKERS, f"{BROKERS_MAX} are connected")
            return
        if peer.incarnation < life.incarnation:
            words = f"incarnation {life.incarnation} has been here"
            raise LinkRefused(RefusalReason.INCARNATION_STALE, words)
        if peer.incarnation > life.incarnation:
            return
        if not offer.is_dialled and offer.number <= life.numbers.get(lane, 0):
            raise LinkRefused(RefusalReason.REPLAYED, f"attempt {offer.number} was made before")
        present = self._links.get((peer.broker, lane))
        if present is not None:
            self._compare(present[0], offer)

    def _compare(self, present: Offer, offer: Offer) -> None:
        """Raise LinkRefused unless the offered link is better than the present one."""
        own = self._own_broker
        if present.is_dialled == offer.is_dialled:
            # Two addresses of one broker lead to two dialled links; of those that it dialled the
            # newer is better, as it has given the older up.
            is_better = not offer.is_dialled
        else:
            dialler = own if offer.is_dialled else offer.peer.broker
            is_better = dialler == min(own, offer.peer.broker)
        if not is_better:
            raise LinkRefused(RefusalReason.DUPLICATE, "there is a link", own)

    def add(self, offer: Offer, link: T) -> list[T]:
        """Count a link that was judged; returns those that it ends, which no longer count."""
        peer = offer.peer
        key = (peer.broker, peer.directory)
        life = self._lives.pop(key, None)
        if life is None or life.incarnation < peer.incarnation:
            life = _Life(peer.incarnation)
            ended = self._take_all(peer.broker)
        else:
            assert life.incarnation == peer.incarnation, "a stale link was judged to count"
            present = self._links.pop((peer.broker, offer.lane), None)
            ended = [] if present is None else [present[1]]
        self._lives[key] = life
        self._forget_lives()
        if not offer.is_dialled:
            life.numbers[offer.lane] = offer.number
        self._links[peer.broker, offer.lane] = (offer, link)
        return ended

    def _take_all(self, broker: str) -> list[T]:
        found = [self._links.pop((broker, lane), None) for lane in PeerLane]
        return [each[1] for each in found if each is not None]

    def _forget_lives(self) -> None:
        """Forget the broker that was connected longest ago, never one that has a link."""
        if len(self._lives) <= 2 * BROKERS_MAX:
            return
        connected = {(offer.peer.broker, offer.peer.directory) for offer, _ in self.links()}
        for key in self._lives:
            if key not in connected:
                del self._lives[key]
                return

    def remove(self, offer: Offer, link: T) -> bool:
        """A link has ended; whether it counted until now."""
        key = (offer.peer.broker, offer.lane)
        present = self._links.get(key)
        if present is None or present[1] is not link:
            return False
        del self._links[key]
        return True
