"""The log, shown to a newcomer: write, kill, tear, recover, read, flip a bit, find it.

Run by `make demo`. Works in a temporary directory that it removes. The exit code is 0 only if
every claim it prints was checked and holds.
"""

import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec

from demo.show import Show
from goqueue import records
from goqueue.model import LogId, LogSettings, Message, Offset, Record, Refused, Timestamp
from goqueue.runtime import LocalLog
from goqueue.storage import log_directory

ORDERS = LogId("orders", 0)
# Segments are 64 MiB in earnest; small ones show how a log is made of several.
SETTINGS = LogSettings(segment_bytes=64 * 1024)
BATCH_RECORDS = 25
BATCHES_MAX = 2000
IN_FLIGHT = 4
KILLED_AFTER = 2500
READ_BYTES = 16 * 1024


class Acknowledged(msgspec.Struct, frozen=True):
    """What the writing process prints: everything below `offset` is committed."""

    offset: int


def order(number: int) -> bytes:
    """The value of the order with this number: it can be made again to compare."""
    return f'{{"order": {number}, "item": "book {number % 97}", "cents": {number * 7}}}'.encode()


# The process that will be killed


def write_orders(root: str) -> None:
    """Append batch after batch and say what is acknowledged, until someone ends it."""
    in_flight: deque[Offset] = deque()
    with LocalLog(root, ORDERS, SETTINGS) as log:
        for first in range(0, BATCHES_MAX * BATCH_RECORDS, BATCH_RECORDS):
            numbers = range(first, first + BATCH_RECORDS)
            batch = records.build([Message(value=order(number)) for number in numbers])
            in_flight.append(log.append(batch).next)
            if len(in_flight) == IN_FLIGHT:
                committed = log.wait_for_commit(in_flight.popleft())
                sys.stdout.buffer.write(msgspec.json.encode(Acknowledged(committed)) + b"\n")
                sys.stdout.buffer.flush()


# The demonstration


def demonstrate(root: str, show: Show) -> None:
    folder = Path(root) / log_directory(ORDERS)
    acknowledged = kill_a_writer(root, show)
    torn_bytes = tear(folder, show)
    recover_and_read(root, show, acknowledged, torn_bytes)
    flip_a_bit(root, folder, show)


def kill_a_writer(root: str, show: Show) -> int:
    """Start a process that writes, kill it while it does; the last offset it acknowledged."""
    show.step("A process appends orders, and is killed in the middle of it (SIGKILL)")
    writer = subprocess.Popen(
        [sys.executable, "-m", "demo.log_demo", "write", root],
        stdout=subprocess.PIPE,
        env=os.environ,
    )
    assert writer.stdout is not None
    acknowledged = 0
    for line in writer.stdout:
        if not line.endswith(b"\n"):
            break
        acknowledged = msgspec.json.decode(line, type=Acknowledged).offset
        if acknowledged >= KILLED_AFTER:
            writer.kill()
    code = writer.wait()
    show.say(f"It acknowledged {acknowledged:,} records, each after the disk had synced it.")
    show.prove("it did not end by itself", holds=code < 0)
    return acknowledged


def tear(folder: Path, show: Show) -> int:
    """Add the first half of a record to the last segment, as a power cut may leave it."""
    show.step("A power cut is imitated: half a record at the end of the file")
    last = segments(folder)[-1]
    data = last.read_bytes()
    found = records.scan(data)
    end = found.columns.offsets[-1] + 1 if len(found.columns) else int(last.stem)
    whole = records.encode(
        Record(offset=end, timestamp=1, priority=2, flags=0, key=b"", value=order(end), headers=())
    )
    half = whole[: len(whole) // 2]
    with last.open("ab") as file:
        file.write(half)
    show.say(f"{last.name} ends with {len(half)} of the {len(whole)} bytes of record {end:,}.")
    return len(data) - found.end + len(half)


def recover_and_read(root: str, show: Show, acknowledged: int, torn_bytes: int) -> None:
    show.step("The log is opened again")
    with LocalLog(root, ORDERS, SETTINGS) as log:
        report = log.report
        size = log.log.size
        show.say(
            f"Of {size:,} bytes in {len(log.log.segments)} segments only {report.scanned_bytes:,} "
            "had to be scanned: those above the recovery point."
        )
        cut = report.cut
        if cut is not None:
            show.say(
                f"At byte {cut.position:,} of segment {cut.segment} it cut {cut.size} bytes: "
                f"{cut.reason}."
            )
        show.prove(
            "the torn half was cut, and nothing else",
            holds=cut is not None and cut.size == torn_bytes,
        )
        stored = list(read_all(log, log.log.start))
        prove_orders(show, stored, acknowledged)
        show_offset(log, show, Offset(len(stored) // 2))
        show_time(log, show, stored)


def prove_orders(show: Show, stored: list[Record], acknowledged: int) -> None:
    show.step("Everything is read back")
    unacknowledged = len(stored) - acknowledged
    show.say(f"{len(stored):,} records; {unacknowledged} were written but not yet acknowledged.")
    show.prove(
        f"every one of the {acknowledged:,} acknowledged records is there",
        holds=[record.offset for record in stored[:acknowledged]] == list(range(acknowledged)),
    )
    show.prove(
        "every record holds exactly what was sent, in order, without a gap",
        holds=all(
            (record.offset, record.value) == (number, order(number))
            for number, record in enumerate(stored)
        ),
    )


def show_offset(log: LocalLog, show: Show, offset: Offset) -> None:
    show.step(f"A read from an offset: {offset:,}")
    found = next(read_all(log, offset))
    show.say(f"offset {found.offset}  {(found.value or b'').decode()}")
    show.prove("the first record read is the one asked for", holds=found.offset == offset)


def show_time(log: LocalLog, show: Show, stored: list[Record]) -> None:
    first, last = stored[0].timestamp, stored[-1].timestamp
    middle = Timestamp((first + last) // 2)
    show.step(f"A read by time: the first record {(middle - first) / 1e6:.0f} ms after the first")
    offset = log.seek(middle)
    show.say(f"That is offset {offset:,}.")
    expected = next(record.offset for record in stored if record.timestamp >= middle)
    show.prove("no earlier record is as young, found by looking at all", holds=offset == expected)


def flip_a_bit(root: str, folder: Path, show: Show) -> None:
    show.step("One bit on disk flips, in a segment that was sealed long ago")
    victim = segments(folder)[1]
    base = int(victim.stem)
    position = flip(victim)
    show.say(f"Byte {position:,} of {victim.name} is now wrong.")
    with LocalLog(root, ORDERS, SETTINGS) as log:
        met, refusals = read_around(log)
        for refusal in refusals:
            show.say(f"The read is refused: {refusal}")
        damaged = log.log.damaged
        end = log.log.end
        good, _ = read_around(log)
    show.prove(
        "the damage was detected and reported",
        holds=len(refusals) == len(damaged) == 1 and damaged[0].first >= base,
    )
    show.prove(
        "no wrong byte was served, before or after",
        holds=all(record.value == order(record.offset) for record in (*met, *good)),
    )
    refused = range(damaged[0].first, damaged[0].below) if damaged else range(0)
    kept = [record.offset for record in good]
    show.prove(
        f"of {end:,} records only the damaged one is refused",
        holds=len(refused) == 1 and kept == [each for each in range(end) if each not in refused],
    )


def flip(path: Path) -> int:
    """Change one bit in the middle of a file; its position."""
    position = path.stat().st_size // 2
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))
    return position


def read_around(log: LocalLog) -> tuple[list[Record], list[Refused]]:
    """All records that are served, and the refusals met; a refusal says where to go on."""
    good: list[Record] = []
    refusals: list[Refused] = []
    offset = log.log.start
    while offset < log.log.high_watermark:
        try:
            for record in read_all(log, offset):
                good.append(record)
                offset = Offset(record.offset + 1)
        except Refused as refused:
            refusals.append(refused)
            offset = next_readable(refused)
    return good, refusals


def next_readable(refused: Refused) -> Offset:
    offset = refused.facts.get("next_offset")
    assert isinstance(offset, int)
    return Offset(offset)


def read_all(log: LocalLog, offset: Offset) -> Iterator[Record]:
    """Record after record from `offset` to the end."""
    while (data := log.read(offset, READ_BYTES)) is not None:
        for position in records.walk(data).positions:
            record = records.decode(data, position)
            yield record
            offset = Offset(record.offset + 1)


def segments(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix == ".log")


def main() -> int:
    if sys.argv[1:2] == ["write"]:
        write_orders(sys.argv[2])
        return 0
    show = Show()
    with tempfile.TemporaryDirectory(prefix="goqueue-demo-") as root:
        demonstrate(root, show)
    show.end()
    return 1 if show.failures else 0


if __name__ == "__main__":
    sys.exit(main())
