"""A terminal as a screen of lines: taken over, drawn on, and given back as it was.

Owns the modes of the terminal. Lines that have not changed are not sent again, so a quiet picture
costs nothing on a slow line.

Invariant: whatever ends the block, the terminal has its modes, its cursor and its text again.
"""

import contextlib
import os
import termios
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from goqueue.cli.top.picture import Line, Size
from goqueue.cli.top.terminal.palette import Palette

__all__ = ["Screen", "taken_over"]

# The other screen, no cursor, no wrapping at the edge; and back, in the opposite order.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_LOCAL_FLAGS, _INPUT_FLAGS, _CONTROLS = 3, 0, 6
_SIZE_USUAL = Size(80, 24)
_SIZE_MAX = Size(1000, 500)

_Modes: TypeAlias = "list[int | list[bytes | int]]"


class Screen:
    """The terminal that a person looks at."""

    def __init__(self, reading: int, writing: int, palette: Palette) -> None:
        self._reading = reading
        self._writing = writing
        self._palette = palette
        self._shown: list[str] = []
        self._size = Size(0, 0)
        self._modes: _Modes | None = None

    @property
    def size(self) -> Size:
        """As it is now; one that does not know is taken for a usual one."""
        found = os.get_terminal_size(self._writing)
        return Size(
            min(found.columns or _SIZE_USUAL.width, _SIZE_MAX.width),
            min(found.lines or _SIZE_USUAL.height, _SIZE_MAX.height),
        )

    def enter(self) -> None:
        """Keys one by one and unseen, and a screen of our own."""
        self._modes = termios.tcgetattr(self._reading)
        modes = termios.tcgetattr(self._reading)
        # Signals of keys stay; Ctrl-S does not stop the output, or nothing could end the program.
        modes[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
        modes[_INPUT_FLAGS] &= ~termios.IXON
        controls = modes[_CONTROLS]
        controls[termios.VMIN], controls[termios.VTIME] = 1, 0
        termios.tcsetattr(self._reading, termios.TCSADRAIN, modes)
        self._write(_ENTER)
        self._shown = []

    def leave(self) -> None:
        """Everything as it was; may be called again."""
        if self._modes is None:
            return
        modes, self._modes = self._modes, None
        # A terminal that has gone cannot be restored, and needs it no more.
        with contextlib.suppress(OSError):
            self._write(_LEAVE)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._reading, termios.TCSADRAIN, modes)

    def show(self, lines: Sequence[Line], size: Size) -> None:
        """Draw a picture that was made for this size."""
        painted = [self._palette.paint(line) for line in lines]
        if size != self._size:
            # What the terminal made of the old picture when its size changed is not known.
            self._shown, self._size = [], size
        text = "" if self._shown else "\x1b[2J"
        for number, line in enumerate(painted):
            if number >= len(self._shown) or self._shown[number] != line:
                text += f"\x1b[{number + 1};1H\x1b[2K{line}"
        if len(painted) < len(self._shown):
            text += f"\x1b[{len(painted) + 1};1H\x1b[J"
        self._shown = painted
        if text:
            self._write(text)

    def _write(self, text: str) -> None:
        left = memoryview(text.encode(self._palette.encoding, "replace"))
        while left:
            left = left[os.write(self._writing, left) :]


@contextlib.contextmanager
def taken_over(screen: Screen) -> Iterator[Screen]:
    """The screen for the length of the block."""
    try:
        screen.enter()
        yield screen
    finally:
        screen.leave()
