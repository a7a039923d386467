"""The picture of a trace in the README: a recorded trace, drawn by `goqueue trace` as SVG.

`python docs/pictures/trace_picture.py` prints the SVG of `trace.json`. The same recording always
gives the same bytes, so a test can tell a stale picture. With `--record` the script plays the story
on the node at GOQUEUE_SERVER and writes a new recording.
"""

import argparse
import sys
import time
from pathlib import Path
from xml.sax.saxutils import escape

import msgspec

import goqueue
from goqueue.cli.trace import timeline
from goqueue.client.traces import Trace

__all__ = ["draw", "record"]

RECORDING = Path(__file__).with_name("trace.json")
COMMAND = "$ goqueue trace message orders 0:0"
COLUMNS = 100

CELL_PX = 8.4
LINE_PX = 20
MARGIN_PX = 20
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
BACKGROUND, PLAIN, DIM = "#0d1117", "#c9d1d9", "#8b949e"
# The first of these words in a line decides its colour.
COLOURS = (
    ("nacked", "#ff7b72"),
    ("dlq.routed", "#ff7b72"),
    ("acked", "#7ee787"),
    ("status", "#7ee787"),
    ("redriven", "#79c0ff"),
    ("delay.", "#e3b341"),
    ("$ ", DIM),
)


def draw(trace: Trace) -> str:
    """The trace as `goqueue trace` prints it, in a dark terminal."""
    lines = [COMMAND, *(line.rstrip() for line in timeline(trace, COLUMNS))]
    width = round(max(map(len, lines)) * CELL_PX) + 2 * MARGIN_PX
    height = len(lines) * LINE_PX + 2 * MARGIN_PX
    size = f'width="{width}" height="{height}"'
    box = f'viewBox="0 0 {width} {height}" role="img" aria-label="Output of goqueue trace"'
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box}>',
        f'<rect {size} rx="8" fill="{BACKGROUND}"/>',
        f'<g font-family="{FONT}" font-size="14" fill="{PLAIN}" xml:space="preserve">',
    ]
    for number, line in enumerate(lines):
        if line:
            colour = next((fill for word, fill in COLOURS if word in line), "")
            fill = f' fill="{colour}"' if colour else ""
            # A length per line keeps the columns straight whichever font the reader has.
            length = f' textLength="{len(line) * CELL_PX:.1f}" lengthAdjust="spacingAndGlyphs"'
            place = f'x="{MARGIN_PX}" y="{MARGIN_PX + (number + 1) * LINE_PX - 6}"'
            drawn.append(f"<text {place}{length}{fill}>{escape(line)}</text>")
    return "\n".join([*drawn, "</g>", "</svg>", ""])


def record() -> Trace:
    """Publish with a delay, fail twice, redrive the dead letter, acknowledge."""
    with goqueue.connect_sync() as q:
        q.topics.create("orders", partitions=1, max_deliveries=2)
        q.publish("orders", {"id": 1}, key="customer-7", delay=0.5)
        with q.consume("orders", group="billing") as consumer:
            for _ in range(2):
                next(consumer).nack(delay_s=0.1, reason="card declined")
            while not q.dead_letters.redrive("orders"):
                time.sleep(0.01)  # the broker moves the message in the background
            next(consumer).ack()
        (found,) = q.traces.search(topic="orders", partition=0, offset=0).traces
        return q.traces.get(found.trace_id)


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the picture of a trace as SVG.")
    parser.add_argument("--record", action="store_true", help="record a new trace first")
    if parser.parse_args().record:
        recorded = msgspec.json.encode(record())
        RECORDING.write_bytes(msgspec.json.format(recorded, indent=2) + b"\n")
    sys.stdout.write(draw(msgspec.json.decode(RECORDING.read_bytes(), type=Trace)))


if __name__ == "__main__":
    main()
