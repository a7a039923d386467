"""Hooks for requests that are made up from the OpenAPI document.

Every waiting time is cut, so that a run does not wait; half of the topics and groups are ones that
exist, so that a run gets past `not found`, and half of the producers are one that exists; bodies
of records are records. What breaks the document
is left as it is: that such a thing is refused is part of the run.
"""

import contextlib
import re
from typing import Any

import schemathesis
from hypothesis import strategies as st

from goqueue.gateways.http.bodies import Duration, read_scalar
from goqueue.gateways.http.routes import ROUTES
from goqueue.gateways.http.routing.parameter import Parameter
from goqueue.model import Message, Refused, parse_time
from goqueue.records import build

__all__ = [
    "GROUP",
    "OWNER",
    "TOPIC",
    "TRACE",
    "be_a_producer",
    "begin_once",
    "cut_waits",
    "meet_what_exists",
    "order_ranges",
    "order_times",
]

GROUP = "known-group"
TOPIC = "known-topic"
TRACE = "0af7651916cd43dd8448eb211c80319c"
# The first producer of a new node.
OWNER: dict[str, str | int] = {"producer_id": 1, "epoch": 0, "transactional_id": "known-producer"}
_INT64_MAX = (1 << 63) - 1
_EPOCH_MAX = 32_767
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_KNOWN = {"topic": TOPIC, "group": GROUP}
_TRACE = re.compile(r"[0-9a-f]{32}")
_SEARCH = "/traces/search"
# The parameters by which callers say how long to wait, read as the server reads them.
_WAITS: dict[tuple[str, str], Parameter[Any]] = {
    (route.method, route.path): parameter
    for route in ROUTES
    for parameter in route.parameters
    if route.waits and parameter.name in {"timeout", "wait"}
}
# The field of a body that says how long to wait.
_POLLS = {
    ("POST", "/groups/{group}/poll"): "timeout",
    ("POST", "/groups/{group}/poll/records"): "timeout",
    ("POST", "/queues/{group}/receive"): "wait",
    ("POST", "/queues/{group}/receive/records"): "wait",
    ("POST", "/topics/{topic}/request"): "timeout",
}
_TAIL = "/topics/{topic}/tail"
_DEAD_LETTERS = "/topics/{topic}/dlq"
_TAIL_STARTS = ("from", "offset", "last", "since")
_SHORT = "1ms"
# It would delete messages that other requests are to meet.
_TRIM = "/topics/{topic}/trim"
Case = schemathesis.Case[Any]

schemathesis.openapi.media_type(
    "application/vnd.goqueue.records",
    st.lists(
        st.builds(
            Message,
            key=st.binary(max_size=20).filter(lambda key: not key.startswith(b"gq.")),
            value=st.none() | st.binary(max_size=50),
        ),
        min_size=1,
        max_size=5,
    ).map(lambda messages: bytes(build(messages))),
)


@schemathesis.hook("before_call")
def cut_waits(_: schemathesis.HookContext, case: Case, __: dict[str, object]) -> None:
    """Ask for a millisecond instead of the time that was made up, or of the default."""
    parameter = _WAITS.get((case.method, case.path))
    if parameter is not None and _is_taken(parameter, case.query.get(parameter.name, _SHORT)):
        case.query[parameter.name] = _SHORT
    field = _POLLS.get((case.method, case.path))
    if field is not None and isinstance(case.body, dict):
        given = case.body.get(field)
        if given is None or _is_duration(given):
            case.body[field] = _SHORT


@schemathesis.hook("before_call")
def meet_what_exists(_: schemathesis.HookContext, case: Case, __: dict[str, object]) -> None:
    """Put known names for half of those that could be names; nothing that exists is deleted."""
    if case.method == "DELETE" or case.path == _TRIM:
        return
    for kind, known in _KNOWN.items():
        given = (case.path_parameters or {}).get(kind)
        if isinstance(given, str) and _NAME.fullmatch(given) and ord(given[-1]) % 2:
            case.path_parameters[kind] = known
    trace = (case.path_parameters or {}).get("id")
    if isinstance(trace, str) and _TRACE.fullmatch(trace) and ord(trace[-1]) % 2:
        case.path_parameters["id"] = TRACE


@schemathesis.hook("before_call")
def order_times(_: schemathesis.HookContext, case: Case, __: dict[str, object]) -> None:
    """No document can say that an end is not before its start."""
    start, end = case.query.get("start"), case.query.get("end")
    if case.path != _SEARCH or not isinstance(start, str) or not isinstance(end, str):
        return
    with contextlib.suppress(ValueError):
        if parse_time(end) < parse_time(start):
            case.query["start"], case.query["end"] = end, start


@schemathesis.hook("before_call")
def begin_once(_: schemathesis.HookContext, case: Case, __: dict[str, object]) -> None:
    """No document can say that parameters need or exclude each other."""
    if case.path not in {_TAIL, _DEAD_LETTERS}:
        return
    if "partition" not in case.query:
        case.query.pop("offset", None)
    given = [name for name in _TAIL_STARTS if name in case.query]
    for name in given[1:]:
        del case.query[name]


@schemathesis.hook("before_call")
def order_ranges(_: schemathesis.HookContext, case: Case, __: dict[str, object]) -> None:
    """No document can say that offsets rise, how many they are, nor that they have one form."""
    leases: Any = case.body.get("leases") if isinstance(case.body, dict) else None
    for lease in leases if isinstance(leases, list) else ():
        if not isinstance(lease, dict):
            continue
        ranges, steps = lease.get("offsets"), lease.get("steps")
        if ranges is None and steps is None:
            ranges = lease["offsets"] = [[0, 1]]
        elif ranges is not None and isinstance(steps, list) and steps and _are_whole(steps):
            del lease["steps"]
        if ranges is None and isinstance(steps, list) and steps and _are_whole(steps):
            lease["steps"] = [min(int(steps[0]), _INT64_MAX - len(steps)), *[1] * (len(steps) - 1)]
        if isinstance(ranges, list) and ranges and all(map(_is_range, ranges)):
            first = min(int(ranges[0][0]), _INT64_MAX - 2 * len(ranges))
            lease["offsets"] = [
                [first + 2 * place, first + 2 * place + 1] for place in range(len(ranges))
            ]


def _is_range(given: object) -> bool:
    return isinstance(given, list) and len(given) == 2 and _are_whole(given)


def _are_whole(given: list[object]) -> bool:
    """Whether all are offsets; a whole number may be written with a point."""
    wholes = [
        int(each) if isinstance(each, float) and each.is_integer() else each for each in given
    ]
    return all(_is_within(each, 0, _INT64_MAX) for each in wholes)


@schemathesis.hook("before_call")
def be_a_producer(_: schemathesis.HookContext, case: Case, __: dict[str, object]) -> None:
    """Speak for the known producer in half of the cases, where there could be one."""
    for given in (case.body, case.query, case.path_parameters):
        if not isinstance(given, dict):
            continue
        number = given.get("producer_id")
        if not _is_within(number, 1, _INT64_MAX) or int(str(number)) % 2:
            continue
        given["producer_id"] = OWNER["producer_id"]
        if _is_within(given.get("epoch"), 0, _EPOCH_MAX):
            given["epoch"] = OWNER["epoch"]
        name = given.get("transactional_id")
        if isinstance(name, str) and _NAME.fullmatch(name) and name.strip("."):
            given["transactional_id"] = OWNER["transactional_id"]


def _is_within(given: object, minimum: int, maximum: int) -> bool:
    is_whole = isinstance(given, int) and not isinstance(given, bool)
    return is_whole and minimum <= int(str(given)) <= maximum


def _is_taken(parameter: Parameter[Any], given: object) -> bool:
    """Whether the server would take it and wait, however long: it is asked itself."""
    try:
        parameter.read(str(given))
    except Refused:
        return False
    return True


def _is_duration(given: object) -> bool:
    try:
        read_scalar(Duration, given)
    except ValueError:
        return False
    return True
