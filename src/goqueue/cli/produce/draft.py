"""A message before it is sent: read from a line or from flags.

A line is a message M of the API if it is a JSON object, else a value. Pure: whatever is wrong with
a line is raised as a `DraftInvalid`, and the next line has nothing to do with it.
"""

import base64
import binascii

import msgspec

from goqueue.model import Priority

__all__ = [
    "Draft",
    "DraftInvalid",
    "Pattern",
    "as_json",
    "decode_base64",
    "read_draft",
    "read_priority",
]


class DraftInvalid(ValueError):
    """Why a line is no message; one sentence without a full stop."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """One message; what is None is left to the server."""

    value: bytes | None
    key: bytes = b""
    headers: dict[str, str] = {}
    partition: int | None = None
    priority: int | None = None
    delay: str | float | None = None
    deliver_at: str | None = None

    @property
    def is_delayed(self) -> bool:
        return self.delay is not None or self.deliver_at is not None


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """How lines are read, and what every message gets that does not say otherwise.

    With `is_raw` a line is always a value; with `is_base64` values and keys that stand by
    themselves are base64.
    """

    common: Draft = Draft(value=None)
    is_raw: bool = False
    is_base64: bool = False


class _Line(msgspec.Struct, frozen=True):
    """A message as the API takes it."""

    value: str | msgspec.UnsetType | None = msgspec.UNSET
    key: str | None = None
    encoding: str | None = None
    headers: dict[str, str] | None = None
    partition: int | None = None
    priority: str | int | None = None
    delay: str | float | None = None
    deliver_at: str | None = msgspec.field(default=None, name="deliverAt")


_LINES = msgspec.json.Decoder(_Line)
# What a broker says about where it delivered a message; of one that is sent anew it is not true.
_DELIVERED = "gq.delayed-from"


def read_draft(line: bytes, pattern: Pattern) -> Draft | None:
    """The message of a line without its line feed; None for a line that is skipped."""
    if pattern.is_raw:
        return _plain(line, pattern)
    line = line.removesuffix(b"\r")
    text = line.strip()
    if not text or text.startswith(b"#"):
        return None
    if not text.startswith(b"{"):
        return _plain(line, pattern)
    try:
        given = _LINES.decode(text)
    except msgspec.ValidationError as error:
        raise DraftInvalid(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # It only looked like an object.
        return _plain(line, pattern)
    return _spelled_out(given, pattern.common)


def read_priority(given: str | int) -> int:
    """By name in any case, or by number."""
    try:
        text = str(given)
        return int(Priority(int(text)) if text.isdecimal() else Priority[text.upper()])
    except (KeyError, ValueError):
        names = ", ".join(priority.name.lower() for priority in Priority)
        raise DraftInvalid(
            f"priority {str(given)!a} is neither 0 to 4 nor one of {names}"
        ) from None


def as_json(draft: Draft) -> bytes:
    """The message as the API takes it; as text where it is text."""
    value, key, encoding = _texts(draft)
    fields: dict[str, object] = {"value": value}
    optional = {
        "key": key or None,
        "encoding": encoding,
        "headers": draft.headers or None,
        "partition": draft.partition,
        "priority": draft.priority,
        "delay": draft.delay,
        "deliverAt": draft.deliver_at,
    }
    fields |= {name: given for name, given in optional.items() if given is not None}
    return msgspec.json.encode(fields)


def _texts(draft: Draft) -> tuple[str | None, str, str | None]:
    try:
        value = None if draft.value is None else draft.value.decode()
        return value, draft.key.decode(), None
    except UnicodeDecodeError:
        value = None if draft.value is None else base64.b64encode(draft.value).decode()
        return value, base64.b64encode(draft.key).decode(), "base64"


def _plain(line: bytes, pattern: Pattern) -> Draft:
    value = decode_base64(line.strip()) if pattern.is_base64 else line
    return msgspec.structs.replace(pattern.common, value=value)


def _spelled_out(given: _Line, common: Draft) -> Draft:
    if given.value is msgspec.UNSET and given.key is None:
        raise DraftInvalid(
            "neither `value` nor `key` is in this object; with --raw a line is sent as it is"
        )
    if given.encoding not in {None, "base64"}:
        raise DraftInvalid(f"encoding {given.encoding!a} is not base64")
    is_base64 = given.encoding == "base64"
    own_time = given.delay is not None or given.deliver_at is not None
    return Draft(
        value=_octets(given.value, is_base64) if isinstance(given.value, str) else None,
        key=_octets(given.key, is_base64) if given.key is not None else common.key,
        headers={**common.headers, **_headers(given.headers or {})},
        partition=common.partition if given.partition is None else given.partition,
        priority=common.priority if given.priority is None else read_priority(given.priority),
        delay=given.delay if own_time else common.delay,
        deliver_at=given.deliver_at if own_time else common.deliver_at,
    )


def _headers(given: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if name != _DELIVERED}


def _octets(text: str, is_base64: bool) -> bytes:
    return decode_base64(text.encode()) if is_base64 else text.encode()


def decode_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise DraftInvalid(f"not base64: {error}") from error
