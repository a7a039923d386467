"""What this broker says of itself each half second, and what it hears of others.

A heartbeat says that the broker runs, by which image it decides, how late its loop is, whether its
disk is full, whether it is about to stop, and how far the learners of its partitions are. Nothing
of it is durable, and nothing depends on it but when somebody is missed.
"""

from collections.abc import Iterable

from goqueue.broker.cluster.departure import Departure
from goqueue.broker.cluster.heartbeats import Heartbeats
from goqueue.broker.cluster.move_progress import MoveProgressBoard
from goqueue.broker.replication.replicas import Replicas
from goqueue.broker.state import NodeState
from goqueue.cluster import Liveness, MetadataImage, RegisteredBroker, Voter
from goqueue.model import MILLISECOND, Heartbeat, Now, PeerMessage, Send

__all__ = ["Presence"]


class Presence:
    """The heartbeats of this broker, and those of others."""

    def __init__(
        self, state: NodeState, liveness: Liveness, heartbeats: Heartbeats, replicas: Replicas
    ) -> None:
        self._state = state
        self.liveness = liveness
        self.heartbeats = heartbeats
        self.replicas = replicas
        # How far partitions are that move.
        self.moves = MoveProgressBoard(state)
        self.departure = Departure(state, liveness, replicas.handovers)
        # Whether the node takes no commands any more.
        self.is_stopping = False
        self.lag_ns = 0

    @property
    def is_leaving(self) -> bool:
        """Whether this broker stops, or is about to."""
        return self.is_stopping or self.departure.is_begun

    def send(
        self,
        brokers: Iterable[str],
        registered: RegisteredBroker | None,
        *,
        version: int,
        now: Now,
    ) -> None:
        """Say to others how this broker is."""
        message = Heartbeat(
            broker_epoch=registered.epoch if registered else 0,
            metadata_version=version,
            loop_lag_ms=self.lag_ns // MILLISECOND,
            sent_at=now.wall,
            is_leaving=self.is_leaving,
            is_full=bool(self._state.storage.full),
            uses=self._state.security.meters.take_untold(),
            moves=self.replicas.move_progress(),
            is_resigning=self.departure.is_resigning,
        )
        self.moves.hear(message.moves, self.replicas.image)
        # The controller may be here.
        self.liveness.hear_heartbeat(self._state.node_id, message)
        for broker in brokers:
            self._state.outbox.append(Send(broker=broker, message=message))

    def hear(
        self, sender: Voter, message: PeerMessage, image: MetadataImage, now: Now
    ) -> Heartbeat | None:
        """A broker says something: a member runs, and perhaps says how it is."""
        known = image.brokers.get(sender.broker)
        if known is None or known.voter != sender:
            return None
        self.liveness.hear(sender.broker, now.instant)
        self.heartbeats.hear(sender.broker, message, now)
        if not isinstance(message, Heartbeat):
            return None
        self._state.security.meters.charge_elsewhere(message.uses, now.instant)
        self.moves.hear(message.moves, image)
        return message
