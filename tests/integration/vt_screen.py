"""A terminal as a program sees it: bytes in, a screen of characters out.

Knows what `goqueue top` sends and fails for anything else, so that a test notices a sequence that
a real terminal would have to understand, too.
"""

import codecs
import re

from rich.cells import cell_len

__all__ = ["VtScreen"]

_CONTROL = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class VtScreen:
    """Two screens, a cursor, and the modes that were switched."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self.is_alternate = False
        self.has_cursor = True
        self.wraps = True
        self.colours: set[str] = set()
        self.overflows = 0
        self._main = self._blank()
        self._cells = self._main
        self._row = 0
        self._column = 0
        self._pending = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    @property
    def lines(self) -> list[str]:
        """The rows, without blanks at the end."""
        return ["".join(row).rstrip() for row in self._cells]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def resize(self, width: int, height: int) -> None:
        """As a terminal does it: what is on the screen is cut or stays where it is."""
        old = self._cells
        self.width, self.height = width, height
        self._cells = self._blank()
        for row, cells in zip(self._cells, old, strict=False):
            row[: min(width, len(cells))] = cells[:width]

    def feed(self, data: bytes) -> None:
        text = self._pending + self._decoder.decode(data)
        self._pending = ""
        position = 0
        while position < len(text):
            if text[position] != "\x1b":
                self._put(text[position])
                position += 1
                continue
            control = _CONTROL.match(text, position)
            if control is None:
                self._pending = text[position:]
                assert len(self._pending) < 16, f"unknown sequence {self._pending!r}"
                return
            self._obey(control[1], control[2], control[3])
            position = control.end()

    def _blank(self) -> list[list[str]]:
        return [[" "] * self.width for _ in range(self.height)]

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._row = min(self.height - 1, self._row + 1)
        else:
            assert character.isprintable(), f"control character {character!r}"
            width = cell_len(character)
            if self._column + width > self.width or self._row >= self.height:
                self.overflows += 1
                return
            self._cells[self._row][self._column] = character
            if width == 2:
                self._cells[self._row][self._column + 1] = ""
            self._column += width

    def _obey(self, private: str, numbers: str, letter: str) -> None:
        if private:
            self._switch(numbers, letter)
        elif letter == "m":
            if numbers not in {"0", "1", "2", "7"}:
                self.colours.add(numbers)
        elif letter == "H":
            row, column = numbers.split(";")
            self._row, self._column = int(row) - 1, int(column) - 1
        elif letter == "J":
            first = 0 if numbers == "2" else self._row
            for cells in self._cells[first:]:
                cells[:] = [" "] * self.width
        elif letter == "K":
            assert numbers == "2", "part of a line is never erased"
            self._cells[self._row][:] = [" "] * self.width
        else:
            raise AssertionError(f"unknown sequence [{numbers}{letter}")

    def _switch(self, numbers: str, letter: str) -> None:
        is_on = letter == "h"
        if numbers == "1049":
            self.is_alternate = is_on
            self._cells = self._blank() if is_on else self._main
        elif numbers == "25":
            self.has_cursor = is_on
        elif numbers == "7":
            self.wraps = is_on
        else:
            raise AssertionError(f"unknown mode {numbers}")
