"""Tokens of `.proto` text, read one after the other.

Hostile input: one regular expression without backtracking; at most `DEPTH_MAX` levels of braces.
"""

import re
from collections.abc import Iterator
from typing import NoReturn

import msgspec

from goqueue.schemas.errors import DEPTH_MAX, SchemaInvalid

__all__ = ["NUMBER_MAX", "Token", "TokenReader"]

NUMBER_MAX = (1 << 29) - 1
_RESERVED_FIRST, _RESERVED_LAST = 19_000, 19_999
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>(?:0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?))
    |(?P<mark>[{}\[\]()<>;=,.:+\-/])""",
    re.VERBOSE,
)
_INTEGER = re.compile(r"0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*")


class Token(msgspec.Struct, frozen=True):
    """A word, a number, text in quotes or a mark, with its line."""

    kind: str
    text: str
    line: int


def _tokens(text: str) -> Iterator[Token]:
    position, line = 0, 1
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise SchemaInvalid(f"line {line}", f"unexpected {text[position]!r}")
        if found.lastgroup is not None:
            yield Token(found.lastgroup, found[0], line)
        line += found[0].count("\n")
        position = found.end()
    yield Token("end", "", line)


class TokenReader:
    """Reads the tokens of one text; what is not as expected raises SchemaInvalid."""

    def __init__(self, text: str) -> None:
        self._all = list(_tokens(text))
        self._at = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        return self._all[self._at]

    def peek(self, ahead: int = 0) -> str:
        at = min(self._at + ahead, len(self._all) - 1)
        token = self._all[at]
        return "" if token.kind == "string" else token.text

    def advance(self) -> str:
        token = self.token
        if token.kind == "end":
            self.fail("ends too early")
        self._at += 1
        return token.text

    def is_next(self, text: str) -> bool:
        if self.token.kind == "end":
            self.fail("ends too early")
        if self.peek() != text:
            return False
        self._at += 1
        return True

    def expect(self, text: str) -> None:
        if not self.is_next(text):
            self.fail(f"expected {text!r}, not {self.token.text[:50]!r}")

    def name(self) -> str:
        if self.token.kind != "name":
            self.fail(f"expected a name, not {self.token.text[:50]!r}")
        return self.advance()

    def string(self) -> str:
        if self.token.kind != "string":
            self.fail(f"expected text in quotes, not {self.token.text[:50]!r}")
        return self.advance()[1:-1]

    def dotted(self) -> str:
        parts = [self.name()]
        while self.is_next("."):
            parts.append(self.name())
        return ".".join(parts)

    def type_name(self) -> str:
        return ("." if self.is_next(".") else "") + self.dotted()

    def integer(self) -> int:
        text = self.token.text
        if self.token.kind != "number" or len(text) > 20 or not _INTEGER.fullmatch(text):
            self.fail(f"expected a whole number, not {text[:50]!r}")
        self.advance()
        if text[:2] in ("0x", "0X"):
            return int(text, 16)
        return int(text, 8) if text[0] == "0" else int(text)

    def signed(self) -> int:
        return -self.integer() if self.is_next("-") else self.integer()

    def field_number(self) -> int:
        self.expect("=")
        number = self.integer()
        if not 1 <= number <= NUMBER_MAX or _RESERVED_FIRST <= number <= _RESERVED_LAST:
            self.fail(f"{number} is no number of a field")
        return number

    def field_options(self) -> str:
        """Skip the options of a field, if it has any; returns the name in JSON that they set."""
        if self.peek() != "[":
            return ""
        first = self._at
        self.skip_brackets()
        words = iter(self._all[first : self._at])
        for word in words:
            if word.text in {"[", ","} and next(words).text == "json_name":
                next(words)
                return next(words).text[1:-1]
        return ""

    def skip_option(self) -> None:
        while not self.is_next(";"):
            if self.peek() in ("{", "["):
                self.skip_brackets()
            else:
                self.advance()

    def skip_block(self) -> None:
        while self.peek() != "{":
            self.advance()
        self.skip_brackets()

    def skip_brackets(self) -> None:
        depth = 0
        while True:
            word = self.peek()
            self.advance()
            if word in ("{", "["):
                depth += 1
                if depth + self._depth > DEPTH_MAX:
                    self.fail(f"deeper than {DEPTH_MAX}")
            elif word in ("}", "]"):
                depth -= 1
                if not depth:
                    return

    def canonical(self) -> str:
        """All tokens, one space apart."""
        return " ".join(token.text for token in self._all[:-1])

    def leave(self) -> None:
        self._depth -= 1

    def enter(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self.fail(f"deeper than {DEPTH_MAX}")

    def fail(self, reason: str) -> NoReturn:
        raise SchemaInvalid(f"line {self.token.line}", reason)
