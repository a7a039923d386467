"""Reads one partition from an offset on, a few chunks ahead of whoever takes them.

Goes on through restarts of the broker. Follows the offset that the broker names, so that it moves
past what is never shown. What it cannot recover from is handed over in place of a chunk.
"""

import asyncio
import logging
from collections.abc import Callable

from goqueue.client.consuming.streams.chunk import Chunk, decode_chunk, read_ranges, read_seed
from goqueue.client.errors import Closed, GoQueueError
from goqueue.client.transport import Request, Response, Transport, is_worth_retrying, target
from goqueue.client.values import duration
from goqueue.model import LogId
from goqueue.model.requests import Isolation

__all__ = ["Reader", "OffsetSource"]

_log = logging.getLogger("goqueue.client")

_CHUNKS_AHEAD = 2
# When the broker answers "nothing yet" at once, it is stopping: do not ask it in a tight loop.
_PAUSE_S = 0.05
_PAUSE_S_MAX = 2.0

OffsetSource = Chunk | GoQueueError


class Reader:
    """The chunks of one partition, in order; `run` is its task."""

    def __init__(
        self,
        transport: Transport,
        log: LogId,
        offset: int,
        *,
        chunk_bytes: int,
        wait_s: float,
        on_reading: Callable[["Reader", OffsetSource], None],
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> None:
        self.log = log
        self.is_stopped = False
        self._transport = transport
        self._offset = offset
        self._chunk_bytes = chunk_bytes
        self._wait_s = wait_s
        self._isolation = isolation
        self._on_reading = on_reading
        self._room = asyncio.Semaphore(_CHUNKS_AHEAD)

    async def run(self) -> None:
        ended: GoQueueError = Closed(f"reading {self.log} has ended")
        try:
            ended = await self._read_on()
        finally:
            # Whoever waits is told, also when the whole connection breaks down.
            self._on_reading(self, ended)

    async def _read_on(self) -> GoQueueError:
        """Read until there is a failure that no waiting will mend."""
        pause_s = _PAUSE_S
        while True:
            await self._room.acquire()
            try:
                chunk = await self._read_some()
                pause_s = _PAUSE_S
            except GoQueueError as error:
                if not is_worth_retrying(error, is_repeatable=True):
                    return error
                _log.warning("reading %s: %s; trying again", self.log, error)
                self._room.release()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)
                continue
            self._on_reading(self, chunk)

    def take(self) -> None:
        """A chunk was worked off: there is room for another."""
        self._room.release()

    async def _read_some(self) -> Chunk:
        """Wait for records; the chunk may hold no message, but then it leads further."""
        clock = asyncio.get_running_loop().time
        while True:
            asked_at = clock()
            try:
                response = await self._ask()
            except GoQueueError as error:
                self._jump(error)
                continue
            next_offset = _next_offset(response)
            if next_offset > self._offset:
                return self._chunk(response, next_offset)
            if clock() - asked_at < _PAUSE_S:
                await asyncio.sleep(_PAUSE_S)

    async def _ask(self) -> Response:
        log = self.log
        return await self._transport.ask(
            Request(
                method="GET",
                target=target(
                    "topics",
                    log.topic,
                    "partitions",
                    log.partition,
                    "records",
                    offset=self._offset,
                    max_bytes=self._chunk_bytes,
                    wait=duration(self._wait_s),
                    isolation=self._isolation.value,
                ),
                is_repeatable=True,
                wait_s=self._wait_s,
            )
        )

    def _chunk(self, response: Response, next_offset: int) -> Chunk:
        aborted = read_ranges(response.headers.get(b"goqueue-aborted", b""))
        seed = read_seed(response.headers.get(b"goqueue-trace-seed", b""))
        messages = decode_chunk(self.log, response.body, self._offset, aborted, seed)
        self._offset = next_offset
        return Chunk(self.log, messages, next_offset)

    def _skip_damage(self, error: GoQueueError) -> None:
        following = error.details.get("next_offset")
        if not isinstance(following, int) or following <= self._offset:
            raise error
        _log.warning(
            "%s: offsets %d to %d are damaged on the broker's disk and skipped",
            self.log,
            self._offset,
            following - 1,
        )
        self._offset = following

    def _jump(self, error: GoQueueError) -> None:
        """Retention took what was wanted, or a failover cut the log: go to where there is a log.

        Records that are damaged on the broker's disk are passed over, too: nobody can read them,
        and to end here would keep all that lies behind from being read.
        """
        if error.code == "records_damaged":
            self._skip_damage(error)
            return
        if error.code != "offset_out_of_range":
            raise error
        earliest, end = error.details.get("earliest"), error.details.get("end")
        if not isinstance(earliest, int) or not isinstance(end, int):
            raise error
        offset = earliest if self._offset < earliest else end
        if offset == self._offset:
            raise error
        _log.warning("%s: offset %d is gone, going on at %d", self.log, self._offset, offset)
        self._offset = offset


def _next_offset(response: Response) -> int:
    text = response.headers.get(b"goqueue-next-offset", b"")
    if not text.isdigit():
        raise GoQueueError("response_invalid", "the answer does not say where to go on")
    return int(text)
