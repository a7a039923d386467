"""How much one turn of the node may do, and the checker of it.

A turn is one call of `Node.handle`; meanwhile no other client is served. What a turn chooses to do
is bounded by the budget of the node, which a run makes so small that its few messages exceed it.
What an event names (the receipts of a command, the records of a read) comes on top: it is bounded
by the limits on requests.
"""

from collections.abc import Sequence

import msgspec

from goqueue.broker import NodeEvent
from goqueue.model import Answer, Asked, Fetched, NodeEffect
from goqueue.records import scan, verify
from goqueue.sim.oracle import Violation

__all__ = ["TurnLimits", "check_turn"]

# The last step of a turn may begin with one unit left, and each of its units may cause others: an
# entry in a journal, an answer.
_STEPS_MAX = 4
_UNITS_MIN = 64


class TurnLimits(msgspec.Struct, frozen=True):
    """What a turn may do: `units_max` of its own choice, and what the world gives it to do.

    `committed` is how many records its events make visible, `keyed` how many requests with keys are
    not answered: a change of rights looks at each of them once.
    """

    units_max: int
    committed: int = 0
    keyed: int = 0


def check_turn(
    events: Sequence[NodeEvent], effects: Sequence[NodeEffect], units: int, limits: TurnLimits
) -> None:
    """Raise a violation if a turn did more than its budget and its events allow."""
    allowed = _UNITS_MIN + _STEPS_MAX * limits.units_max + limits.keyed
    if units <= allowed:
        return
    # One sync may commit what many had asked for, each by a command of its own.
    answers = sum(isinstance(effect, Answer) for effect in effects)
    allowed += _STEPS_MAX * (sum(map(_named_in, events)) + limits.committed) + answers
    if units > allowed:
        what = " and ".join(
            type(event.command if isinstance(event, Asked) else event).__name__ for event in events
        )
        raise Violation("turn-too-long", f"{what} took {units} units, not {allowed}")


def _named_in(event: NodeEvent) -> int:
    """How many things an event brings or names."""
    if isinstance(event, Fetched):
        return 0 if event.data is None else len(scan(event.data).columns.positions)
    if not isinstance(event, Asked):
        return 0
    named = 0
    for field in event.command.__struct_fields__:
        value = getattr(event.command, field)
        if isinstance(value, bytearray):
            named += verify(value)
        elif isinstance(value, list | tuple | dict):
            named += len(value)
    return named
