"""A topic read as a queue: as a member of a group that leases, prints and acknowledges.

Never leases more than it is going to print, because each lease counts as a delivery. A message is
acknowledged after it was printed, so none is lost between here and whoever reads what we print.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from goqueue.cli.asking import Session, Stop, describe, stopped_by_signals, tell
from goqueue.cli.consume.wish import Wish
from goqueue.cli.messages import Item, Outage, Printer, read_page
from goqueue.cli.output import Output
from goqueue.cli.render import write_document
from goqueue.client import GoQueueError
from goqueue.client.transport import Request, post, target

__all__ = ["consume_group"]

_BATCH = 100
# Long enough for a rebalance that our joining began, short enough to wait for nothing.
_WAIT_S = 1
# Polls keep the session alive, so they come more often than it ends.
_WAIT_S_FOLLOWING = 10
_LOST = frozenset({"group_not_found", "member_not_found"})
_PAUSE_S = 0.05


class _Joined(msgspec.Struct, frozen=True):
    member_id: str


class _Result(msgspec.Struct, frozen=True):
    receipt_handle: str
    success: bool
    error: str = ""
    code: str = ""


class _Results(msgspec.Struct, frozen=True):
    results: list[_Result]


async def consume_group(session: Session, wish: Wish) -> int:
    """Print messages of the group's share; how many could not be acknowledged."""
    member = _Member(session, wish)
    await member.join()
    try:
        with stopped_by_signals() as stop:
            return await _consume(member, wish, stop)
    finally:
        await member.leave()


async def _consume(member: "_Member", wish: Wish, stop: Stop) -> int:
    printer = Printer(wish.output, is_values=wish.is_values)
    is_whole = not wish.is_following and wish.output is not Output.TABLE and not wish.is_values
    outage = Outage(is_patient=wish.is_following)
    kept: list[Item] = []
    left, failed = wish.limit, 0
    while left is None or left > 0:
        items = await _poll(member, outage, stop, _BATCH if left is None else min(left, _BATCH))
        if items is None or (not items and not wish.is_following):
            break
        if is_whole:
            kept += items
        else:
            printer.print(items)
            failed += await _ack(member, items, outage, stop)
        if left is not None:
            left -= len(items)
    if is_whole:
        messages = [msgspec.json.decode(item.raw) for item in kept]
        write_document({"messages": messages}, wish.output)
        failed += await member.ack(kept)
    # Whoever follows gets again what was not acknowledged.
    return 0 if wish.is_following else failed


async def _ack(member: "_Member", items: Sequence[Item], outage: Outage, stop: Stop) -> int:
    """Acknowledge what was printed, through an outage too; how many were refused."""
    while True:
        try:
            return await member.ack(items)
        except GoQueueError as error:
            if stop.is_asked:
                raise
            await outage.wait_out(error)


async def _poll(member: "_Member", outage: Outage, stop: Stop, count: int) -> list[Item] | None:
    """The next messages; None when told to stop."""
    async with asyncio.TaskGroup() as tasks:
        polling = tasks.create_task(_poll_until_answered(member, outage, count))
        stopping = tasks.create_task(stop.wait())
        await asyncio.wait((polling, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not polling.done():
            polling.cancel()
            return None
        return polling.result()


async def _poll_until_answered(member: "_Member", outage: Outage, count: int) -> list[Item]:
    while True:
        try:
            items = await member.poll(count)
        except GoQueueError as error:
            await outage.wait_out(error)
            continue
        outage.note_answer()
        return items


class _Member:
    """Our membership; joins again when the server has forgotten it."""

    def __init__(self, session: Session, wish: Wish) -> None:
        assert wish.group is not None
        self._session = session
        self._wish = wish
        self._group = wish.group
        self._member_id: str | None = None

    async def join(self) -> None:
        wish = self._wish
        fields: dict[str, object] = {
            "client_id": "goqueue-cli",
            "topics": [wish.topic],
            "mode": wish.mode,
            "start_position": "latest" if wish.start.is_latest else "earliest",
        }
        request = post("groups", self._group, "join", fields=fields)
        self._member_id = (await self._session.read(request, _Joined)).member_id

    async def poll(self, count: int) -> list[Item]:
        if self._member_id is None:
            await self.join()
        wait_s = _WAIT_S_FOLLOWING if self._wish.is_following else _WAIT_S
        request = Request(
            method="GET",
            target=target(
                "groups",
                self._group,
                "poll",
                member_id=self._member_id,
                timeout=f"{wait_s}s",
                max_messages=count,
                isolation=self._wish.isolation,
            ),
            is_repeatable=True,
            wait_s=wait_s,
        )
        clock = asyncio.get_running_loop().time
        asked_at = clock()
        try:
            items = read_page(await self._session.ask(request)).items
        except GoQueueError as error:
            if error.code not in _LOST:
                raise
            self._member_id = None
            await asyncio.sleep(_PAUSE_S)
            return await self.poll(count)
        if not items and self._wish.is_following and clock() - asked_at < _PAUSE_S:
            # A server that is stopping answers "nothing" at once.
            await asyncio.sleep(_PAUSE_S)
        return items

    async def ack(self, items: Sequence[Item]) -> int:
        """Acknowledge; how many were refused. Each of those is told."""
        if not items or not self._wish.is_acking:
            return 0
        failed = 0
        for first in range(0, len(items), _BATCH):
            batch = items[first : first + _BATCH]
            fields: dict[str, object] = {
                "receipt_handles": [item.fields.receipt_handle for item in batch]
            }
            request = post("messages", "ack", "batch", fields=fields, is_repeatable=True)
            results = (await self._session.read(request, _Results)).results
            for item, result in zip(batch, results, strict=True):
                if not result.success:
                    failed += 1
                    words = describe(result.code, result.error)
                    tell(f"{item.partition}:{item.offset} is not acknowledged: {words}")
        return failed

    async def leave(self) -> None:
        """Give back at once what was leased and not settled."""
        if self._member_id is None:
            return
        fields: dict[str, object] = {"member_id": self._member_id}
        try:
            await self._session.ask(post("groups", self._group, "leave", fields=fields))
        except GoQueueError as error:
            if error.code not in _LOST:
                # The session ends by itself in its time, and the messages come back then.
                tell(f"the group was not left: {error.sentence}")
