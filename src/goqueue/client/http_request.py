"""Requests and what their answers mean: routes, bodies, refusals."""

from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from goqueue.client.errors import GoQueueError, refusal
from goqueue.client.http_connection import Response
from goqueue.client.option_checks import path_part
from goqueue.model import JSON_MEDIA, LogId

__all__ = ["Request", "get", "post", "read_answer", "refused", "target"]


def target(*parts: str | int, **query: str | float | None) -> str:
    """A path of percent-encoded parts and a query; what is None is left out."""
    path = "".join(f"/{quote(path_part(part), safe='')}" for part in parts)
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request.

    `is_repeatable` says that sending it twice does no harm. `wait_s` is how long the server may
    hold the answer; it comes on top of the time limit. `patience_s` bounds the time of retries more
    tightly than the connection does, for what is not worth the wait. `answers` are statuses that
    carry an answer although they are no success: a probe that fails tells why. With `awaits_client`
    the answer comes from another client, who must not lack a connection because of it. `log` is the
    partition that it is about: in a cluster its leader is asked, if it is known.
    """

    method: str
    target: str
    body: bytes | bytearray = b""
    content_type: str = JSON_MEDIA
    is_repeatable: bool = False
    wait_s: float = 0.0
    patience_s: float | None = None
    answers: frozenset[int] = frozenset()
    awaits_client: bool = False
    log: LogId | None = None


class _Failure(msgspec.Struct, frozen=True):
    """The body of every refusal."""

    error: str
    code: str
    details: dict[str, object] = {}


_FAILURES = msgspec.json.Decoder(_Failure)
# What a proxy says when it has passed the request on and got no good answer.
_PASSED_ON = frozenset({500, 502, 504})


def get(*parts: str | int, **query: str | float | None) -> Request:
    """Ask for what is there; repeatable."""
    return Request(method="GET", target=target(*parts, **query), is_repeatable=True)


def post(
    *parts: str | int,
    fields: dict[str, object],
    is_repeatable: bool = False,
    patience_s: float | None = None,
    wait_s: float = 0.0,
) -> Request:
    """Send fields as JSON; what is None is left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    return Request(
        method="POST",
        target=target(*parts),
        body=_ENCODER.encode(given),
        is_repeatable=is_repeatable,
        patience_s=patience_s,
        wait_s=wait_s,
    )


def read_answer(response: Response, decoder: msgspec.json.Decoder[T]) -> T:
    """The body as what the contract says that it is."""
    try:
        return decoder.decode(response.body)
    except msgspec.MsgspecError as error:
        words = f"the answer is not what the contract says: {error}"
        raise GoQueueError(
            "response_invalid", words, status=response.status, is_outcome_unknown=True
        ) from error


def refused(response: Response) -> GoQueueError:
    """The exception for an answer that is no success; a proxy may have worded it."""
    has_reason = True
    try:
        failure = _FAILURES.decode(response.body)
    except msgspec.MsgspecError:
        has_reason = False
        words = f"the answer has HTTP status {response.status} and is not one of a GoQueue node"
        code = "broker_unavailable" if response.status in {502, 503, 504} else "response_invalid"
        failure = _Failure(words, code)
    error = refusal(
        failure.code,
        failure.error,
        status=response.status,
        details=failure.details,
        retry_after_s=_seconds(response.headers.get(b"retry-after", b"")),
    )
    if not has_reason and response.status in _PASSED_ON:
        error.is_outcome_unknown = True
    return error


def _seconds(text: bytes) -> float | None:
    return float(text) if text.isdigit() and len(text) < 6 else None
