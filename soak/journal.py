"""What each worker was told, line by line: the evidence that the verdict is found on.

Every worker has a file of its own. Times are wall-clock nanoseconds of one machine, which the
node shares, so that the deadline of a lease can be compared with the answer to an ack.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import msgspec

__all__ = ["Delivered", "Event", "Journal", "Published", "Seen", "Sent", "Settled", "read_journals"]


class Published(msgspec.Struct, frozen=True, tag="published"):
    """The node said where a message is."""

    value: str
    partition: int
    offset: int


class Sent(msgspec.Struct, frozen=True, tag="sent"):
    """A message is on its way; nothing more is known unless `Published` follows."""

    value: str
    key: str


class Delivered(msgspec.Struct, frozen=True, tag="delivered"):
    """A message was leased to a member of a group."""

    group: str
    partition: int
    offset: int
    value: str
    key: str
    count: int
    leased_at: int
    deadline: int


class Settled(msgspec.Struct, frozen=True, tag="settled"):
    """A member acked, nacked or rejected a message; `outcome` is done, refused or unknown."""

    group: str
    partition: int
    offset: int
    count: int
    verb: str
    outcome: str
    sent_at: int
    answered_at: int


class Seen(msgspec.Struct, frozen=True, tag="seen"):
    """A stream reader was shown a message."""

    partition: int
    offset: int
    value: str


Event = Published | Sent | Delivered | Settled | Seen
_decoder: "msgspec.json.Decoder[Event]" = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()


class Journal:
    """The file of one worker."""

    def __init__(self, directory: Path, worker: str) -> None:
        self._file: TextIO = (directory / f"{worker}.jsonl").open("w", encoding="utf-8")

    def note(self, event: Event) -> None:
        self._file.write(_encoder.encode(event).decode() + "\n")

    def close(self) -> None:
        self._file.close()

    @staticmethod
    def now() -> int:
        return time.time_ns()


def read_journals(directory: Path) -> Iterator[Event]:
    """Every event of every worker, in the order of each worker."""
    for path in sorted(directory.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield _decoder.decode(line)
