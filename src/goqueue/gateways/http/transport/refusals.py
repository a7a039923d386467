"""What the transport itself turns down, before or instead of the application.

The contract's table of codes has one status per code. Where HTTP has a more exact status for a
fault of the wire (431, 501, 505) that one is used with the code `request_invalid`. A peer that is
too slow gets what the contract has for time that ran out, 504 `request_timeout`, not 408: clients
treat 408 as leave to send the request again by themselves.
"""

from types import MappingProxyType

import msgspec

from goqueue.model import Code

__all__ = [
    "BODIES_FULL",
    "BODY_SLOW",
    "CUT_SHORT",
    "FAULT",
    "HEAD_SLOW",
    "HEAD_TOO_LARGE",
    "STOPPING",
    "TOO_MANY_CONNECTIONS",
    "UNSENT_FULL",
    "UNSUPPORTED_CODING",
    "UNSUPPORTED_VERSION",
    "Refusal",
    "body_too_large",
    "malformed",
]


class Refusal(msgspec.Struct, frozen=True):
    """A refusal before the application has put it into a response."""

    status: int
    code: Code
    sentence: str
    limit: int | None = None

    @property
    def details(self) -> MappingProxyType[str, int]:
        return MappingProxyType({} if self.limit is None else {"limit": self.limit})


def malformed(reason: str) -> Refusal:
    return Refusal(400, Code.REQUEST_INVALID, f"This is not a valid HTTP request: {reason}.")


def body_too_large(limit: int) -> Refusal:
    sentence = f"The body is larger than the {limit} bytes allowed here."
    return Refusal(413, Code.BODY_TOO_LARGE, sentence, limit)


CUT_SHORT = malformed("it ended before it was complete")
HEAD_TOO_LARGE = Refusal(431, Code.REQUEST_INVALID, "The head of the request is too large.")
UNSUPPORTED_CODING = Refusal(
    501, Code.REQUEST_INVALID, "The only transfer coding understood is chunked."
)
UNSUPPORTED_VERSION = Refusal(505, Code.REQUEST_INVALID, "Only HTTP/1.1 and HTTP/1.0 are spoken.")
HEAD_SLOW = Refusal(
    504, Code.REQUEST_TIMEOUT, "The head of the request took too long; nothing was done."
)
BODY_SLOW = Refusal(
    504, Code.REQUEST_TIMEOUT, "The body of the request took too long; nothing was done."
)
TOO_MANY_CONNECTIONS = Refusal(503, Code.BROKER_UNAVAILABLE, "Too many connections are open.")
BODIES_FULL = Refusal(
    503, Code.BROKER_UNAVAILABLE, "Too many request bodies are under way; nothing was done."
)
UNSENT_FULL = Refusal(
    503, Code.BROKER_UNAVAILABLE, "Too many answers wait to be read; nothing was done."
)
STOPPING = Refusal(503, Code.BROKER_UNAVAILABLE, "The node is stopping; nothing was done.")
FAULT = Refusal(500, Code.INTERNAL_ERROR, "The request met a fault of the broker.")
