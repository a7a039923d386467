"""Which messages `consume` shows: filters on key, headers and value.

A filter is a pure function of one message; a message is shown if all of them match. Patterns are
those of Python's `re` on bytes, so a message that is not text can be searched too. The pattern of a
key or a header must match all of it, that of a value any part.

JSON conditions are `PATH`, or `PATH OP VALUE`. A path is `$` or nothing, then any of `.name`,
`["any name"]`, `[0]` and `[*]` (every element of a list, or every value of an object). The
operators are `=`, `!=`, `<`, `<=`, `>`, `>=` and `~` (a pattern, found anywhere). The value is
JSON, or plain text if it is none. A condition holds if it holds for any value that the path finds;
a bare path holds if it finds any. Values of different types are never equal and have no order; text
is compared with text. A message that is not JSON matches no condition.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

if TYPE_CHECKING:
    from goqueue.client.message import Message

__all__ = ["MessageFilter", "json_condition", "read_filter"]

# A message that matches many nested lists is not searched for ever.
_VALUES_MAX = 10_000
_CONDITION = re.compile(
    r"(?P<path>(?:[^=!<>~\[\]]|\[[^\]]*\])*?)\s*(?P<op>!=|<=|>=|=|<|>|~)(?P<value>.*)", re.DOTALL
)
_STEP = re.compile(
    r"""\.?(?P<name>[A-Za-z_][A-Za-z0-9_-]*)|\[(?:(?P<index>-?[0-9]{1,9})|(?P<any>\*)|(?P<quoted>"(?:[^"\\]|\\.)*"))\]"""
)

Matches = Callable[["Message"], bool]
Step = str | int | None


class MessageFilter:
    """All conditions of a command; without any, every message matches."""

    def __init__(self, conditions: Sequence[Matches] = ()) -> None:
        self._conditions = tuple(conditions)

    @property
    def is_empty(self) -> bool:
        return not self._conditions

    def matches(self, message: "Message") -> bool:
        return all(condition(message) for condition in self._conditions)


def read_filter(
    key: str | None, headers: Sequence[str], grep: str | None, conditions: Sequence[str]
) -> MessageFilter:
    """The filter that the flags describe; what cannot be read is a usage error."""
    found: list[Matches] = []
    if key is not None:
        found.append(_key_matches(_pattern("--key", key)))
    found += [_header_matches(text) for text in headers]
    if grep is not None:
        found.append(_value_matches(_pattern("--grep", grep)))
    for text in conditions:
        try:
            holds = json_condition(text)
        except ValueError as error:
            raise click.UsageError(f"--json {text!a}: {error}") from error
        found.append(_json_matches(holds))
    return MessageFilter(found)


def _pattern(flag: str, text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode(errors="surrogateescape"))
    except re.error as error:
        raise click.UsageError(f"{flag} {text!a} is not a regular expression: {error}") from error


def _key_matches(pattern: re.Pattern[bytes]) -> Matches:
    return lambda message: pattern.fullmatch(message.key) is not None


def _value_matches(pattern: re.Pattern[bytes]) -> Matches:
    return lambda message: message.value is not None and pattern.search(message.value) is not None


def _header_matches(text: str) -> Matches:
    """`NAME` is present, or `NAME=PATTERN` matches its value."""
    name, equals, worded = text.partition("=")
    if not name:
        raise click.UsageError(f"--header {text!a} is not NAME or NAME=PATTERN")
    pattern = _pattern("--header", worded) if equals else None

    def matches(message: "Message") -> bool:
        value = message.headers.get(name)
        return value is not None and (pattern is None or pattern.fullmatch(value) is not None)

    return matches


def _json_matches(holds: Callable[[object], bool]) -> Matches:
    def matches(message: "Message") -> bool:
        try:
            document = msgspec.json.decode(message.value or b"")
        except (msgspec.DecodeError, RecursionError):
            return False
        return holds(document)

    return matches


# Conditions on JSON


def json_condition(text: str) -> Callable[[object], bool]:
    """A function that tells whether the condition holds for a document."""
    found = _CONDITION.fullmatch(text)
    path = _read_path((found["path"] if found else text).strip())
    if found is None:
        return lambda document: any(True for _ in _values(document, path))
    compare = _comparison(found["op"], found["value"].strip())
    return lambda document: any(compare(value) for value in _values(document, path))


def _read_path(text: str) -> tuple[Step, ...]:
    rest = text.removeprefix("$")
    steps: list[Step] = []
    position = 0
    while position < len(rest):
        found = _STEP.match(rest, position)
        is_bare = found is not None and found["name"] is not None and rest[position] != "."
        if found is None or (is_bare and position):
            raise ValueError("a path is like $.customer.id, items[0].name or items[*].price")
        position = found.end()
        if found["name"] is not None:
            steps.append(found["name"])
        elif found["quoted"] is not None:
            steps.append(msgspec.json.decode(found["quoted"], type=str))
        else:
            steps.append(None if found["any"] else int(found["index"]))
    return tuple(steps)


def _values(document: object, path: tuple[Step, ...]) -> Iterator[object]:
    """Every value that the path finds, up to a limit."""
    level = [document]
    for step in path:
        level = [found for value in level for found in _below(value, step)][:_VALUES_MAX]
    yield from level


def _below(value: object, step: Step) -> Sequence[object]:
    match value, step:
        case dict(), str():
            return [value[step]] if step in value else []
        case list(), int():
            return [value[step]] if -len(value) <= step < len(value) else []
        case list(), None:
            return value
        case dict(), None:
            return list(value.values())
        case _:
            return []


def _comparison(operator: str, text: str) -> Callable[[object], bool]:
    if operator == "~":
        try:
            pattern = re.compile(text)
        except re.error as error:
            raise ValueError(f"{text!a} is not a regular expression: {error}") from error
        return lambda value: pattern.search(_worded(value)) is not None
    try:
        wanted = msgspec.json.decode(text)
    except msgspec.DecodeError:
        wanted = text
    if operator in ("=", "!="):
        is_equal_wanted = operator == "="
        return lambda value: _is_equal(value, wanted) == is_equal_wanted
    return lambda value: _is_ordered(value, operator, wanted)


def _worded(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _is_equal(value: object, wanted: object) -> bool:
    # In Python true is 1; in JSON it is not.
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


def _is_ordered(value: object, operator: str, wanted: object) -> bool:
    """Whether two numbers, or two texts, are in this order."""
    is_greater, is_less = _compared(value, wanted)
    is_equal = not is_greater and not is_less and _is_same_kind(value, wanted)
    return {
        "<": is_less,
        "<=": is_less or is_equal,
        ">": is_greater,
        ">=": is_greater or is_equal,
    }[operator]


def _compared(value: object, wanted: object) -> tuple[bool, bool]:
    """Whether it is greater, and whether it is less; neither if the two have no order."""
    if not _is_same_kind(value, wanted):
        return False, False
    if isinstance(value, str) and isinstance(wanted, str):
        return value > wanted, value < wanted
    assert isinstance(value, int | float)
    assert isinstance(wanted, int | float)
    return value > wanted, value < wanted


def _is_same_kind(value: object, wanted: object) -> bool:
    """Whether both are numbers, or both are texts; true and false are neither."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return False
    is_number = isinstance(value, int | float) and isinstance(wanted, int | float)
    return is_number or (isinstance(value, str) and isinstance(wanted, str))
