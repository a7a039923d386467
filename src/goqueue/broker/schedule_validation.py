"""Validation of what schedules send: when one is made or changed, when it is run, at each tick.

The check of a command tells its caller early; the check of a tick is the one that holds, since
schemas and topics change while a schedule lives. A verdict follows from the message, the topic's
definition and the registry: while none of them changed since a value was found good, it is good.

Cost per tick: a comparison; one validation after a change of one of the three.
"""

from collections.abc import Callable

import msgspec

from goqueue.broker.journal_changes import TopicStated
from goqueue.broker.schema_validation import SchemaValidation, Violations
from goqueue.broker.state import NodeState
from goqueue.model import (
    Message,
    Now,
    Refused,
    Report,
    RequestId,
    ScheduleRefused,
    Violation,
)
from goqueue.model.requests import ScheduleSpec
from goqueue.records import build
from goqueue.schedules import Schedule

__all__ = ["ScheduleValidation"]


class _Good(msgspec.Struct, frozen=True):
    """A value was found good for these."""

    spec: ScheduleSpec
    topic: TopicStated
    revision: int


class ScheduleValidation:
    """Checks the messages of schedules whose topics ask for it."""

    def __init__(self, state: NodeState, validation: SchemaValidation) -> None:
        self._state = state
        self._validation = validation
        # By the number of the schedule.
        self._good: dict[int, _Good] = {}

    def is_good(self, schedule: Schedule) -> bool:
        """Whether the message may be sent without another check."""
        topic = self._validating(schedule.spec)
        if topic is None:
            return True
        known = self._good.get(schedule.number)
        return (
            known is not None
            and known.spec is schedule.spec
            and known.topic is topic
            and known.revision == self._revision
        )

    def forget(self, schedule: Schedule) -> None:
        """A schedule was deleted."""
        self._good.pop(schedule.number, None)

    def check(
        self, schedule: Schedule, resume: Callable[[Violation | None, Now], None], now: Now
    ) -> None:
        """Check the message of a schedule that is busy; then go on."""
        spec, topic, revision = schedule.spec, self._validating(schedule.spec), self._revision

        def checked(violations: Violations, now: Now) -> None:
            if not violations and topic is not None:
                self._good[schedule.number] = _Good(spec, topic, revision)
            resume(violations.get(0), now)

        self._validation.check(spec.topic, _batch(spec), checked, now)

    def note_refused(self, schedule: Schedule, found: Violation) -> None:
        """The topic refuses the message: the schedule says so, and the operator hears it once."""
        place = f" at {found.path}" if found.path else ""
        problem = f"its message was refused: {found.code}{place}: {found.reason}"
        if schedule.problem == problem:
            return
        schedule.problem = problem
        refused = ScheduleRefused(
            schedule=schedule.spec.name,
            topic=schedule.spec.topic,
            code=found.code.value,
            path=found.path,
            reason=found.reason,
        )
        self._state.outbox.append(Report(report=refused))

    def require(
        self, request: RequestId, spec: ScheduleSpec, resume: Callable[[Now], None], now: Now
    ) -> None:
        """Refuse the command at hand if the topic refuses the value; otherwise go on with it."""
        if self._validating(spec) is None:
            resume(now)
            return

        def checked(violations: Violations, now: Now) -> None:
            for found in violations.values():
                raise Refused(found.code, path=found.path, reason=found.reason)
            resume(now)

        self._validation.check(spec.topic, _batch(spec), checked, now, request)

    @property
    def _revision(self) -> int:
        return self._state.schemas.revision

    def _validating(self, spec: ScheduleSpec) -> TopicStated | None:
        """The topic's definition, if it is there and asks for validation."""
        topic = self._state.catalog.get(spec.topic)
        if topic is None or not topic.is_open or not topic.config.schema_validation:
            return None
        return topic.stated


def _batch(spec: ScheduleSpec) -> bytearray:
    return build([Message(value=spec.message.value)])
