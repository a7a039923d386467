"""What became of each message of a publish request, in request order.

Where no message was stored, the answer is a failure: that of the first message.
"""

import msgspec

from goqueue.gateways.http.bodies import DelayedResult, PublishResult
from goqueue.gateways.http.bodies.messages import PRIORITY_NAMES
from goqueue.gateways.http.errors import ERRORS, ItemError
from goqueue.gateways.http.messages.incoming import PublishBatch, item_error
from goqueue.gateways.http.transport import HttpResponse
from goqueue.model import GIVEN_HEADERS_BYTES_MAX, Code, format_time
from goqueue.model.requests import Published
from goqueue.records import Unroutable

__all__ = ["answer_results"]

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


def answer_results(intake: PublishBatch, published: Published | None) -> HttpResponse:
    """The answer; nothing was published where no message could be taken."""
    results = [] if published is None else _results(intake, published)
    if intake.refused:
        refused, taken = intake.refused, iter(results)
        results = [
            refused[index] if index in refused else next(taken) for index in range(intake.count)
        ]
    first = results[0] if results else None
    if not isinstance(first, ItemError) or not all(isinstance(each, ItemError) for each in results):
        return HttpResponse(200, _ENCODER.encode({"results": results}))
    status = ERRORS[Code(first.code)].status
    failure = {"error": first.error, "code": first.code, "status": status, "results": results}
    return HttpResponse(status, _ENCODER.encode(failure))


def _results(intake: PublishBatch, published: Published) -> list[Result]:
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
