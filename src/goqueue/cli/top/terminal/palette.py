"""Styles as what a terminal understands, or as nothing at all."""

import msgspec

from goqueue.cli.top.picture import BARS, Line, Style

__all__ = ["Palette"]

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
# Without colours what matters is still told apart: by weight, and by turning the letters round.
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
