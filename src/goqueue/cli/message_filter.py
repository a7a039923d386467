"""Which messages `consume` shows: filters on key, headers and value.

A filter is a pure function of one message; a message is shown if all of them match. Patterns are
those of Python's `re` on bytes, so a message that is not text can be searched too. The pattern of a
key or a header must match all of it, that of a value any part.

JSON conditions are `PATH`, or `PATH OP VALUE`. A path is `$` or nothing, then any of `.name`,
`["any name"]`, `[0]` and `[*]` (every element of a list, or every value of an object). The
operators are `=`, `!=`, `<`, `<=`, `>`, `>=` and `~` (a pattern, found anywhere); `==` and `=~` are
other spellings of the first and the last. The value is JSON, or plain text if it is none. A
condition holds if it holds for any value that the path finds; a bare path holds if it finds any.
Values of different types are never equal and have no order; text is compared with text. A message
that is not JSON matches no condition.

The hard part is a pattern that backtracks for longer than anybody lives, in C code that the event
loop cannot interrupt. `re` does look for signals while it searches, so a timer of processor time
ends it: a message whose filters take longer than a second ends the command, which names it. Not in
a child process: that would copy every value for the sake of a pattern that nobody wants to finish.
Processor time, so that a busy machine or a stopped process changes nothing.
"""

import functools
import itertools
import re
import signal
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, AnyStr, NoReturn

import click
import msgspec

from goqueue.cli.errors import Failure

if TYPE_CHECKING:
    from goqueue.client.message import Message

__all__ = ["MessageFilter", "json_condition", "read_filter"]

# A message that matches many nested lists is not searched for ever.
_VALUES_MAX = 10_000
# Of processor time, for all filters on one message.
_MATCH_S_MAX = 1.0
_OPERATOR = re.compile(r"==|!=|<=|>=|=~|=|<|>|~")
_OPERATOR_CHARACTERS = frozenset("=!<>~")
_SPELLINGS = {"==": "=", "=~": "~"}
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
        """Whether all conditions hold; one that takes too long is the end of the command."""
        _watch_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, _MATCH_S_MAX)
        try:
            return all(condition(message) for condition in self._conditions)
        except _TooSlow as error:
            raise Failure(
                f"the filters need more than {_MATCH_S_MAX:g} s for message "
                f"{message.partition}:{message.offset}",
                code="filter_too_slow",
                hint="avoid patterns such as (a+)+b, which try every way to split a text",
            ) from error
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


class _TooSlow(Exception):
    """The time of a message is over."""


@functools.cache
def _watch_time() -> None:
    signal.signal(signal.SIGVTALRM, _end_match)


def _end_match(_number: int, _frame: types.FrameType | None) -> NoReturn:
    raise _TooSlow


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
        return _compiled(text.encode(errors="surrogateescape"), text)
    except ValueError as error:
        raise click.UsageError(f"{flag} {error}") from error


def _compiled(pattern: AnyStr, text: str) -> re.Pattern[AnyStr]:
    try:
        with warnings.catch_warnings():
            # Of constructs that may mean something else in a later Python.
            warnings.simplefilter("ignore")
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{text!a} is not a regular expression: {error}") from error


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
    path, end = _read_path(text.strip())
    rest = text.strip()[end:].lstrip()
    if not rest:
        return lambda document: any(True for _ in _values(document, path))
    operator, value = _read_comparison(rest)
    compare = _comparison(operator, value)
    return lambda document: any(compare(value) for value in _values(document, path))


def _read_path(text: str) -> tuple[tuple[Step, ...], int]:
    """The steps of the path that the text begins with, and where it ends."""
    position = start = 1 if text.startswith("$") else 0
    steps: list[Step] = []
    while position < len(text):
        found = _STEP.match(text, position)
        is_bare = found is not None and found["name"] is not None and text[position] != "."
        if found is None or (is_bare and (position > start or start)):
            break
        position = found.end()
        if found["name"] is not None:
            steps.append(found["name"])
        elif found["quoted"] is not None:
            steps.append(_quoted(found["quoted"]))
        else:
            steps.append(None if found["any"] else int(found["index"]))
    following = text[position:].lstrip()
    if (following and following[0] not in _OPERATOR_CHARACTERS) or not text:
        raise ValueError(
            "a condition is a path such as $.customer.id, items[0].name or items[*].price, "
            "or a path, an operator and a value"
        )
    return tuple(steps), position


def _quoted(text: str) -> str:
    try:
        return msgspec.json.decode(text, type=str)
    except msgspec.DecodeError as error:
        raise ValueError(f"{text!a} is not a JSON string") from error


def _read_comparison(text: str) -> tuple[str, str]:
    """The operator that the text begins with, and the value behind it."""
    found = _OPERATOR.match(text)
    rest = "" if found is None else text[found.end() :]
    # Whoever writes `=>` does not mean to compare with ">...": such a value needs a space.
    is_longer = found is not None and found[0][-1] != "~" and rest[:1] in _OPERATOR_CHARACTERS
    if found is None or is_longer:
        wrong = "".join(itertools.takewhile(_OPERATOR_CHARACTERS.__contains__, text))
        raise ValueError(f"{wrong} is not an operator; use = != < <= > >= or ~")
    if not rest.strip():
        raise ValueError(f'no value follows {found[0]}; an empty text is ""')
    return _SPELLINGS.get(found[0], found[0]), rest.strip()


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
        pattern = _compiled(text, text)
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
