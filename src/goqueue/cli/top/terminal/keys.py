"""What a terminal sends, as keys: characters, and names for the others.

Pure, but for remembering bytes of a character that has not come whole. Sequences that nobody
knows are dropped whole: none of their bytes is taken for a key.
"""

import codecs
import re

__all__ = ["Keys"]

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
