"""A dead letter: a message that was rejected or failed too often, and what is known about that.

The broker writes the story of a dead letter into headers of its copy. Owns their reading; a header
that had to give way because the message was full is an empty field here.
"""

import datetime as dt
from typing import NamedTuple, TypeVar, overload

import msgspec

from goqueue.client.errors import ArgumentInvalid, GoQueueError
from goqueue.client.message import Message, moment
from goqueue.client.values import nanoseconds
from goqueue.model import DEAD_LETTER_PREFIX, REDRIVEN_HEADER

__all__ = ["DeadLetter", "Place", "is_dead_letter"]

T = TypeVar("T")

_NEEDED = ("topic", "partition", "offset", "group")


class Place(NamedTuple):
    """Where a message is: `orders 1:42` is offset 42 in partition 1 of orders."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic} {self.partition}:{self.offset}"


def is_dead_letter(message: Message) -> bool:
    """Whether the headers say where it came from, and for which group it failed."""
    headers = message.headers
    return all(DEAD_LETTER_PREFIX + name in headers for name in _NEEDED)


class DeadLetter(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One dead letter: the message as it was published, and why it is here.

    `origin` is where it was published, `group` the group that gave it up after `deliveries`
    deliveries. `cause` is "rejected" or "max_deliveries", `reason` what the last reject or nack
    said. `deliveries` and `dead_at` are None if the copy had no room for them.
    """

    message: Message
    origin: Place
    group: str
    cause: str
    reason: str
    deliveries: int | None
    dead_at: dt.datetime | None
    is_redriven: bool = False

    @classmethod
    def read(cls, message: Message) -> "DeadLetter":
        """The dead letter that a message of a dead-letter topic is; `ArgumentInvalid` if none."""
        facts = {
            name.removeprefix(DEAD_LETTER_PREFIX): value.decode("utf-8", "replace")
            for name, value in message.headers.items()
            if name.startswith(DEAD_LETTER_PREFIX)
        }
        deliveries = facts.get("deliveries", "")
        try:
            return cls(
                message=message,
                origin=Place(facts["topic"], int(facts["partition"]), int(facts["offset"])),
                group=facts["group"],
                cause=facts.get("cause", ""),
                reason=facts.get("reason", ""),
                deliveries=int(deliveries) if deliveries else None,
                dead_at=moment(nanoseconds(facts["time"])) if "time" in facts else None,
                is_redriven=REDRIVEN_HEADER in message.headers,
            )
        except (KeyError, ValueError, GoQueueError) as error:
            raise ArgumentInvalid(f"{message!r} is not a dead letter: {error!r}") from error

    def __repr__(self) -> str:
        return f"DeadLetter({self.place}, of {self.origin}, {self.cause}: {self.reason!r})"

    @property
    def place(self) -> Place:
        """Where the dead letter is: a place of the dead-letter topic."""
        return Place(self.message.topic, self.message.partition, self.message.offset)

    @property
    def topic(self) -> str:
        """The dead-letter topic."""
        return self.message.topic

    @property
    def partition(self) -> int:
        """The partition of the dead-letter topic."""
        return self.message.partition

    @property
    def offset(self) -> int:
        """The offset in the dead-letter topic, as `redrive(letters=...)` takes it."""
        return self.message.offset

    @property
    def timestamp(self) -> int:
        """When the copy was stored, in nanoseconds since 1970."""
        return self.message.timestamp

    @property
    def key(self) -> bytes:
        """The key; empty if the message has none."""
        return self.message.key

    @property
    def value(self) -> bytes | None:
        """The value as it was published."""
        return self.message.value

    @property
    def text(self) -> str:
        """The value as text; `DecodeError` if it is not UTF-8."""
        return self.message.text

    @overload
    def json(self) -> object: ...

    @overload
    def json(self, type: type[T]) -> T: ...

    def json(self, type: type[T] | None = None) -> T | object:  # noqa: A002 - as `Message.json`
        """The value as JSON, checked against `type` if one is given; see `Message.json`."""
        return self.message.json() if type is None else self.message.json(type)

    @property
    def headers(self) -> dict[str, bytes]:
        """All headers, also those that the broker added."""
        return self.message.headers

    def header(self, name: str) -> str | None:
        """One header as text; None if there is no such header."""
        return self.message.header(name)
