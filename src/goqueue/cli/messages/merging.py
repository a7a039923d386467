"""What is in a topic now, oldest first, over all its partitions.

Holds one page of each partition at a time, so that a topic of any length can be read. Messages of
one partition keep their order even where a clock went back.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence

from goqueue.cli.asking import Session
from goqueue.cli.messages.cursor import Cursor
from goqueue.cli.messages.item import Item

__all__ = ["read_merged"]

_PAGE = 500


async def read_merged(
    session: Session, cursors: Sequence[Cursor], limit: int | None
) -> AsyncIterator[Item]:
    """Up to `limit` messages that were there at the beginning; the cursors end after the last."""
    pages: list[deque[Item]] = [deque() for _ in cursors]
    page_size = _PAGE if limit is None else min(limit, _PAGE)
    count = 0
    async with asyncio.TaskGroup() as tasks:
        for cursor, page in zip(cursors, pages, strict=True):
            tasks.create_task(_fill(session, cursor, page, page_size))
    while limit is None or count < limit:
        filled = [number for number, page in enumerate(pages) if page]
        if not filled:
            break
        first = min(filled, key=lambda number: pages[number][0].timestamp)
        yield pages[first].popleft()
        count += 1
        if not pages[first]:
            await _fill(session, cursors[first], pages[first], page_size)
    for cursor, page in zip(cursors, pages, strict=True):
        cursor.step_back(page)


async def _fill(session: Session, cursor: Cursor, page: deque[Item], page_size: int) -> None:
    """The next page that holds a message; none at the end, or where nothing is to be seen yet."""
    while not page and not cursor.is_at_end:
        before = cursor.offset
        items = await cursor.read(session, limit=page_size)
        page.extend(item for item in items if item.offset < cursor.end)
        if not items and cursor.offset <= before:
            break
