"""What goes wrong when talking to a server, as exceptions.

Owns the few classes that callers catch; everything else is told apart by `code`, whose values
are those of the API contract and never change. Imports nothing, so that naming an error costs
nothing. Never words a sentence of its own where the server sent one.

Invariant: every failure that a caller can see is a `GoQueueError`.
"""

from collections.abc import Mapping
from typing import NoReturn

__all__ = [
    "AlreadyDelivered",
    "ArgumentInvalid",
    "Closed",
    "DecodeError",
    "GoQueueError",
    "LeaderUnavailable",
    "MessageTooLarge",
    "NoReply",
    "NotAllowed",
    "NotEnoughReplicas",
    "NotFound",
    "ProducerFenced",
    "ProducerNotFound",
    "RateLimited",
    "ReceiptStale",
    "ReplicationFailed",
    "SequenceOutOfOrder",
    "ServerUnreachable",
    "TimedOut",
    "TlsError",
    "TopicExists",
    "TopicNotFound",
    "TransactionAborted",
    "TransactionNotFound",
    "TransactionOutcomeUnknown",
    "TransactionStateInvalid",
    "TransactionTimedOut",
    "copy_of",
    "raise_for",
    "refusal",
]


class GoQueueError(Exception):
    """A request that was refused: a stable code, a sentence for people, and facts.

    `status` is that of HTTP, or 0 where no server was asked. `retry_after_s` is the wait that the
    server asks for, if it does. `is_outcome_unknown` tells that what was asked may have been done,
    by this attempt or by an earlier one.
    """

    def __init__(
        self,
        code: str,
        sentence: str,
        *,
        status: int = 0,
        details: Mapping[str, object] | None = None,
        retry_after_s: float | None = None,
        is_outcome_unknown: bool = False,
    ) -> None:
        super().__init__(code, sentence)
        self.code = code
        self.sentence = sentence
        self.status = status
        self.details: Mapping[str, object] = details or {}
        self.retry_after_s = retry_after_s
        self.is_outcome_unknown = is_outcome_unknown

    def __str__(self) -> str:
        return f"{self.code}: {self.sentence}"


class ServerUnreachable(GoQueueError):
    """No answer: not connected, connection lost, or none in time.

    `was_sent` tells that the request may have reached the server: the outcome is unknown.
    """

    def __init__(self, sentence: str, *, was_sent: bool = False) -> None:
        super().__init__("server_unreachable", sentence, is_outcome_unknown=was_sent)

    @property
    def was_sent(self) -> bool:
        return self.is_outcome_unknown


class TimedOut(ServerUnreachable, TimeoutError):
    """The time that `goqueue.timeout` gave to a call is over, and there is no answer."""


class TlsError(GoQueueError):
    """No secure connection: the certificate of one side is not accepted, or one speaks no TLS.

    Trying again does not help: somebody has to change a file or a setting, which the sentence
    names. Nothing was sent.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__("tls_failed", sentence)


class ArgumentInvalid(GoQueueError, ValueError):
    """An argument that is none of the allowed values; nothing was sent."""

    def __init__(self, sentence: str) -> None:
        super().__init__("request_invalid", sentence)


class DecodeError(GoQueueError, ValueError):
    """A value or a header is not what the program reads it as; `__cause__` is the first error.

    `path` is the place in the value as a JSON pointer, empty where none is known; `reason` says
    what is wrong there.
    """

    def __init__(self, sentence: str, *, path: str = "", reason: str = "") -> None:
        details = {"path": path, "reason": reason or sentence}
        super().__init__("decode_failed", sentence, details=details)
        self.path = path
        self.reason = reason or sentence


class Closed(GoQueueError):
    """Used after it was closed."""

    def __init__(self, sentence: str) -> None:
        super().__init__("closed", sentence)


class NotFound(GoQueueError):
    """What the request names does not exist."""


class TopicNotFound(NotFound):
    """No such topic."""


class TopicExists(GoQueueError):
    """There is already a topic of this name."""


class NotAllowed(GoQueueError):
    """No key, a wrong key, or a key that may not do this."""


class RateLimited(GoQueueError):
    """Over the tenant's quota; nothing was done."""


class AlreadyDelivered(GoQueueError):
    """A delayed message was delivered before it could be cancelled."""


class MessageTooLarge(GoQueueError):
    """Larger than the topic takes, or than any record can be."""


class NoReply(GoQueueError):
    """Nobody replied to a request in time; its message was published, and may still be handled."""


class LeaderUnavailable(GoQueueError):
    """No node leads the partition at present, or another one does by now; nothing was done."""


class NotEnoughReplicas(GoQueueError):
    """Too few replicas of the partition are in sync; nothing was written."""


class ReplicationFailed(GoQueueError):
    """Written, and not confirmed by enough replicas in time: the outcome is unknown."""


class ReceiptStale(GoQueueError):
    """The lease of this delivery is over: it expired, was settled, or was reset."""


class ProducerFenced(GoQueueError):
    """Another process took over the transactional id: this one is to end."""


class ProducerNotFound(NotFound):
    """The broker does not know the producer, or has forgotten it."""


class SequenceOutOfOrder(GoQueueError):
    """A batch does not follow the one before it, and is no repeat that the broker remembers."""


class TransactionNotFound(NotFound):
    """No such transaction, or none any more."""


class TransactionStateInvalid(GoQueueError):
    """None is open, one is open already, or it is ending."""


class TransactionAborted(GoQueueError):
    """Nothing of the transaction will ever be seen; `__cause__` tells why it was given up."""


class TransactionTimedOut(TransactionAborted):
    """It ran past its time, or its producer was silent: the broker aborted it."""


class TransactionOutcomeUnknown(GoQueueError):
    """The commit was asked for and not answered: all of the transaction is seen, or nothing."""

    def __init__(self, sentence: str) -> None:
        super().__init__("transaction_outcome_unknown", sentence, is_outcome_unknown=True)


_BY_CODE: dict[str, type[GoQueueError]] = {
    "already_delivered": AlreadyDelivered,
    "leader_unavailable": LeaderUnavailable,
    "message_too_large": MessageTooLarge,
    "no_reply": NoReply,
    "not_enough_replicas": NotEnoughReplicas,
    "not_leader": LeaderUnavailable,
    "permission_denied": NotAllowed,
    "producer_fenced": ProducerFenced,
    "producer_not_found": ProducerNotFound,
    "rate_limited": RateLimited,
    "receipt_stale": ReceiptStale,
    "replication_failed": ReplicationFailed,
    "sequence_out_of_order": SequenceOutOfOrder,
    "topic_exists": TopicExists,
    "topic_not_found": TopicNotFound,
    "transaction_not_found": TransactionNotFound,
    "transaction_state_invalid": TransactionStateInvalid,
    "transaction_timeout": TransactionTimedOut,
    "unauthenticated": NotAllowed,
}

# Answers that leave open whether what was asked was done.
_UNDECIDED = frozenset({"internal_error", "replication_failed", "request_timeout"})


def refusal(
    code: str,
    sentence: str,
    *,
    status: int = 0,
    details: Mapping[str, object] | None = None,
    retry_after_s: float | None = None,
) -> GoQueueError:
    """The exception for a code of the contract."""
    kind = _BY_CODE.get(code, NotFound if status == 404 else GoQueueError)
    return kind(
        code,
        sentence,
        status=status,
        details=details,
        retry_after_s=retry_after_s,
        is_outcome_unknown=code in _UNDECIDED,
    )


def copy_of(error: GoQueueError) -> GoQueueError:
    """Another error that says the same.

    An error that is raised refers to the frames that it passes through, and to all that they hold.
    An object that keeps an error and raises copies of it keeps none of its callers alive.
    """
    kind = type(error)
    copied = kind.__new__(kind, *error.args)
    copied.__dict__.update(error.__dict__)
    copied.__cause__ = error.__cause__
    return copied.with_traceback(error.__traceback__)


def raise_for(error: GoQueueError, cause: GoQueueError) -> NoReturn:
    """Raise an error because of another, or as it is if that is the same."""
    if error is cause:
        raise error
    raise error from cause
