"""A message as its sender words it, made into what records are built of.

What is unusual about a message is tried out here: in a batch it would take the others down.
"""

from goqueue import records
from goqueue.client.errors import MessageTooLarge, refusal
from goqueue.client.values import Headers, Value, encode_key, encode_value, headers, priority_number
from goqueue.model import KEY_BYTES_MAX, Message, Priority, Refused
from goqueue.records import HEADER_SIZE

__all__ = ["draft", "weigh"]

_NORMAL = int(Priority.NORMAL)
_RESERVED = b"gq."


def draft(
    value: Value, key: str | bytes | None, given: Headers | None, priority: int | str
) -> Message:
    """The message, checked as far as a record goes."""
    if type(value) is not bytes:
        value = encode_value(value)
    key = b"" if key is None else key.encode() if type(key) is str else encode_key(key)
    if given is None and priority == _NORMAL:
        message = Message(value=value, key=key)
        if not key.startswith(_RESERVED) and len(key) <= KEY_BYTES_MAX:
            return message
    else:
        number = priority_number(priority)
        message = Message(value=value, key=key, headers=headers(given), priority=number)
    try:
        records.build((message,))
    except Refused as refused:
        raise refusal(refused.code, str(refused), details=refused.facts) from refused
    return message


def weigh(message: Message, bytes_max: int) -> int:
    """What the message occupies in a request; refuses one that its topic would not take."""
    value = message.value
    size = len(message.key) + (0 if value is None else len(value))
    if message.headers:
        size += sum(len(name.encode()) + len(value) for name, value in message.headers)
    if size > bytes_max:
        raise MessageTooLarge(
            "message_too_large",
            f"{size} bytes, the topic takes {bytes_max}",
            details={"size": size, "limit": bytes_max},
        )
    return HEADER_SIZE + size
