"""What a handler is called with, as its annotations say."""

import dataclasses
import enum
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, TypedDict, cast

import msgspec
import pytest

from goqueue.client.connection import Connection
from goqueue.client.handler_call import (
    Given,
    HandlerCall,
    PayloadInvalid,
    read_handler,
    read_hook,
)
from goqueue.client.message import Message
from goqueue.client.sync import SyncConnection
from goqueue.client.sync.transaction import SyncTransaction
from goqueue.client.transaction import Transaction

if TYPE_CHECKING:
    from decimal import Decimal

NOBODY = Given(cast(Connection, "the connection"), cast(Transaction, "the transaction"))


class Size(enum.Enum):
    SMALL = "small"


@dataclasses.dataclass
class Order:
    id: int
    size: Size = Size.SMALL


class Paid(msgspec.Struct, tag="paid"):
    id: int


class Sent(msgspec.Struct, tag="sent"):
    id: int


class Row(TypedDict):
    id: int


class Model:
    """As pydantic's models: anything that validates JSON by this method."""

    def __init__(self, json_data: bytes) -> None:
        self.json_data = json_data

    @classmethod
    def model_validate_json(cls, json_data: bytes) -> "Model":
        if not json_data.startswith(b"{"):
            raise ValueError("1 validation error for Model\n  Input should be an object")
        return cls(json_data)


def message(value: bytes | None) -> Message:
    return Message("orders", 1, 7, 99, 2, b"", value)


def called_with(annotation: object, value: bytes | None) -> object:
    """The argument of a handler whose parameter has the annotation."""
    seen: list[object] = []

    def handler(payload: object) -> None:
        seen.append(payload)

    handler.__annotations__["payload"] = annotation
    read_handler(handler, is_transactional=False).start(message(value), NOBODY)
    return seen[0]


@pytest.mark.parametrize(
    ("annotation", "value", "payload"),
    [
        (bytes, b"\xff{", b"\xff{"),
        (str, b"gr\xc3\xbcn", "grün"),
        (dict, b'{"id": 1}', {"id": 1}),
        (dict[str, int], b'{"id": 1}', {"id": 1}),
        (list[int], b"[1]", [1]),
        (int, b"5", 5),
        (object, b"[1]", [1]),
        (dict[str, object], b'{"a": [1]}', {"a": [1]}),
        (Order, b'{"id": 1, "size": "small"}', Order(1)),
        (Paid | Sent, b'{"type": "sent", "id": 1}', Sent(1)),
        (Row, b'{"id": 1}', {"id": 1}),
        (Annotated[int, msgspec.Meta(ge=1)], b"5", 5),
        (bytes | None, None, None),
        (str | None, b"text", "text"),
        (Order | None, None, None),
        (Order | None, b'{"id": 1}', Order(1)),
        (object, None, None),
    ],
)
def test_a_payload_is_decoded_as_its_annotation_says(
    annotation: object, value: bytes | None, payload: object
) -> None:
    assert called_with(annotation, value) == payload


def test_a_pydantic_model_validates_its_payload_by_itself() -> None:
    for annotation in (Model, Model | None):
        payload = called_with(annotation, b'{"id": 1}')
        assert isinstance(payload, Model)
        assert payload.json_data == b'{"id": 1}'


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (Order, b"{}", "missing required field `id`"),
        (Order, b'{"id": "1"}', "Expected `int`, got `str`"),
        (Order, b"{", "truncated"),
        (Annotated[int, msgspec.Meta(ge=1)], b"0", ">= 1"),
        (str, b"\xff", "invalid start byte"),
        (dict, b"\xff", "malformed"),
        (Model, b"[]", "1 validation error for Model Input should be an object"),
        (object, b"[" * 100_000, "recursion"),
        (bytes, None, "tombstone"),
        (Order, None, "tombstone"),
    ],
)
def test_a_payload_that_is_not_as_annotated_is_invalid(
    annotation: object, value: bytes | None, words: str
) -> None:
    with pytest.raises(PayloadInvalid) as raised:
        called_with(annotation, value)
    assert words in raised.value.sentence


def test_a_handler_may_take_the_message_the_connection_and_the_transaction() -> None:
    seen: list[object] = []

    async def handler(order: Order, whole: Message, q: Connection, tx: Transaction) -> None:
        seen.extend((order, whole.offset, q, tx))

    call = read_handler(handler, is_transactional=True)
    assert call.is_async
    finish(call.start(message(b'{"id": 1}'), NOBODY))
    assert seen == [Order(1), 7, NOBODY.q, NOBODY.tx]


def finish(coroutine: object) -> None:
    with pytest.raises(StopIteration):
        cast(Awaitable[None], coroutine).__await__().send(None)


def test_a_plain_function_takes_what_threads_can_use() -> None:
    seen: list[object] = []

    def handler(q: SyncConnection, body: bytes, tx: SyncTransaction) -> None:
        seen.extend((q, body, tx))

    call = read_handler(handler, is_transactional=True)
    assert not call.is_async
    call.start(message(b"x"), NOBODY)
    assert seen == [NOBODY.q, b"x", NOBODY.tx]


def test_parameters_with_a_default_are_left_alone() -> None:
    seen: list[object] = []

    def handler(body: bytes, times: int = 3, *, word: str = "w") -> None:
        seen.extend((body, times, word))

    read_handler(handler, is_transactional=False).start(message(b"x"), NOBODY)
    assert seen == [b"x", 3, "w"]


def test_methods_and_objects_may_handle_messages() -> None:
    class Shop:
        def __init__(self) -> None:
            self.seen: list[int] = []

        async def sell(self, order: Order) -> None:
            self.seen.append(order.id)

        async def __call__(self, order: Order) -> None:
            self.seen.append(-order.id)

    shop = Shop()
    for handler in (shop.sell, shop):
        call = read_handler(handler, is_transactional=False)
        assert call.is_async
        finish(call.start(message(b'{"id": 4}'), NOBODY))
    assert shop.seen == [4, -4]


class Unknown:
    """Nothing that JSON could become."""


def unannotated(order) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - that is the mistake
    ...


def empty() -> None: ...


def only_connection(q: SyncConnection) -> None: ...


def two_payloads(order: Order, other: bytes) -> None: ...


def no_json(order: Unknown) -> None: ...


def no_json_within(order: list[Unknown]) -> None: ...


def unreadable(order: "Decimal") -> None: ...


def anything(order: Order, *rest: int) -> None: ...


def keyword(order: Order, *, word: str) -> None: ...


def async_connection(order: Order, q: Connection) -> None: ...


async def sync_connection(order: Order, q: SyncConnection) -> None: ...


def generator(order: Order) -> Iterator[Order]:
    yield order


async def async_generator(order: Order) -> AsyncIterator[Order]:
    yield order


async def with_transaction(order: Order, tx: Transaction) -> None: ...


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (unannotated, "order has no annotation"),
        (empty, "takes the payload or the Message"),
        (only_connection, "takes the payload or the Message"),
        (two_payloads, "one parameter for the payload, not 2"),
        (no_json, "is not supported; use a dataclass or a Struct"),
        (no_json_within, "cannot be decoded from JSON"),
        (unreadable, "'Decimal' is not defined"),
        (anything, "cannot be filled in"),
        (keyword, "cannot be filled in"),
        (async_connection, "takes a SyncConnection"),
        (sync_connection, "takes a Connection"),
        (with_transaction, "belong together"),
        (generator, "does not yield"),
        (async_generator, "does not yield"),
    ],
)
def test_a_handler_that_cannot_be_called_with_a_message_is_refused_by_name(
    handler: Callable[..., object], words: str
) -> None:
    with pytest.raises(TypeError) as refused:
        read_handler(handler, is_transactional=False)
    assert str(refused.value).startswith(f"{handler.__qualname__}: ")
    assert words in str(refused.value)


def test_a_transaction_without_a_parameter_for_it_is_refused() -> None:
    with pytest.raises(TypeError, match="belong together"):
        read_handler(two_payloads.__get__(Order(1)), is_transactional=True)


def test_a_hook_takes_a_connection_or_nothing() -> None:
    seen: list[object] = []

    def hook(q: Connection) -> None:
        seen.append(q)

    async def other() -> None:
        seen.append("other")

    def wrong(order: Order) -> None: ...

    read_hook(hook).start_hook(NOBODY)
    finish(read_hook(other).start_hook(NOBODY))
    assert seen == [NOBODY.q, "other"]
    with pytest.raises(TypeError, match="takes a Connection, or nothing"):
        read_hook(wrong)


def test_a_partial_is_called_with_what_is_left() -> None:
    def handler(word: str, body: bytes) -> None:
        seen.append((word, body))

    seen: list[object] = []
    call: HandlerCall = read_handler(functools.partial(handler, "w"), is_transactional=False)
    call.start(message(b"x"), NOBODY)
    assert seen == [("w", b"x")]
