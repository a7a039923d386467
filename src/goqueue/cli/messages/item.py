"""One message of an answer: its JSON as it came, and what the command line reads of it."""

import base64
import binascii

import msgspec

from goqueue.client import GoQueueError
from goqueue.model import parse_time

__all__ = ["Item", "Page", "read_page"]


class _Fields(msgspec.Struct, frozen=True):
    """The fields that are looked at; the rest stays in the JSON."""

    topic: str
    partition: int
    offset: int
    timestamp: str
    value: str | None
    key: str = ""
    encoding: str = ""
    priority: str = "normal"
    headers: dict[str, str] = {}
    base64_headers: list[str] = []
    receipt_handle: str = ""
    delivery_count: int = 0


class _Body(msgspec.Struct, frozen=True):
    messages: list[msgspec.Raw]
    next_offset: int = 0


_BODIES = msgspec.json.Decoder(_Body)
_FIELDS = msgspec.json.Decoder(_Fields)


class Item:
    """A message; `raw` is its JSON, byte for byte as the server sent it."""

    __slots__ = ("fields", "raw", "timestamp")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.fields = _FIELDS.decode(raw)
        self.timestamp = parse_time(self.fields.timestamp)

    @property
    def partition(self) -> int:
        return self.fields.partition

    @property
    def offset(self) -> int:
        return self.fields.offset

    @property
    def key(self) -> bytes:
        return self._octets(self.fields.key)

    @property
    def value(self) -> bytes | None:
        value = self.fields.value
        return None if value is None else self._octets(value)

    @property
    def headers(self) -> dict[str, bytes]:
        encoded = self.fields.base64_headers
        return {
            name: base64.b64decode(value) if name in encoded else value.encode()
            for name, value in self.fields.headers.items()
        }

    def _octets(self, text: str) -> bytes:
        return base64.b64decode(text) if self.fields.encoding == "base64" else text.encode()


class Page(msgspec.Struct, frozen=True):
    """Messages of one answer, and where its reader goes on."""

    items: list[Item]
    next_offset: int


def read_page(body: bytes) -> Page:
    """The messages of an answer; an answer that is not what the contract says is refused."""
    try:
        answer = _BODIES.decode(body)
        return Page([Item(bytes(raw)) for raw in answer.messages], answer.next_offset)
    except (msgspec.MsgspecError, binascii.Error, ValueError) as error:
        words = f"the answer is not what the contract says: {error}"
        raise GoQueueError("response_invalid", words) from error
