"""A terminal as a screen and a keyboard.

Owns the modes of the terminal, the codes of styles and the decoding of keys. Unknown key sequences
are dropped whole: none of their bytes is read as a key. Lines that have not changed are not sent
again, so an idle screen costs nothing on a slow line.

Invariant: however the block ends, the terminal has its modes, its cursor and its text again.
"""

import codecs
import contextlib
import os
import re
import termios
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from goqueue.cli.top.frame import Size
from goqueue.cli.top.render import BARS, Line, Style

__all__ = ["Keys", "Palette", "Screen", "taken_over"]

_RESET = "\x1b[0m"
_COLOURS = {
    Style.DIM: "\x1b[2m",
    Style.BOLD: "\x1b[1m",
    Style.GOOD: "\x1b[32m",
    Style.WARN: "\x1b[33m",
    Style.BAD: "\x1b[1;31m",
    Style.BAR: "\x1b[36m",
    Style.CHOSEN: "\x1b[7m",
}
# Without colours what matters still differs: by weight, and by reverse video.
_WEIGHTS = {style: _COLOURS[style] for style in (Style.DIM, Style.BOLD, Style.CHOSEN)} | {
    Style.BAD: "\x1b[1m"
}
_ASCII = str.maketrans(
    dict(zip(BARS, "_.-:=+*#", strict=True))
    | {"…": "~", "▾": "v", "▴": "^", "≥": ">", "±": "~", "µ": "u"}
    | {"↑": "^", "↓": "v", "←": "<", "→": ">"}
)


class Palette(msgspec.Struct, frozen=True, kw_only=True):
    """How a terminal shows a line."""

    has_escapes: bool
    has_colours: bool
    encoding: str = "utf-8"

    def paint(self, line: Line) -> str:
        """The line with its styles; as wide as it was."""
        marks = _COLOURS if self.has_colours else _WEIGHTS
        painted = ""
        for piece in line:
            mark = marks.get(piece.style, "") if self.has_escapes else ""
            painted += f"{mark}{self._text(piece.text)}{_RESET}" if mark else self._text(piece.text)
        return painted

    def _text(self, text: str) -> str:
        if self.encoding.lower().replace("-", "") == "utf8":
            return text
        known = text.translate(_ASCII)
        return known.encode(self.encoding, "replace").decode(self.encoding)


_ESCAPE = "\x1b"
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~])")
_NAMED = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[C": "right",
    "\x1bOC": "right",
    "\x1b[D": "left",
    "\x1bOD": "left",
    "\x1b[5~": "page_up",
    "\x1b[6~": "page_down",
    "\x1b[H": "home",
    "\x1b[1~": "home",
    "\x1bOH": "home",
    "\x1b[F": "end",
    "\x1b[4~": "end",
    "\x1bOF": "end",
    "\x1b[Z": "back_tab",
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x15": "erase",
    _ESCAPE: "escape",
}


class Keys:
    """Bytes in, keys out."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, data: bytes) -> list[str]:
        """The keys of what was read at once; an escape with nothing behind it is the key."""
        text = self._decoder.decode(data)
        keys: list[str] = []
        position = 0
        while position < len(text):
            sequence = _SEQUENCE.match(text, position)
            piece = sequence[0] if sequence else text[position]
            position += len(piece)
            key = _NAMED.get(piece, piece if piece.isprintable() else "")
            if key:
                keys.append(key)
        return keys


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
            # How the terminal changed the old picture when it was resized is unknown.
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
