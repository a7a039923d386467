"""What brokers say to each other about votes and membership (numbers 32 to 63).

`lineage` is the id of the cluster that the metadata log of the sender belongs to, committed or not;
empty while its log names none. Brokers of two clusters do not believe each other.
"""

import msgspec

from goqueue.model.peer_numbers import PeerCounter

__all__ = [
    "LeadershipOffer",
    "LogEnd",
    "MetadataMessage",
    "RegisterBroker",
    "RegistrationRefused",
    "VoteMessage",
    "VoteReply",
    "VoteRequest",
]


class LogEnd(msgspec.Struct, frozen=True, order=True, array_like=True):
    """How far a log goes: compared by the term of its last record first, as Raft does."""

    term: PeerCounter = 0
    end: PeerCounter = 0


class VoteRequest(msgspec.Struct, frozen=True, array_like=True, tag=32, kw_only=True):
    """Vote for the sender in `term`; as a pre-vote only say whether you would.

    `is_transfer`: the leader itself asked the sender to follow it.
    """

    term: PeerCounter
    log: LogEnd
    is_pre_vote: bool = False
    is_transfer: bool = False
    lineage: str = ""


class VoteReply(msgspec.Struct, frozen=True, array_like=True, tag=33, kw_only=True):
    """The reply to the request for `asked`; `term` is the voter's own."""

    asked: PeerCounter
    term: PeerCounter
    is_granted: bool
    is_pre_vote: bool = False


class LeadershipOffer(msgspec.Struct, frozen=True, array_like=True, tag=34, kw_only=True):
    """The leader of a term stepped down: stand for election at once."""

    term: PeerCounter
    lineage: str = ""


class RegisterBroker(msgspec.Struct, frozen=True, array_like=True, tag=48, kw_only=True):
    """Register the sender: to the controller, until the image has it."""

    lineage: str
    client_address: str = ""
    rack: str = ""
    level_min: PeerCounter = 1
    level_max: PeerCounter = 1
    release: str = ""
    # The metadata version in which the sender found that it is not registered.
    version: PeerCounter = 0
    # Whether it lacks nothing that an earlier run had written: all runs before stopped cleanly.
    is_clean: bool = False


class RegistrationRefused(msgspec.Struct, frozen=True, array_like=True, tag=49, kw_only=True):
    """The controller does not register a broker; it may try again after an operator acted."""

    reason: str


VoteMessage = VoteRequest | VoteReply | LeadershipOffer
MetadataMessage = RegisterBroker | RegistrationRefused
