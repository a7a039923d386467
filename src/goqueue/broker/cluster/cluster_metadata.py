"""The port between what a cluster agrees on and where the agreement lies.

`ClusterMetadata` is what the controller, the follower of the image and all above them know.
`QuorumMetadata` keeps the metadata in a log of the brokers themselves and elects its leader by
votes; `ExternalMetadata` keeps the same records in an external store, whose lease elects. Only
`ClusterMember`, which creates one of them, knows which.

What both promise
- The image changes by committed records alone, in order, each of them once (`take_applied`).
- Only the controller proposes, one record at a time, on an image that says all that is committed.
  The answers of a proposal leave when its record is applied; when this broker stops deciding
  before that, they say that the outcome is not known.
- Two controllers never commit in one term, and none commits what its term was too old for.
"""

from collections.abc import Sequence
from typing import Protocol

from goqueue.broker.cluster.cluster_config import ClusterConfig
from goqueue.broker.cluster.metadata_records import MetadataRecord
from goqueue.cluster import MetadataChange, MetadataImage, Voter
from goqueue.model import Answer, Instant, Now, RequestId, VoteRequest

__all__ = ["ClusterMetadata", "Election"]


class Election(Protocol):
    """Who decides, as far as this broker knows."""

    @property
    def leader(self) -> Voter | None: ...

    @property
    def term(self) -> int: ...


class ClusterMetadata(Protocol):
    """The metadata of a cluster, as one of its brokers sees them."""

    @property
    def config(self) -> ClusterConfig: ...

    @property
    def image(self) -> MetadataImage:
        """What is committed, as far as this broker knows."""

    @property
    def election(self) -> Election: ...

    @property
    def is_leading(self) -> bool:
        """Whether this broker was elected; it may not decide yet."""

    @property
    def is_controller(self) -> bool:
        """Whether this broker decides: it was elected, and has all that was committed before."""

    @property
    def may_propose(self) -> bool:
        """Whether it decides, and nothing is on its way."""

    @property
    def wants_statement(self) -> bool:
        """Whether the log of changes should begin anew with the image."""

    @property
    def refusal(self) -> str | None:
        """Why this broker does not follow."""

    @property
    def lineage(self) -> str:
        """The cluster that the log belongs to, committed or not; empty if it names none."""

    def may_vote(self, broker: Voter, /) -> bool:
        """Whether a broker that does not vote yet could."""

    def take_applied(self) -> list[MetadataRecord]:
        """The records that were applied to the image since the last call."""

    def next_deadline(self) -> Instant | None: ...

    def propose(
        self, changes: Sequence[MetadataChange], answers: Sequence[Answer], now: Now, /
    ) -> int:
        """Write changes that were decided on the present image; the version that they will have."""

    def connect(self, who: Voter, /) -> None:
        """A broker can be reached."""

    def disconnect(self, broker: str, /) -> None: ...

    def lose(self, broker: str, now: Now, /) -> None:
        """The process of a broker is gone: if it decided, nobody need wait for it."""

    def ask_vote(
        self, candidate: Voter, asked: VoteRequest, caller: RequestId, now: Now, /
    ) -> None:
        """A caller asks on behalf of a candidate."""

    def hear_term(self, term: int, answer: Answer, now: Now, /) -> None:
        """A caller knows of a term; it is answered when that is durable."""

    def broker_state_durable(self, number: int, now: Now, /) -> None:
        """The states of this broker up to a number are durable."""

    def resign(self, now: Now, /) -> None:
        """This broker stops: let another one decide."""

    def wake(self, now: Now, /) -> None:
        """A deadline has come."""
