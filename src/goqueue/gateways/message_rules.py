"""What every gateway refuses in a single message, in the same words."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from goqueue.model import (
    GIVEN_HEADERS_BYTES_MAX,
    NONCONFORMING,
    RESERVED_PREFIX,
    Code,
    Header,
    Refused,
)
from goqueue.model.requests import Publish, Published
from goqueue.records import Unroutable

__all__ = ["UNROUTABLE", "checked_headers", "count_refused", "refusal_at", "reworded"]

_HEADERS_MAX = 64
_HEADER_NAME_BYTES_MAX = 249
_HEADER_VALUE_BYTES_MAX = 4096

# Why the broker gave a record no partition.
UNROUTABLE: dict[Unroutable, Refused] = {
    Unroutable.TOO_LARGE: Refused(Code.MESSAGE_TOO_LARGE),
    Unroutable.NO_KEY: Refused(
        Code.MESSAGE_INVALID, reason="a message of a compacted topic needs a key"
    ),
    Unroutable.NO_PARTITION: Refused(Code.PARTITION_NOT_FOUND),
    Unroutable.BAD_PARTITION: Refused(Code.PARTITION_INVALID),
    Unroutable.RESERVED: Refused(
        Code.MESSAGE_INVALID, reason="keys and header names that begin with `gq.` are reserved"
    ),
    Unroutable.HEADERS: Refused(
        Code.MESSAGE_INVALID,
        reason=f"the headers of a message have at most {GIVEN_HEADERS_BYTES_MAX} bytes together",
    ),
}


async def count_refused(
    ask: Callable[[Publish, type[Published]], Awaitable[Published]],
    topic: str,
    refused: Mapping[Code, int],
) -> None:
    """Have the node count messages that a gateway refused, so many for each code.

    A publish of no message carries the counts; whether the topic exists is not what was asked.
    """
    with suppress(Refused):
        await ask(Publish(topic=topic, batch=bytearray(), refused=dict(refused)), Published)


def refusal_at(published: Published, index: int) -> Refused:
    """Why the record at this place of a publish has no partition."""
    target = published.targets[index]
    if target != NONCONFORMING:
        return UNROUTABLE[Unroutable(target)]
    found = published.violations[index]
    at = f"at {found.path}: " if found.path else ""
    return Refused(found.code, path=found.path, reason=f"{at}{found.reason}")


def reworded(refusal: Refused) -> Refused:
    """The same refusal; `records` gives its reasons in words of its own."""
    if refusal.code is Code.MESSAGE_INVALID and refusal.facts.get("part") == "key":
        reason = "keys that begin with `gq.` are reserved"
        return Refused(Code.MESSAGE_INVALID, reason=reason)
    return refusal


def checked_headers(given: Mapping[str, str]) -> tuple[Header, ...]:
    """The headers of a message; refuses those that break the limits."""
    if len(given) > _HEADERS_MAX:
        reason = f"a message has at most {_HEADERS_MAX} headers"
        raise Refused(Code.MESSAGE_INVALID, reason=reason)
    headers = []
    size = 2
    for name, text in given.items():
        name_size, value = len(name.encode()), text.encode()
        size += 4 + name_size + len(value)
        if not 1 <= name_size <= _HEADER_NAME_BYTES_MAX:
            reason = f"a header name has 1 to {_HEADER_NAME_BYTES_MAX} bytes"
            raise Refused(Code.MESSAGE_INVALID, reason=reason)
        if len(value) > _HEADER_VALUE_BYTES_MAX:
            reason = f"a header value has at most {_HEADER_VALUE_BYTES_MAX} bytes"
            raise Refused(Code.MESSAGE_INVALID, reason=reason)
        if name.startswith(RESERVED_PREFIX):
            reason = "header names that begin with `gq.` are reserved"
            raise Refused(Code.MESSAGE_INVALID, reason=reason)
        headers.append((name, value))
    if size > GIVEN_HEADERS_BYTES_MAX:
        reason = f"the headers of a message have at most {GIVEN_HEADERS_BYTES_MAX} bytes together"
        raise Refused(Code.MESSAGE_INVALID, reason=reason)
    return tuple(headers)
