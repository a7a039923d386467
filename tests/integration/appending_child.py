"""Appends to a log until it is killed, and says on stdout what was acknowledged.

A line is `acked <first offset> <next offset> <first number>`; it goes out, in one write, only after
the log said that the batch is committed. The value of a record is a function of its number.
"""

import random
import sys

from goqueue.model import Flush, LogId, LogSettings, Message
from goqueue.records import build
from goqueue.runtime import LocalLog

LOG = LogId("kill", 0)


def settings(flush: str) -> LogSettings:
    """Segments so small that a run rolls many times."""
    return LogSettings(
        segment_bytes=20_000, index_interval_bytes=512, flush=Flush(flush), retention_ns=None
    )


def value_of(number: int) -> bytes:
    """A value that no other number has, of a length that varies."""
    return random.Random(number).randbytes(number % 300) + b"#%d" % number


def main(root: str, flush: str, first_number: int) -> None:
    number = first_number
    sizes = random.Random(first_number)
    with LocalLog(root, LOG, settings(flush)) as local:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            count = sizes.randrange(1, 20)
            values = [value_of(number + index) for index in range(count)]
            appended = local.append(build([Message(value=value) for value in values]))
            local.tick()
            if local.wait_for_commit(appended.next) < appended.next:
                raise SystemExit("the disk refused")
            sys.stdout.write(f"acked {appended.first} {appended.next} {number}\n")
            sys.stdout.flush()
            number += count


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
