"""What goes wrong when talking to a server, as exceptions.

Owns the few classes that callers catch; everything else is told apart by `code`, whose values
are those of the API contract and never change. Imports nothing, so that naming an error costs
nothing. Never words a sentence of its own where the server sent one.

Invariant: every failure that a caller can see is a `GoQueueError`.
"""

from collections.abc import Mapping

__all__ = [
    "AlreadyDelivered",
    "Closed",
    "GoQueueError",
    "MessageTooLarge",
    "NotAllowed",
    "NotFound",
    "RateLimited",
    "ReceiptStale",
    "ServerUnreachable",
    "TopicExists",
    "TopicNotFound",
    "refusal",
]


class GoQueueError(Exception):
    """A request that was refused: a stable code, a sentence for people, and facts.

    `status` is that of HTTP, or 0 where no server was asked. `retry_after_s` is the wait that the
    server asks for, if it does.
    """

    def __init__(
        self,
        code: str,
        sentence: str,
        *,
        status: int = 0,
        details: Mapping[str, object] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(code, sentence)
        self.code = code
        self.sentence = sentence
        self.status = status
        self.details: Mapping[str, object] = details or {}
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.code}: {self.sentence}"


class ServerUnreachable(GoQueueError):
    """No answer: not connected, connection lost, or none in time.

    `was_sent` tells that the request may have reached the server: the outcome is unknown.
    """

    def __init__(self, sentence: str, *, was_sent: bool = False) -> None:
        super().__init__("server_unreachable", sentence)
        self.was_sent = was_sent


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


class ReceiptStale(GoQueueError):
    """The lease of this delivery is over: it expired, was settled, or was reset."""


_BY_CODE: dict[str, type[GoQueueError]] = {
    "already_delivered": AlreadyDelivered,
    "message_too_large": MessageTooLarge,
    "permission_denied": NotAllowed,
    "rate_limited": RateLimited,
    "receipt_stale": ReceiptStale,
    "topic_exists": TopicExists,
    "topic_not_found": TopicNotFound,
    "unauthenticated": NotAllowed,
}


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
    return kind(code, sentence, status=status, details=details, retry_after_s=retry_after_s)
