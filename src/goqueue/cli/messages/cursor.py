"""A reader's place in one partition.

Invariant: the place never moves back, and moves only past what was handed out or is never shown.
"""

from collections.abc import Sequence

import msgspec

from goqueue.cli.asking import Session, tell
from goqueue.cli.messages.item import Item, read_page
from goqueue.cli.messages.place import Start
from goqueue.client import GoQueueError, NotFound
from goqueue.client.admin import PartitionEnds
from goqueue.client.transport import Request, get, target

__all__ = ["Cursor", "open_cursors"]

_PAGE_MAX = 1000


class _Topic(msgspec.Struct, frozen=True):
    partition_offsets: dict[int, PartitionEnds]


class Cursor:
    """Reads on in one partition; `end` is where the partition ended when reading began."""

    def __init__(
        self, topic: str, partition: int, end: int, start: Start, isolation: str | None
    ) -> None:
        self.partition = partition
        self.offset = end if start.is_latest else start.offset
        self.end = end
        self._topic = topic
        self._time = None if start.is_latest else start.time
        self._isolation = isolation

    @property
    def is_at_end(self) -> bool:
        return self._time is None and self.offset >= self.end

    async def read(self, session: Session, *, limit: int, wait_s: int = 0) -> list[Item]:
        """The next messages; none when there are none yet."""
        request = Request(
            method="GET",
            target=target(
                "topics",
                self._topic,
                "partitions",
                self.partition,
                "messages",
                offset=self.offset if self._time is None else None,
                timestamp=self._time,
                limit=min(limit, _PAGE_MAX),
                isolation=self._isolation,
                wait=f"{wait_s}s" if wait_s else None,
            ),
            is_repeatable=True,
            wait_s=wait_s,
        )
        try:
            page = read_page(await session.ask(request))
        except GoQueueError as error:
            self._skip_damage(error)
            return []
        if self._time is not None or page.next_offset > self.offset:
            self.offset = page.next_offset
        self._time = None
        return page.items

    def _skip_damage(self, error: GoQueueError) -> None:
        """Go on behind records that are damaged, and say so; other failures are passed on."""
        following = error.details.get("next_offset")
        if error.code != "records_damaged" or not isinstance(following, int):
            raise error
        first = f"{self.offset} to " if self._time is None else "up to "
        tell(f"{self._topic} {self.partition}: offsets {first}{following - 1} are damaged, skipped")
        self.offset, self._time = following, None

    def step_back(self, items: Sequence[Item]) -> None:
        """These were read and not shown: whoever goes on wants them again."""
        if items:
            self.offset = items[0].offset


async def open_cursors(
    session: Session, topic: str, partition: int | None, start: Start, isolation: str | None
) -> list[Cursor]:
    """A cursor for one partition, or for each."""
    described = await session.read(get("topics", topic), _Topic)
    ends = sorted(described.partition_offsets.items())
    if partition is not None:
        ends = [(number, end) for number, end in ends if number == partition]
        if not ends:
            words = f"{topic} has no partition {partition}"
            raise NotFound("partition_not_found", words)
    return [Cursor(topic, number, end.latest + 1, start, isolation) for number, end in ends]
