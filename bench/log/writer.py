"""A process of its own that fills a log and says how far it is: to be measured, or killed.

Run as `python -m bench.log.writer ROOT BYTES`. Each line on stdout is a `Progress`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.log.amounts import BATCH_RECORDS, IN_FLIGHT
from bench.log.append import LOG, make_messages
from goqueue import records
from goqueue.model import Flush, LogSettings, Offset
from goqueue.runtime import LocalLog

__all__ = ["Progress", "read_progress", "start_writer"]

ROOT = Path(__file__).resolve().parents[2]
_VALUE_SIZE = 1024
_REPORTS = 200


class Progress(msgspec.Struct, frozen=True):
    """Bytes appended by this process, the committed end of the log, resident memory."""

    appended_bytes: int
    committed: int
    resident_bytes: int


_decoder = msgspec.json.Decoder(Progress)


def start_writer(root: str, size: int) -> "subprocess.Popen[bytes]":
    """Start the process; the caller reads its progress, waits for it or kills it."""
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-m", "bench.log.writer", root, str(size)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )


def read_progress(writer: "subprocess.Popen[bytes]") -> Iterator[Progress]:
    """What the process says until it ends; a line that a kill cut short is left out."""
    assert writer.stdout is not None
    for line in writer.stdout:
        if line.endswith(b"\n"):
            yield _decoder.decode(line)


def write(root: str, size: int) -> None:
    template = records.build(make_messages(_VALUE_SIZE))
    count = max(size // len(template), 1)
    every = max(count // _REPORTS, 1)
    with LocalLog(root, LOG, LogSettings(flush=Flush.INTERVAL)) as log:
        for number in range(1, count + 1):
            appended = log.append(bytearray(template))
            log.wait_for_commit(Offset(appended.next - IN_FLIGHT * BATCH_RECORDS))
            log.tick()
            if number % every == 0 or number == count:
                _say(number * len(template), log.wait_for_commit(appended.next))


def _say(appended_bytes: int, committed: int) -> None:
    progress = Progress(appended_bytes, committed, _resident_bytes())
    sys.stdout.buffer.write(msgspec.json.encode(progress) + b"\n")
    sys.stdout.buffer.flush()


def _resident_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]))
