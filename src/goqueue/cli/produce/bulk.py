"""Many messages from one descriptor: read, sent, counted, shown.

Ctrl-C stops the reading; what was read is still sent, and the count is told.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import click
import msgspec

from goqueue.cli.asking import ServerNotReached, Session, Stop, as_failure, stopped_by_signals, tell
from goqueue.cli.output import Output
from goqueue.cli.produce.draft import DraftInvalid, Pattern, read_draft
from goqueue.cli.produce.lines import Line, Lines, read_pieces
from goqueue.cli.produce.progress import Bar, show_bar
from goqueue.cli.produce.roads.posting import Posting
from goqueue.cli.produce.roads.sending import Sending
from goqueue.cli.produce.roads.tally import Tally
from goqueue.cli.render import write_document
from goqueue.client import GoQueueError, ServerUnreachable, connect
from goqueue.client.admin import Topic
from goqueue.client.transport import get

__all__ = ["Bulk", "produce_bulk"]

DONE = 0
FAILED = 1
INTERRUPTED = 130
_FAREWELL_S = 1.0


class Bulk(msgspec.Struct, frozen=True, kw_only=True):
    """Where messages come from, how they are read, and where they go."""

    topic: str
    descriptor: int
    pattern: Pattern
    output: Output


async def produce_bulk(session: Session, bulk: Bulk) -> int:
    """Send every line; the exit code."""
    # A topic that is not there, or a server that is away, is told before anything is read.
    await session.read(get("topics", bulk.topic), Topic)
    tally = Tally()
    started = time.monotonic()
    posting = Posting(session, bulk.topic, tally, keeps=bulk.output is not Output.TABLE)
    with stopped_by_signals() as stop:
        try:
            await _send_all(session, bulk, tally, posting, stop)
        except GoQueueError as error:
            raise _broken_off(error, session, tally) from error
        is_stopped = stop.is_asked
    if bulk.output is not Output.TABLE:
        write_document({"results": posting.results}, bulk.output)
    elif not is_stopped:
        seconds = max(time.monotonic() - started, 0.001)
        print(f"{tally} to {bulk.topic} in {seconds:.1f} s, {tally.sent / seconds:.0f} per second")
    tally.print_failures()
    if is_stopped:
        tell(f"stopped: {tally}")
        return INTERRUPTED
    return FAILED if tally.failed else DONE


async def _send_all(
    session: Session, bulk: Bulk, tally: Tally, posting: Posting, stop: Stop
) -> None:
    async with _sending(session, bulk, tally) as sending:
        with show_bar(bulk.topic, bulk.descriptor, tally) as bar:
            await _send_lines(bulk, posting, sending, bar, stop)


@contextlib.asynccontextmanager
async def _sending(session: Session, bulk: Bulk, tally: Tally) -> AsyncIterator[Sending | None]:
    """The fast road, for those who do not ask for the answers of the API."""
    if bulk.output is not Output.TABLE:
        yield None
        return
    settings = session.settings
    key = settings.api_key or None
    async with connect(settings.server, api_key=key, timeout_s=settings.timeout_s) as connection:
        producer = connection.producer()
        try:
            yield Sending(producer, bulk.topic, tally)
        finally:
            # Whatever went wrong was found at its line. After a failure that ended everything, what
            # still waits would be tried for a long time.
            with contextlib.suppress(GoQueueError, TimeoutError):
                async with asyncio.timeout(_FAREWELL_S):
                    await producer.close()


async def _send_lines(
    bulk: Bulk, posting: Posting, sending: Sending | None, bar: Bar, stop: Stop
) -> None:
    lines = Lines()
    async for piece in read_pieces(bulk.descriptor, stop):
        for line in lines.feed(piece):
            await _send_line(line, bulk.pattern, posting, sending)
        # Whoever writes to us line by line does not wait for a full request.
        await posting.flush()
        bar.advance(len(piece))
    for line in [] if stop.is_asked else lines.end():
        await _send_line(line, bulk.pattern, posting, sending)
    await posting.flush()
    if sending is not None:
        await sending.flush()


async def _send_line(
    line: Line, pattern: Pattern, posting: Posting, sending: Sending | None
) -> None:
    if line.text is None:
        await posting.note_invalid(line.number, "the line is too long")
        return
    try:
        draft = read_draft(line.text, pattern)
    except DraftInvalid as invalid:
        await posting.note_invalid(line.number, str(invalid))
        return
    if draft is None:
        return
    if sending is None or draft.is_delayed:
        await posting.add(line.number, draft)
    else:
        await sending.add(line.number, draft)


def _broken_off(error: GoQueueError, session: Session, tally: Tally) -> click.ClickException:
    """The failure that ended it all, with the count: it tells where to begin again."""
    tally.print_failures()
    failure = as_failure(error, session.settings.server)
    words = f"{failure.format_message()}; {tally} before that"
    if isinstance(error, ServerUnreachable):
        return ServerNotReached(words)
    return type(failure)(words)
