"""What a handler is called with: read from its annotations once, filled in for each message.

A parameter annotated with `Message`, `Connection` or `Transaction` (for plain functions
`SyncConnection` or `SyncTransaction`) gets that; one other parameter gets the payload. Owns the
decoders of payloads: one is made for each handler when it is declared, so that a type that cannot
be decoded is refused there.

Invariant: bytes stay bytes and text is UTF-8; everything else is JSON, checked against its type.
Whatever is wrong with a payload is raised as `PayloadInvalid`. A payload costs one call of its
decoder.
"""

import enum
import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from goqueue.client.connection import Connection
from goqueue.client.errors import DecodeError, GoQueueError
from goqueue.client.message import Message
from goqueue.client.transaction import Transaction

if typing.TYPE_CHECKING:
    from goqueue.client.sync import SyncConnection
    from goqueue.client.sync.transaction import SyncTransaction

__all__ = [
    "Given",
    "HandlerCall",
    "Middleware",
    "PayloadInvalid",
    "is_async",
    "read_handler",
    "read_hook",
]

# Called with a message and with what comes next: other middleware, or the handler.
Middleware = Callable[[Message, Callable[[], Awaitable[None]]], Awaitable[None]]
Decode = Callable[[Message], object]

_EXPECTED = "annotate it with the type of the payload, Message or Connection"


class PayloadInvalid(GoQueueError):
    """The value of a message is not what its handler takes; trying again cannot help."""

    def __init__(self, sentence: str) -> None:
        super().__init__("payload_invalid", sentence)


class Given(NamedTuple):
    """What a handler may ask for beside its message."""

    q: "Connection | SyncConnection"
    tx: "Transaction | SyncTransaction | None" = None


class _Kind(enum.Enum):
    PAYLOAD = enum.auto()
    MESSAGE = enum.auto()
    CONNECTION = enum.auto()
    TRANSACTION = enum.auto()


class _Parameter(NamedTuple):
    kind: _Kind
    annotation: object


class HandlerCall:
    """A function, and how its arguments come from a message."""

    def __init__(
        self,
        function: Callable[..., object],
        parameters: tuple[_Parameter, ...],
        decode: Decode,
    ) -> None:
        self.function = function
        self.is_async = is_async(function)
        self.name = _name_of(function)
        self._kinds = tuple(each.kind for each in parameters)
        self._decode = decode
        self._is_simple = self._kinds == (_Kind.PAYLOAD,)

    def start(self, message: Message, given: Given) -> Any:  # noqa: ANN401 - of an async one awaitable
        """Call the function: what it returns, of an async one its coroutine."""
        if self._is_simple:
            return self.function(self._decode(message))
        arguments: list[object] = []
        for kind in self._kinds:
            if kind is _Kind.PAYLOAD:
                arguments.append(self._decode(message))
            elif kind is _Kind.MESSAGE:
                arguments.append(message)
            else:
                arguments.append(given.q if kind is _Kind.CONNECTION else given.tx)
        return self.function(*arguments)

    def start_hook(self, given: Given) -> object:
        """Call a hook, which takes a connection or nothing."""
        return self.function(*(given.q for _ in self._kinds))


def read_handler(
    function: Callable[..., object], *, is_transactional: bool, has_serializer: bool = False
) -> HandlerCall:
    """The call of a handler; raises TypeError for one that cannot be called with a message."""
    awaits = is_async(function)
    name = _name_of(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name}: a handler does not yield")
    parameters = _parameters(function, awaits=awaits)
    payloads = [each for each in parameters if each.kind is _Kind.PAYLOAD]
    kinds = [each.kind for each in parameters]
    if len(payloads) > 1:
        raise TypeError(f"{name}: a handler has one parameter for the payload, not {len(payloads)}")
    if not payloads and _Kind.MESSAGE not in kinds:
        raise TypeError(f"{name}: a handler takes the payload or the Message")
    if is_transactional != (_Kind.TRANSACTION in kinds):
        wanted = "Transaction" if awaits else "SyncTransaction"
        raise TypeError(
            f"{name}: transaction=True and a parameter of type {wanted} belong together"
        )
    decode: Decode = _undecoded
    if payloads:
        annotation = payloads[0].annotation
        decode = _serialized(annotation) if has_serializer else _decoder(annotation, name)
    return HandlerCall(function, parameters, decode)


def read_hook(function: Callable[..., object]) -> HandlerCall:
    """The call of a hook; raises TypeError for one that takes more than a connection."""
    parameters = _parameters(function, awaits=True)
    if any(each.kind is not _Kind.CONNECTION for each in parameters):
        raise TypeError(f"{_name_of(function)}: a hook takes a Connection, or nothing")
    return HandlerCall(function, parameters, _undecoded)


def _parameters(function: Callable[..., object], *, awaits: bool) -> tuple[_Parameter, ...]:
    """What each parameter without a default is to get."""
    name = _name_of(function)
    hints = _hints(function)
    found: list[_Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in {
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        }:
            if parameter.default is inspect.Parameter.empty:
                raise TypeError(f"{name}: {parameter} cannot be filled in; name each parameter")
            continue
        if parameter.name in hints:
            annotation = hints[parameter.name]
            kind = _kind_of(annotation, name, awaits=awaits)
            if kind is not _Kind.PAYLOAD or parameter.default is inspect.Parameter.empty:
                found.append(_Parameter(kind, annotation))
        elif parameter.default is inspect.Parameter.empty:
            raise TypeError(f"{name}: {parameter.name} has no annotation; {_EXPECTED}")
    return tuple(found)


def _kind_of(annotation: object, name: str, *, awaits: bool) -> _Kind:
    from goqueue.client.sync import SyncConnection
    from goqueue.client.sync.transaction import SyncTransaction

    if annotation is Message:
        return _Kind.MESSAGE
    for kind, for_async, for_threads in (
        (_Kind.CONNECTION, Connection, SyncConnection),
        (_Kind.TRANSACTION, Transaction, SyncTransaction),
    ):
        right, wrong = (for_async, for_threads) if awaits else (for_threads, for_async)
        if annotation is right:
            return kind
        if annotation is wrong:
            what = "an async" if awaits else "a plain"
            raise TypeError(f"{name}: {what} function takes a {right.__name__}")
    return _Kind.PAYLOAD


def _hints(function: Callable[..., object]) -> dict[str, object]:
    target = function
    while isinstance(target, functools.partial):
        target = target.func
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        words = f"{error}; define or import it above the handler"
        raise TypeError(f"{_name_of(function)}: an annotation cannot be read: {words}") from error


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling it returns a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - of an object, its method
    )


def _name_of(function: Callable[..., object]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


# Payloads


def _undecoded(message: Message) -> object:
    return message.value


class _Model(Protocol):
    """What pydantic's models have in common."""

    def model_validate_json(self, json_data: bytes) -> object: ...


def _decoder(annotation: object, name: str) -> Decode:
    """What makes a payload of the value of a message."""
    decode = _value_decoder(annotation, _plain_members(annotation), name)
    takes_none = _takes_none(annotation)

    def decoded(message: Message) -> object:
        value = message.value
        if value is None:
            _check_tombstone(takes_none=takes_none)
            return None
        try:
            return decode(value)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise PayloadInvalid(" ".join(str(error).split())) from error

    return decoded


def _serialized(annotation: object) -> Decode:
    """The payload that the serializer of the consumer reads."""
    takes_none = _takes_none(annotation)

    def decoded(message: Message) -> object:
        if message.value is None:
            _check_tombstone(takes_none=takes_none)
            return None
        try:
            return message.payload
        except DecodeError as error:
            raise PayloadInvalid(error.sentence) from error

    return decoded


def _check_tombstone(*, takes_none: bool) -> None:
    if not takes_none:
        raise PayloadInvalid("the message is a tombstone, and the handler does not take None")


def _takes_none(annotation: object) -> bool:
    return types.NoneType in _members(annotation) or annotation in {object, Any}


def _plain_members(annotation: object) -> list[object]:
    return [each for each in _members(annotation) if each is not types.NoneType]


def _members(annotation: object) -> tuple[object, ...]:
    return typing.get_args(annotation) if _is_union(annotation) else (annotation,)


def _value_decoder(annotation: object, plain: list[object], name: str) -> Callable[[bytes], object]:
    if plain == [bytes]:
        return bytes
    if plain == [str]:
        return bytes.decode
    if len(plain) == 1 and hasattr(plain[0], "model_validate_json"):
        model: _Model = typing.cast(_Model, plain[0])
        return model.model_validate_json
    try:
        # Refuses at once what no JSON could become.
        msgspec.json.schema(annotation, schema_hook=_schema)
        return msgspec.json.Decoder(annotation).decode
    except TypeError as error:
        reason = str(error).strip().rpartition("\n")[2]
        words = f"{annotation} cannot be decoded from JSON: {reason}; use a dataclass or a Struct"
        raise TypeError(f"{name}: {words}") from error


def _schema(kind: type) -> dict[str, object]:
    """Of `object`, which is any JSON; nothing else is decoded that msgspec does not know."""
    if kind is object:
        return {"description": "any JSON"}
    raise NotImplementedError


def _is_union(annotation: object) -> bool:
    return typing.get_origin(annotation) in {typing.Union, types.UnionType}
