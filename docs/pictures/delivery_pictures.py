"""The pictures of docs/guides/delivery.md, drawn as SVG.

`python docs/pictures/delivery_pictures.py` writes them beside this script. The same script always
gives the same bytes, so a test can tell a stale picture. Colours follow the reader's light or dark
scheme; texts are real text, so a search and a screen reader find them.
"""

from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

__all__ = ["PICTURES"]

FOLDER = Path(__file__).resolve().parent
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

_STYLE = """\
.back{fill:#fff}.text{fill:#1c2128}.dim{fill:#59636e}.box{fill:#f3f5f8;stroke:#aab4bf}
.line{stroke:#59636e;fill:none}.head{fill:#59636e}
.good{fill:#d7f2dd;stroke:#4a9c5d}.bad{fill:#fde0dd;stroke:#c9554a}.warm{fill:#fff0c9;stroke:#b58b1e}
.cool{fill:#dbeafe;stroke:#4b7fc4}.past{fill:#e6e8eb;stroke:#aab4bf}
@media (prefers-color-scheme:dark){.back{fill:#14181d}.text{fill:#dde3ea}.dim{fill:#9aa5b1}
.box{fill:#1f262d;stroke:#59636e}.line{stroke:#9aa5b1}.head{fill:#9aa5b1}
.good{fill:#1d3a25;stroke:#5fbf77}.bad{fill:#45211e;stroke:#e07b70}.warm{fill:#3d3212;stroke:#d6ab3a}
.cool{fill:#1b2d47;stroke:#6ea3ea}.past{fill:#262c33;stroke:#59636e}}"""


_ARROW = """\
<marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" \
orient="auto-start-reverse"><path class="head" d="M0 0L10 5L0 10z"/></marker>"""


class Picture:
    """Shapes on a canvas, in the order in which they are drawn."""

    def __init__(self, width: int, height: int, says: str) -> None:
        size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        words = f'role="img" aria-label={quoteattr(says)} font-family="{FONT}" font-size="14"'
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {words}>',
            f"<style>{_STYLE}</style>",
            f"<defs>{_ARROW}</defs>",
            f'<rect class="back" width="{width}" height="{height}" rx="8"/>',
        ]

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box") -> None:
        size = f'width="{width:g}" height="{height:g}"'
        self._parts.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" {size} rx="5"/>')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        anchor: str = "middle",
        kind: str = "text",
        size: int = 14,
        is_bold: bool = False,
    ) -> None:
        bold = ' font-weight="600"' if is_bold else ""
        self._parts.append(
            f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}" '
            f'font-size="{size}"{bold}>{escape(words)}</text>'
        )

    def label(
        self, x: float, y: float, size: tuple[float, float], words: str, kind: str = "box"
    ) -> None:
        """A box with text in its middle."""
        width, height = size
        self.box(x, y, width, height, kind)
        lines = words.split("\n")
        first = y + height / 2 + 5 - (len(lines) - 1) * 9
        for number, line in enumerate(lines):
            self.text(x + width / 2, first + 18 * number, line)

    def arrow(self, path: str, *, has_head: bool = True, is_dashed: bool = False) -> None:
        head = ' marker-end="url(#arrow)"' if has_head else ""
        dashes = ' stroke-dasharray="5 4"' if is_dashed else ""
        self._parts.append(f'<path class="line" stroke-width="1.5" d="{path}"{head}{dashes}/>')

    def __str__(self) -> str:
        return "\n".join((*self._parts, "</svg>")) + "\n"


def log() -> Picture:
    """One log with two kinds of readers."""
    picture = Picture(
        760, 262, "One partition, read as a stream by offset and as a queue by leases"
    )
    picture.text(24, 32, "one partition, one copy of each message", anchor="start", is_bold=True)
    for offset in range(10):
        picture.label(24 + 70 * offset, 48, (62, 40), str(offset), "cool")
    picture.text(738, 74, "→", kind="dim", size=16)
    picture.text(24, 128, "stream", anchor="start", is_bold=True)
    picture.text(
        24, 148, "group “reports” reads in order and commits one offset", anchor="start", kind="dim"
    )
    picture.arrow("M479 118V94")
    picture.text(489, 124, "committed offset 6: next to read", anchor="start", size=13)
    picture.text(24, 190, "queue", anchor="start", is_bold=True)
    picture.text(
        24, 210, "group “mail” leases single messages and acks each", anchor="start", kind="dim"
    )
    kinds = ("good", "good", "warm", "good", "warm", "bad", "warm", "box", "box", "box")
    for offset, kind in enumerate(kinds):
        picture.box(24 + 70 * offset, 224, 62, 14, kind)
    for x, kind, words in (
        (390, "good", "acked"),
        (470, "warm", "leased"),
        (552, "bad", "backoff"),
        (640, "box", "available"),
    ):
        picture.box(x, 180, 14, 14, kind)
        picture.text(x + 20, 192, words, anchor="start", size=13)
    return picture


def states() -> Picture:
    """The states of a message for one group."""
    picture = Picture(760, 330, "The states of a message for one group, and the transitions")
    picture.label(30, 130, (130, 50), "available", "cool")
    picture.label(330, 130, (130, 50), "in flight", "warm")
    picture.label(600, 130, (130, 50), "settled", "good")
    picture.label(180, 250, (130, 50), "backoff", "bad")
    picture.label(480, 250, (150, 50), "dead-lettering", "bad")
    picture.label(330, 26, (130, 50), "held by a\ntransaction", "box")
    picture.arrow("M160 145H326")
    picture.text(243, 138, "poll: lease", size=13)
    picture.arrow("M330 166H164")
    picture.text(245, 184, "lease expired, release", size=13)
    picture.arrow("M460 155H596")
    picture.text(528, 148, "ack", size=13)
    picture.arrow("M360 180L270 246")
    picture.text(296, 216, "nack", anchor="end", size=13)
    picture.arrow("M180 275H95V184")
    picture.text(88, 240, "delay over", anchor="end", size=13)
    picture.arrow("M430 180L530 246")
    picture.text(504, 206, "reject, or", anchor="start", size=13)
    picture.text(528, 222, "too many deliveries", anchor="start", size=13)
    picture.arrow("M630 262H665V184")
    picture.text(672, 240, "copied", anchor="start", size=13)
    picture.arrow("M395 130V80")
    picture.text(388, 108, "added", anchor="end", size=13)
    picture.arrow("M460 40H665V126")
    picture.text(560, 34, "commit", size=13)
    picture.arrow("M330 50H95V126")
    picture.text(220, 44, "abort", size=13)
    return picture


def lease() -> Picture:
    """A lease that is renewed, and one that expires."""
    picture = Picture(760, 262, "A lease that is renewed until the ack, and a lease that expires")
    picture.text(
        24, 30, "a healthy worker: the client renews the lease", anchor="start", is_bold=True
    )
    picture.arrow("M24 96H736", has_head=True)
    for x, words in ((40, "lease: 30 s"), (170, "renewed: 30 s"), (300, "renewed: 30 s")):
        picture.label(x, 58, (130, 28), words, "warm")
    picture.label(430, 58, (60, 28), "ack", "good")
    for x, words in (
        (40, "poll"),
        (170, "10 s"),
        (300, "20 s"),
        (430, "25 s: done, the lease ends"),
    ):
        picture.text(x, 114, words, kind="dim", size=13, anchor="start")
    picture.text(24, 158, "a worker that dies: the lease expires", anchor="start", is_bold=True)
    picture.arrow("M24 224H736", has_head=True)
    picture.box(40, 186, 330, 28, "bad")
    picture.text(205, 205, "delivery 1: no renewal, no ack")
    picture.box(370, 186, 250, 28, "warm")
    picture.text(495, 205, "delivery 2, to another worker")
    picture.label(620, 186, (60, 28), "ack", "good")
    picture.text(40, 242, "poll", kind="dim", size=13, anchor="start")
    picture.text(370, 242, "30 s: expired, delivered again", kind="dim", size=13, anchor="start")
    return picture


def prefetch() -> Picture:
    """What a consumer leases ahead of its handler."""
    picture = Picture(
        760, 214, "A consumer leases ahead only what it can handle within a third of a lease"
    )
    picture.text(24, 32, "partition", anchor="start", is_bold=True)
    for number in range(8):
        picture.box(24 + 27 * number, 46, 22, 36, "cool" if number > 2 else "box")
    picture.arrow("M246 64H310")
    picture.text(278, 54, "poll", size=13)
    picture.text(316, 32, "buffer of the consumer", anchor="start", is_bold=True)
    for number in range(4):
        picture.box(316 + 44 * number, 46, 38, 36, "warm")
    picture.arrow("M496 64H556")
    picture.text(562, 32, "your handler", anchor="start", is_bold=True)
    picture.label(562, 46, (150, 36), "one at a time", "good")
    picture.text(
        316,
        104,
        "leased and renewed; next poll when half is left",
        anchor="start",
        kind="dim",
        size=13,
    )
    rows = (
        ("handler takes 10 ms", "100 messages ahead (the limit)", 300),
        ("handler takes 1 s", "10 ahead: a third of a 30 s lease", 150),
        ("handler takes 15 s", "none ahead: other members get them", 0),
    )
    for number, (pace, ahead, width) in enumerate(rows):
        y = 126 + 28 * number
        picture.text(24, y + 15, pace, anchor="start", size=13)
        if width:
            picture.box(180, y + 2, width, 18, "warm")
        picture.text(190 + width, y + 15, ahead, anchor="start", kind="dim", size=13)
    return picture


def retries() -> Picture:
    """A message that fails three times, its dead letter, and the redrive."""
    picture = Picture(
        760, 240, "Three failed deliveries with growing backoff, a dead letter, a redrive"
    )
    picture.text(24, 30, "orders", anchor="start", is_bold=True)
    picture.arrow("M24 92H736", has_head=True)
    for number, (kind, words) in enumerate(
        (
            ("warm", "delivery 1"),
            ("bad", "backoff 1 s"),
            ("warm", "delivery 2"),
            ("bad", "backoff 2 s"),
            ("warm", "delivery 3"),
        )
    ):
        picture.label(30 + 100 * number, 48, (100, 32), words, kind)
    for x in (130, 330):
        picture.text(x, 110, "nack", kind="dim", size=13)
    picture.text(524, 110, "nack", kind="dim", size=13, anchor="end")
    picture.text(24, 160, "orders.dlq", anchor="start", is_bold=True)
    picture.arrow("M24 214H736", has_head=True)
    picture.label(450, 174, (170, 32), "dead letter + reason", "bad")
    picture.arrow("M530 84V170")
    picture.text(538, 140, "max_deliveries = 3", anchor="start", kind="dim", size=13)
    picture.label(640, 48, (92, 32), "delivery 1", "warm")
    picture.arrow("M620 190H686V84")
    picture.text(694, 160, "redrive", anchor="start", size=13)
    return picture


def modes() -> Picture:
    """Which member gets which message, by mode."""
    picture = Picture(760, 236, "The three modes of a group: partitioned, shared and key_ordered")
    one, two, wait = "cool", "warm", "past"
    columns = (
        (
            24,
            "partitioned",
            "a partition has one owner",
            "order per partition",
            ((one, one, one, one), (two, two, two, two)),
        ),
        (
            272,
            "shared",
            "any member gets any message",
            "no order, best balance",
            ((one, two, two, one), (two, one, one, two)),
        ),
        (
            520,
            "key_ordered",
            "one message of a key at a time",
            "order per key, any member",
            ((one, two, wait, one), (two, one, wait, two)),
        ),
    )
    for x, name, rule, order, rows in columns:
        picture.text(x, 32, name, anchor="start", is_bold=True)
        picture.text(x, 52, rule, anchor="start", kind="dim", size=13)
        for row, (keys, kinds) in enumerate(zip(("abac", "dedf"), rows, strict=True)):
            for column, (key, kind) in enumerate(zip(keys, kinds, strict=True)):
                picture.label(x + 40 * column, 68 + 46 * row, (34, 36), key, kind)
            picture.text(x + 166, 91 + 46 * row, f"p{row}", anchor="start", kind="dim", size=13)
        picture.text(x, 176, order, anchor="start", size=13)
    for x, kind, words in (
        (24, one, "leased by member 1"),
        (200, two, "leased by member 2"),
        (376, wait, "waits for the earlier message of its key"),
    ):
        picture.box(x, 202, 16, 16, kind)
        picture.text(x + 24, 215, words, anchor="start", size=13)
    return picture


PICTURES = {
    "log.svg": log,
    "message-states.svg": states,
    "lease.svg": lease,
    "prefetch.svg": prefetch,
    "retries.svg": retries,
    "modes.svg": modes,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(str(draw()), encoding="utf-8")
