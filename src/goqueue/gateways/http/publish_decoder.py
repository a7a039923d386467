"""Messages of a publish request, from JSON to one batch of records.

Owns what is wrong with a single message: that one is left out and has its error, the others go on
in their order. Never knows the topic; what depends on it is refused by the broker, item by item.

Invariant: `batch` holds exactly the messages that are not in `refused`, in request order.
"""

import base64
import binascii
import contextlib
from collections.abc import Sequence
from itertools import repeat
from typing import Annotated, Unpack

import msgspec
from msgspec import Meta

from goqueue.gateways.errors import ItemError, describe
from goqueue.gateways.http.bodies import INT32_MAX, make_whole, refusal_of
from goqueue.gateways.http.delay_limits import DelayLimits
from goqueue.gateways.http.json_chunks import MessageChunks, Steps, check_values, finished
from goqueue.gateways.http.messages import (
    PRIORITY_NAMES,
    MessageBody,
    MessageFields,
    ProducerPublishBody,
)
from goqueue.gateways.message_rules import checked_headers, reworded
from goqueue.model import (
    Code,
    Facts,
    Message,
    Priority,
    Refused,
)
from goqueue.records import Draft

__all__ = [
    "PublishBatch",
    "decode_message",
    "decode_plain",
    "decode_publish",
    "decode_publish_one",
    "draft_one",
    "intake_steps",
    "item_error",
]

_PRIORITIES: dict[str | int, int] = {name: number for number, name in enumerate(PRIORITY_NAMES)}
_PRIORITIES |= {number: number for number in range(len(PRIORITY_NAMES))}

_NORMAL = int(Priority.NORMAL)

_MESSAGES_MAX = 10_000
# In so few bytes a request is looked at for a single plain message first.
_PLAIN_BYTES_MAX = 1024
# What is read at once, whatever is in it.
_WHOLE_BYTES_MAX = 128 * 1024
# So many are read between two pauses where each has to be read for itself.
_TURN_MESSAGES = 500


# To look for the name that was meant takes longer than to read a message.
_SUGGESTIONS_MAX = 20
_NOTHING = msgspec.Raw()


class _Snake(MessageFields, frozen=True, rename={"deliverAt": "deliver_at"}):
    """A message whose time is called `deliver_at`."""

    deliverAt: str | None = None  # noqa: N815 - as in `MessageFields`


class _ExactBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request that nearly everybody sends."""

    messages: Annotated[list[MessageFields], Meta(min_length=1, max_length=_MESSAGES_MAX)]


class _SnakeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The same request from those who write all names alike."""

    messages: Annotated[list[_Snake], Meta(min_length=1, max_length=_MESSAGES_MAX)]


class _Unread(msgspec.Struct, forbid_unknown_fields=True):
    """A publish request whose messages are read one by one."""

    messages: list[msgspec.Raw]


class _ProducerMessage(MessageBody, frozen=True):
    """A message with who publishes it, which was read before."""

    producer_id: msgspec.Raw = _NOTHING
    epoch: msgspec.Raw = _NOTHING
    topic: msgspec.Raw = _NOTHING
    sequence: msgspec.Raw = _NOTHING


class _Loose(MessageBody, frozen=True):
    """A message whose whole numbers may be written `1.0`: JSON has one kind of number."""

    partition: int | float | None = None  # type: ignore[assignment]  # wider on purpose
    priority: str | int | float | None = None  # type: ignore[assignment]  # wider on purpose


class _LooseProducerMessage(_ProducerMessage, frozen=True):
    """The same of a message with who publishes it."""

    partition: int | float | None = None  # type: ignore[assignment]  # wider on purpose
    priority: str | int | float | None = None  # type: ignore[assignment]  # wider on purpose


_EXACT_DECODER = msgspec.json.Decoder(_ExactBody)
_LIST_DECODER = msgspec.json.Decoder(list[MessageFields])
_UNREAD_LIST_DECODER = msgspec.json.Decoder(list[msgspec.Raw])
_SNAKE_DECODER = msgspec.json.Decoder(_SnakeBody)
_UNREAD_DECODER = msgspec.json.Decoder(_Unread)
_MESSAGE_DECODER = msgspec.json.Decoder(MessageBody)
_LOOSE_DECODER = msgspec.json.Decoder(_Loose)
_PRODUCER_DECODER = msgspec.json.Decoder(_ProducerMessage)
_LOOSE_PRODUCER_DECODER = msgspec.json.Decoder(_LooseProducerMessage)


class PublishBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The messages that were taken, and why the others were not, by their index in the request.

    `dues` says of each that was taken when it is due, 0 for at once; None stands for 0 throughout.
    """

    count: int
    batch: bytearray
    targets: list[int] | None
    priorities: list[int]
    refused: dict[int, ItemError]
    dues: list[int] | None = None


def item_error(code: Code, **facts: Unpack[Facts]) -> ItemError:
    """The error of one item of a batch."""
    return ItemError(error=describe(code, facts), code=code.value)


# Empty between two uses.
_PLAIN_DRAFT = Draft()
_PLAIN_PRIORITIES = [_NORMAL]


def decode_plain(body: bytes | bytearray) -> PublishBatch | None:
    """Read a small request that brings one message with a value and perhaps a key; else None.

    That is what clients send that publish one message at a time. Everything else about a message,
    and everything wrong with it, is for `intake_steps`, which starts anew.
    """
    if len(body) > _PLAIN_BYTES_MAX:
        return None
    try:
        messages = _EXACT_DECODER.decode(body).messages
        message = messages[0]
        key, value = message.key, message.value
        if len(messages) > 1 or message != MessageFields(value, key):
            return None
        _PLAIN_DRAFT.add(key.encode() if key else b"", None if value is None else value.encode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, Refused):
        return None
    return PublishBatch(
        count=1,
        batch=_PLAIN_DRAFT.take(),
        targets=None,
        priorities=_PLAIN_PRIORITIES,
        refused={},
    )


def decode_publish(body: bytes | bytearray, delays: DelayLimits) -> PublishBatch:
    """Read a publish request without a pause."""
    return finished(intake_steps(body, delays))


def intake_steps(body: bytes | bytearray, delays: DelayLimits) -> Steps[PublishBatch]:
    """Read a publish request; refuses it as a whole only if its messages cannot be told apart.

    A large one is read a chunk at a time: no body keeps everybody else waiting.
    """
    drafting = _BatchBuilder(delays)
    if len(body) <= _WHOLE_BYTES_MAX:
        drafting.add((yield from _read_whole(body, drafting)))
        return drafting.batch()
    chunks = MessageChunks(body)
    while not chunks.is_done:
        end = chunks.guess()
        messages: Sequence[MessageFields | None] | None = None
        if end is not None:
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                messages = _LIST_DECODER.decode(chunks.text(end))
        if messages is None:
            end = yield from chunks.find()
            messages = yield from _read_chunk(chunks.text(end), drafting)
            yield
        assert end is not None, "a chunk that was read has an end"
        chunks.take(end)
        drafting.add(messages)
        yield
    return drafting.batch()


def _read_whole(
    body: bytes | bytearray, drafting: "_BatchBuilder"
) -> Steps[Sequence[MessageFields | None]]:
    """The messages of a body that is not large."""
    try:
        return _EXACT_DECODER.decode(body).messages
    except msgspec.ValidationError as error:
        if "of length" in str(error):
            # There is only one list: to read it again would not make it shorter.
            raise refusal_of(error) from None
        snake = _snake(body, error)
        if snake is not None:
            return snake
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refusal_of(error) from None
    try:
        unread = _UNREAD_DECODER.decode(body).messages
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refusal_of(error, _Unread) from None
    if not 1 <= len(unread) <= _MESSAGES_MAX:
        raise _wrong_count(len(unread))
    return (yield from _one_by_one(unread, drafting))


def _read_chunk(text: bytes, drafting: "_BatchBuilder") -> Steps[Sequence[MessageFields | None]]:
    """The messages of a chunk that is a list, with anything unusual in it."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # A long message is no reason to read it in another way.
        return _LIST_DECODER.decode(text)
    yield
    try:
        unread = _UNREAD_LIST_DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refusal_of(error) from None
    if drafting.count + len(unread) > _MESSAGES_MAX:
        raise _wrong_count(drafting.count + len(unread))
    return (yield from _one_by_one(unread, drafting))


def _wrong_count(found: int) -> Refused:
    return Refused(
        Code.REQUEST_INVALID, field="messages", minimum=1, maximum=_MESSAGES_MAX, found=found
    )


def decode_publish_one(body: bytes | bytearray, delays: DelayLimits) -> Steps[PublishBatch]:
    """Read a request that is one message; what is wrong with it refuses the request."""
    if len(body) > _WHOLE_BYTES_MAX:
        yield from check_values(body)
    try:
        message = _read(body, _PRODUCER_DECODER, _LOOSE_PRODUCER_DECODER)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(error, ProducerPublishBody) from None
    return draft_one(message, delays)


def draft_one(message: MessageFields, delays: DelayLimits) -> PublishBatch:
    """A batch of one message that was read before; what is wrong with it is refused."""
    try:
        if message.partition is not None:
            _check_partition(message.partition)
        draft = Draft()
        due = delays.of_fields(message.delay, message.deliverAt)
        priority = _add(draft, message, due)
    except Refused as refusal:
        raise reworded(refusal) from None
    return PublishBatch(
        count=1,
        batch=draft.take(),
        targets=None if message.partition is None else [message.partition],
        priorities=[priority],
        refused={},
        dues=[due] if due else None,
    )


def _snake(body: bytes | bytearray, error: Exception) -> list[_Snake] | None:
    """The messages of a body that says `deliver_at` throughout; None for any other."""
    if "unknown field `deliver_at`" not in str(error):
        return None
    try:
        return _SNAKE_DECODER.decode(body).messages
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _one_by_one(
    unread: list[msgspec.Raw], drafting: "_BatchBuilder"
) -> Steps[Sequence[MessageFields | None]]:
    """Read each message for itself; None stands for those that are wrong."""
    refused = drafting.refused
    messages: list[MessageFields | None] = []
    for index, raw in enumerate(unread, drafting.count):
        if len(messages) % _TURN_MESSAGES == _TURN_MESSAGES - 1:
            yield
        try:
            messages.append(_read(raw, _MESSAGE_DECODER, _LOOSE_DECODER))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            messages.append(None)
            kind = MessageBody if len(refused) < _SUGGESTIONS_MAX else None
            refused[index] = item_error(Code.MESSAGE_INVALID, **_invalid(error, kind).facts)
        except Refused as refusal:
            messages.append(None)
            refused[index] = _error_of(refusal)
    return messages


def _read(
    text: bytes | bytearray | msgspec.Raw,
    exact: "msgspec.json.Decoder[MessageBody] | msgspec.json.Decoder[_ProducerMessage]",
    loose: "msgspec.json.Decoder[_Loose] | msgspec.json.Decoder[_LooseProducerMessage]",
) -> MessageFields:
    """One message, of a caller who may write `1.0` for a whole number."""
    try:
        message: MessageBody = exact.decode(text)
    except msgspec.ValidationError as error:
        if "got `float`" not in str(error):
            raise
        found = loose.decode(text)
        fields = {name: getattr(found, name) for name in MessageBody.__struct_fields__}
        message = msgspec.convert(make_whole(fields), MessageBody)
    return _with_one_time(message)


def _with_one_time(message: MessageBody) -> MessageFields:
    """The message with its time under the name that is read on."""
    if message.deliver_at is None:
        return message
    if message.deliverAt is not None:
        reason = "give `deliverAt` or `deliver_at`, not both: they are the same field"
        raise Refused(Code.MESSAGE_INVALID, reason=reason)
    return msgspec.structs.replace(message, deliverAt=message.deliver_at)


def _invalid(error: Exception, kind: type[msgspec.Struct] | None) -> Refused:
    """What is wrong with one message of this kind; an absent value is no tombstone."""
    refusal = refusal_of(error, kind)
    if refusal.facts.get("field") == "value":
        # A value is bytes: which text an object or a number is, the sender has to say.
        reason = 'must be a string or null; send JSON as text, such as "{\\"id\\":7}"'
        if refusal.facts.get("reason") == "is missing":
            reason = "is missing; a tombstone is an explicit `null`"
        return Refused(Code.MESSAGE_INVALID, field="value", reason=reason)
    return Refused(Code.MESSAGE_INVALID, **refusal.facts)


class _BatchBuilder:
    """The messages of a request on their way to one batch, added in request order."""

    def __init__(self, delays: DelayLimits) -> None:
        self._delays = delays
        self._draft = Draft()
        self._targets: list[int] = []
        self._priorities: list[int] = []
        self._dues: list[int] = []
        self.count = 0
        self.refused: dict[int, ItemError] = {}

    def add(self, messages: Sequence[MessageFields | None]) -> None:
        """Draft these, too; those that are wrong have their error."""
        first, self.count = self.count, self.count + len(messages)
        if self.count > _MESSAGES_MAX:
            raise _wrong_count(self.count)
        draft = self._draft
        add, delay, of_fields = draft.add, draft.delay, self._delays.of_fields
        targets, priorities, dues = self._targets, self._priorities, self._dues
        for index, message in enumerate(messages, first):
            if message is None:
                continue
            key, value, partition = message.key, message.value, message.partition
            span, moment = message.delay, message.deliverAt
            is_plain = (
                message.headers is None and message.priority is None and message.encoding is None
            )
            priority = _NORMAL
            try:
                if partition is not None:
                    _check_partition(partition)
                if is_plain and span is None and moment is None:
                    # The most common message by far, spared every further question.
                    add(key.encode() if key else b"", None if value is None else value.encode())
                else:
                    due = of_fields(span, moment)
                    if due and is_plain:
                        text = None if value is None else value.encode()
                        delay(key.encode() if key else b"", text, due)
                    else:
                        priority = _add(draft, message, due)
                    if due:
                        if len(dues) < len(targets):
                            dues += repeat(0, len(targets) - len(dues))
                        dues.append(due)
            except Refused as refusal:
                self.refused[index] = _error_of(refusal)
                continue
            targets.append(-1 if partition is None else partition)
            priorities.append(priority)

    def batch(self) -> PublishBatch:
        """All of it; refuses a request without a message."""
        if not self.count:
            raise _wrong_count(0)
        targets, dues = self._targets, self._dues
        if dues:
            dues += repeat(0, len(targets) - len(dues))
        return PublishBatch(
            count=self.count,
            batch=self._draft.take(),
            targets=targets if max(targets, default=-1) >= 0 else None,
            priorities=self._priorities,
            refused=self.refused,
            dues=dues or None,
        )


def _add(draft: Draft, message: MessageFields, due: int) -> int:
    """Add a message with anything unusual about it; returns its priority."""
    key, value = _bytes(message)
    headers = checked_headers(message.headers) if message.headers else ()
    priority = _NORMAL if message.priority is None else _priority(message.priority)
    if due:
        draft.delay(key, value, due, headers, priority)
    else:
        draft.add(key, value, headers, priority)
    return priority


def decode_message(fields: MessageFields) -> Message:
    """One message that is not published now; refuses what a publish would refuse."""
    key, value = _bytes(fields)
    headers = checked_headers(fields.headers) if fields.headers else ()
    priority = _NORMAL if fields.priority is None else _priority(fields.priority)
    try:
        Draft().add(key, value, headers, priority)
    except Refused as refusal:
        raise reworded(refusal) from None
    return Message(key=key, value=value, headers=headers, priority=priority)


def _error_of(refusal: Refused) -> ItemError:
    """The error of one message."""
    told = reworded(refusal)
    return item_error(told.code, **told.facts)


def _bytes(message: MessageFields) -> tuple[bytes, bytes | None]:
    """Key and value; without an encoding they are the text itself."""
    key, value = message.key or "", message.value
    if message.encoding is None:
        return key.encode(), None if value is None else value.encode()
    if message.encoding != "base64":
        raise Refused(Code.MESSAGE_INVALID, reason="`encoding` must be `base64`")
    try:
        decoded = None if value is None else base64.b64decode(value, validate=True)
        return base64.b64decode(key, validate=True), decoded
    except (binascii.Error, ValueError):
        raise Refused(Code.MESSAGE_INVALID, reason="key and value are not base64") from None


def _check_partition(partition: int) -> None:
    """Refuse what no topic has; the broker compares with the count of this one."""
    if partition < 0:
        raise Refused(Code.PARTITION_INVALID, found=partition)
    if partition > INT32_MAX:
        raise Refused(Code.PARTITION_NOT_FOUND, found=partition)


def _priority(given: str | int) -> int:
    number = _PRIORITIES.get(given.lower() if isinstance(given, str) else given)
    if number is None:
        reason = f"`priority` must be 0 to 4 or one of {', '.join(PRIORITY_NAMES)}"
        raise Refused(Code.MESSAGE_INVALID, reason=reason)
    return number
