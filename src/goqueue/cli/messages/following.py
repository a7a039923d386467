"""Messages as they come, from any number of partitions, until somebody says stop.

Goes on through restarts of the server. Reads no further ahead than one page per partition.
"""

import asyncio
from collections.abc import Callable, Sequence

from goqueue.cli.asking import Session, Stop
from goqueue.cli.messages.cursor import Cursor
from goqueue.cli.messages.item import Item
from goqueue.cli.messages.outage import Outage
from goqueue.client import GoQueueError

__all__ = ["follow"]

_WAIT_S = 20
_PAGE = 500
# A server that is stopping answers "nothing" at once: do not ask it in a tight loop.
_PAUSE_S = 0.05

Pages = asyncio.Queue[list[Item] | None]


async def follow(
    session: Session,
    cursors: Sequence[Cursor],
    sink: Callable[[Sequence[Item]], None],
    *,
    limit: int | None,
    stop: Stop,
) -> None:
    """Hand messages to `sink` until `limit` is reached or `stop` is set."""
    pages: Pages = asyncio.Queue(maxsize=1)
    outage = Outage()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_read_on(session, each, pages, outage)) for each in cursors]
        running.append(tasks.create_task(_end(pages, stop)))
        await _drain(pages, sink, limit)
        for task in running:
            task.cancel()


async def _read_on(session: Session, cursor: Cursor, pages: Pages, outage: Outage) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        asked_at = clock()
        try:
            items = await cursor.read(session, limit=_PAGE, wait_s=_WAIT_S)
        except GoQueueError as error:
            await outage.wait_out(error)
            continue
        outage.note_answer()
        if items:
            await pages.put(items)
        elif clock() - asked_at < _PAUSE_S:
            await asyncio.sleep(_PAUSE_S)


async def _end(pages: Pages, stop: Stop) -> None:
    await stop.wait()
    await pages.put(None)


async def _drain(pages: Pages, sink: Callable[[Sequence[Item]], None], limit: int | None) -> None:
    left = limit
    while left is None or left > 0:
        items = await pages.get()
        if items is None:
            return
        shown = items if left is None else items[:left]
        sink(shown)
        if left is not None:
            left -= len(shown)
