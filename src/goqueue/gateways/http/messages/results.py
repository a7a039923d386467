"""What became of each message of a publish request, in request order."""

import msgspec

from goqueue.gateways.http.bodies import DelayedResult, PublishResult
from goqueue.gateways.http.errors import ItemError
from goqueue.gateways.http.messages.incoming import PRIORITY_NAMES, Intake, item_error
from goqueue.model import GIVEN_HEADERS_BYTES_MAX, Code, format_time
from goqueue.model.requests import Published
from goqueue.records import Unroutable

__all__ = ["encode_results"]

_ENCODER = msgspec.json.Encoder()

_UNROUTABLE = {
    Unroutable.TOO_LARGE: item_error(Code.MESSAGE_TOO_LARGE),
    Unroutable.NO_KEY: item_error(
        Code.MESSAGE_INVALID, reason="a message of a compacted topic needs a key"
    ),
    Unroutable.NO_PARTITION: item_error(Code.PARTITION_NOT_FOUND),
    Unroutable.BAD_PARTITION: item_error(Code.PARTITION_INVALID),
    Unroutable.RESERVED: item_error(
        Code.MESSAGE_INVALID, reason="keys and headers `gq.` are reserved"
    ),
    Unroutable.HEADERS: item_error(
        Code.MESSAGE_INVALID,
        reason=f"the headers of a message have at most {GIVEN_HEADERS_BYTES_MAX} bytes together",
    ),
}

Result = PublishResult | DelayedResult | ItemError


def encode_results(intake: Intake, published: Published | None) -> bytes:
    """The body of the answer; nothing was published where no message could be taken."""
    taken = iter([] if published is None else _results(intake, published))
    if not intake.refused:
        return _ENCODER.encode({"results": list(taken)})
    refused = intake.refused
    results = [refused[index] if index in refused else next(taken) for index in range(intake.count)]
    return _ENCODER.encode({"results": results})


def _results(intake: Intake, published: Published) -> list[Result]:
    timestamp = format_time(published.timestamp)
    following = {placed.partition: int(placed.first) for placed in published.placed}
    failed = {
        placed.partition: item_error(placed.refused)
        for placed in published.placed
        if placed.refused is not None
    }
    results: list[Result] = []
    add = results.append
    dues = intake.dues or [0] * len(intake.priorities)
    for target, priority, due in zip(published.targets, intake.priorities, dues, strict=True):
        if target < 0:
            results.append(_UNROUTABLE[Unroutable(target)])
            continue
        if failed and target in failed:
            results.append(failed[target])
            continue
        offset = following[target]
        following[target] = offset + 1
        name = PRIORITY_NAMES[priority]
        if due:
            add(DelayedResult(target, offset, timestamp, name, True, format_time(due)))
        else:
            add(PublishResult(target, offset, timestamp, name))
    return results
