"""Dead letters: messages that were rejected, or failed too often."""

from collections.abc import Mapping, Sequence

import msgspec

from goqueue.client.admin.replies import Topic
from goqueue.client.consuming import Replay
from goqueue.client.errors import TopicNotFound
from goqueue.client.message import Message
from goqueue.client.tasks import Tasks
from goqueue.client.transport import Transport, get, post

__all__ = ["DeadLetters"]


class _Moved(msgspec.Struct, frozen=True):
    moved: int


_MOVED = msgspec.json.Decoder(_Moved)
_TOPICS = msgspec.json.Decoder(Topic)


class DeadLetters:
    """`q.dead_letters`; the topic named is the one that the letters came from."""

    def __init__(self, transport: Transport, tasks: Tasks) -> None:
        self._transport = transport
        self._tasks = tasks

    async def list(self, topic: str, *, limit: int = 100) -> tuple[Message, ...]:
        """The oldest letters that are kept, redriven ones included; none if none ever died."""
        described = await self._transport.read(get("topics", topic), _TOPICS)
        name = described.config.dead_letter_topic
        try:
            letters = await self._transport.read(get("topics", name), _TOPICS)
        except TopicNotFound:
            return ()
        total = min(limit, letters.total_messages)
        found: tuple[Message, ...] = ()
        async with Replay(self._transport, self._tasks, name) as replay:
            while len(found) < total:
                found += tuple(await replay.take(total - len(found)))
        return tuple(sorted(found, key=lambda letter: letter.timestamp))

    async def redrive(
        self,
        topic: str,
        *,
        limit: int | None = None,
        to_topic: str | None = None,
        reason: str | None = None,
        letters: Mapping[int, Sequence[int]] | None = None,
    ) -> int:
        """Put letters back, oldest first, at most `limit` (1000); how many. Repeat until 0.

        `letters` names those that are meant: offsets of the dead-letter topic by partition.
        """
        named = None if letters is None else {str(each): list(letters[each]) for each in letters}
        fields: dict[str, object] = {
            "max": limit,
            "to_topic": to_topic,
            "filter": {"reason": reason, "letters": named},
        }
        request = post("topics", topic, "dlq", "redrive", fields=fields)
        return (await self._transport.read(request, _MOVED)).moved
