"""Messages through the JSON route, many in one request: delayed ones, and those whose answers are
to be shown as the API gives them.

Invariant: results are kept in the order of the lines, one for each.
"""

import msgspec

from goqueue.cli.asking import Session, describe
from goqueue.cli.produce.draft import Draft, as_json
from goqueue.cli.produce.roads.tally import Tally
from goqueue.client import GoQueueError
from goqueue.client.transport import Request, target

__all__ = ["Posting", "post_messages"]

_MESSAGES_MAX = 1000
_BYTES_MAX = 4 * 1024 * 1024


class _Result(msgspec.Struct, frozen=True):
    code: str = ""
    error: str = ""


class _Results(msgspec.Struct, frozen=True):
    results: list[msgspec.Raw]


_RESULT = msgspec.json.Decoder(_Result)


# With these, too, each message has its result, if the request got as far as messages.
_NONE_STORED = frozenset({400, 403, 404, 413, 422, 500, 507})


class _Failure(msgspec.Struct, frozen=True):
    error: str = ""
    code: str = ""
    results: list[msgspec.Raw] | None = None


_FAILURES = msgspec.json.Decoder(_Failure)


async def post_messages(session: Session, topic: str, messages: list[bytes]) -> bytes:
    """The body of the answer to one request, which has a result for each message."""
    body = b'{"messages":[' + b",".join(messages) + b"]}"
    request = Request(
        method="POST",
        target=target("topics", topic, "messages"),
        body=body,
        answers=_NONE_STORED,
    )
    answer = await session.ask(request)
    try:
        failure = _FAILURES.decode(answer)
    except msgspec.MsgspecError:
        # Whoever reads the results says what is wrong with them.
        return answer
    if failure.code and failure.results is None:
        raise GoQueueError(failure.code, failure.error)
    return answer


class Posting:
    """Gathers messages and posts them; with `keeps` all results are kept to be shown."""

    def __init__(self, session: Session, topic: str, tally: Tally, *, keeps: bool) -> None:
        self._session = session
        self._topic = topic
        self._tally = tally
        self._keeps = keeps
        self._waiting: list[tuple[int, bytes]] = []
        self._size = 0
        self.results: list[object] = []

    async def add(self, number: int, draft: Draft) -> None:
        message = as_json(draft)
        if self._waiting and self._size + len(message) > _BYTES_MAX:
            await self.flush()
        self._waiting.append((number, message))
        self._size += len(message)
        if len(self._waiting) >= _MESSAGES_MAX:
            await self.flush()

    async def note_invalid(self, number: int, words: str) -> None:
        """A line that is no message has its place among the results too."""
        await self.flush()
        self._tally.note_failed(number, words)
        if self._keeps:
            self.results.append({"error": words, "code": "message_invalid"})

    async def flush(self) -> None:
        """Post what waits."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        messages = [message for _, message in waiting]
        body = await post_messages(self._session, self._topic, messages)
        try:
            results = msgspec.json.decode(body, type=_Results).results
            for (number, _), raw in zip(waiting, results, strict=True):
                self._settle(number, raw)
        except ValueError as error:
            words = f"the answer is not what the contract says: {error}"
            raise GoQueueError("response_invalid", words) from error

    def _settle(self, number: int, raw: msgspec.Raw) -> None:
        result = _RESULT.decode(raw)
        if result.code:
            self._tally.note_failed(number, describe(result.code, result.error))
        else:
            self._tally.note_sent()
        if self._keeps:
            self.results.append(msgspec.json.decode(raw))
