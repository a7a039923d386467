"""What became of the lines: how many were sent, how many were not, and why the first were not."""

import sys

from goqueue.cli.render import printable

__all__ = ["Tally"]

_SHOWN_MAX = 5


class Tally:
    """Counts; keeps the first few failures in words."""

    def __init__(self) -> None:
        self.sent = 0
        self.failed = 0
        self._words: list[str] = []

    def note_sent(self, count: int = 1) -> None:
        self.sent += count

    def note_failed(self, number: int, words: str) -> None:
        self.failed += 1
        if len(self._words) < _SHOWN_MAX:
            self._words.append(f"line {number}: {words}")

    def print_failures(self) -> None:
        """One line on standard error for each of the first failures, and one for the rest."""
        for words in self._words:
            print(f"goqueue: {printable(words)}", file=sys.stderr)
        if self.failed > len(self._words):
            print(f"goqueue: and {self.failed - len(self._words)} more", file=sys.stderr)

    def __str__(self) -> str:
        sent = f"{self.sent} message{'' if self.sent == 1 else 's'} sent"
        return f"{sent} and {self.failed} not" if self.failed else sent
