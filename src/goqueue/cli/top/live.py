"""The live screen: asks every interval, draws what changed, handles keys and signals.

Owns the tasks and the signals while the screen is taken. Never decides what is drawn or asked.

Invariant: a late answer delays neither keys nor the end of the program.
"""

import asyncio
import contextlib
import datetime as dt
import os
import signal
from collections.abc import Iterator

import msgspec

from goqueue.cli.top.frame import draw_frame
from goqueue.cli.top.model import Board, Wants
from goqueue.cli.top.source import Source, one_failure, reason_of
from goqueue.cli.top.state import Choice, press
from goqueue.cli.top.terminal import Keys, Screen, taken_over
from goqueue.client import GoQueueError

__all__ = ["Live"]

# The clock on the screen advances, whatever the node does.
_REDRAW_S = 1.0
# Rates over less than this say little; a new view waits this long for its first figures.
_GAP_S_MIN = 0.4
_KEYS_BYTES_MAX = 1024
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Live:
    """One person, one screen, one node."""

    def __init__(
        self, source: Source, screen: Screen, choice: Choice, *, interval_s: float, server: str
    ) -> None:
        self._source = source
        self._screen = screen
        self._choice = choice
        self._interval_s = interval_s
        self._server = server
        self._board = Board()
        self._names: tuple[str, ...] = ()
        self._under_cursor = ""
        self._keys = Keys()
        self._has_changed = asyncio.Event()
        self._is_hasty = asyncio.Event()

    async def run(self, reading: int) -> None:
        """Until a key or a signal ends it; a node that never answered is an error."""
        self._board.apply(await self._source.take(self._wants()))
        # Only now is it known which groups there are to ask for.
        self._is_hasty.set()
        with self._obeyed(reading), taken_over(self._screen):
            async with one_failure(), asyncio.TaskGroup() as group:
                asking = group.create_task(self._ask())
                try:
                    await self._draw()
                finally:
                    asking.cancel()

    # Tasks

    async def _ask(self) -> None:
        clock = asyncio.get_running_loop().time
        asked_s = clock()
        while True:
            await self._rest(self._interval_s - (clock() - asked_s))
            asked_s = clock()
            if self._choice.is_paused:
                continue
            try:
                self._board.apply(await self._source.take(self._wants()))
            except GoQueueError as error:
                self._board.lose(dt.datetime.now(dt.UTC), reason_of(error))
            self._has_changed.set()

    async def _rest(self, seconds: float) -> None:
        """Wait, or less if there is a reason for haste."""
        gap_s = min(_GAP_S_MIN, self._interval_s)
        await asyncio.sleep(gap_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds - gap_s)):
                await self._is_hasty.wait()
        self._is_hasty.clear()

    async def _draw(self) -> None:
        while not self._choice.is_over:
            self._has_changed.clear()
            size = self._screen.size
            now = dt.datetime.now(dt.UTC)
            frame = draw_frame(self._board, self._choice, size, now, self._server)
            self._screen.show(frame.lines, size)
            self._names = frame.names
            self._under_cursor = frame.under_cursor
            # A cursor beyond the last row would have to be moved back over nothing.
            self._choice = msgspec.structs.replace(self._choice, cursor=frame.cursor)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REDRAW_S):
                    await self._has_changed.wait()

    def _wants(self) -> Wants:
        choice = self._choice
        return self._board.wants(shown=self._names, view=choice.view, opened=choice.opened)

    # Keys and signals

    @contextlib.contextmanager
    def _obeyed(self, reading: int) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            loop.add_signal_handler(number, self._end)
        loop.add_signal_handler(signal.SIGWINCH, self._has_changed.set)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        loop.add_reader(reading, self._read, reading)
        try:
            yield
        finally:
            loop.remove_reader(reading)
            for number in (*_ENDING, signal.SIGWINCH, signal.SIGTSTP):
                loop.remove_signal_handler(number)
            # Removing a handler leaves the default of the system, which knows no clean-up.
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _read(self, reading: int) -> None:
        try:
            data = os.read(reading, _KEYS_BYTES_MAX)
        except OSError:
            data = b""
        # A terminal that has gone sends nothing, for ever.
        if not data:
            self._end()
        for key in self._keys.feed(data):
            self._press(key)

    def _press(self, key: str) -> None:
        before = self._choice
        self._choice = after = press(before, key, self._under_cursor)
        has_other = before.view is not after.view or before.opened != after.opened
        if has_other or before.is_paused is not after.is_paused:
            self._is_hasty.set()
        self._has_changed.set()

    def _end(self) -> None:
        """Whatever is typed or shown."""
        self._choice = msgspec.structs.replace(self._choice, is_over=True)
        self._has_changed.set()

    def _suspend(self) -> None:
        """Ctrl-Z: the shell gets its terminal back until this process is resumed."""
        self._screen.leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._screen.enter()
        self._has_changed.set()
