"""Commands about schedules: create, change, pause, resume, delete, describe and list them.

A command for a schedule whose tick is on its way waits for the decision: no tick is decided after
the answer to a pause, a change or a deletion. What schedules send is the business of `TickSender`.
"""

from collections.abc import Callable

import msgspec

from goqueue.broker.state import NodeState
from goqueue.broker.tick_sender import TICK_UNITS, TickSender
from goqueue.broker.turns import Steps
from goqueue.model import Answer, Now, RequestId
from goqueue.model.requests import (
    AlterSchedule,
    CreateSchedule,
    DeleteSchedule,
    DescribeSchedule,
    Done,
    ListSchedules,
    PauseSchedule,
    ResumeSchedule,
    ScheduleDescription,
    ScheduleList,
    ScheduleSpec,
)
from goqueue.schedules import Schedule, ScheduleDeleted, ScheduleStated

__all__ = ["Scheduler"]


class Scheduler:
    """Takes commands about schedules."""

    def __init__(self, state: NodeState, sender: TickSender) -> None:
        self._state = state
        self._schedules = state.schedules
        self._sender = sender

    def create(self, request: RequestId, command: CreateSchedule, now: Now) -> None:
        existing = self._schedules.get(command.spec.name) if command.may_replace else None
        if existing is not None:
            self._change(request, existing, lambda _: command.spec, now)
            return
        self._state.groups_journal.check_room()
        self._sender.check_target(command.spec)
        stated = self._schedules.create(command.spec, now.wall, is_paused=command.is_paused)
        schedule = self._schedules.apply(stated)
        assert schedule is not None
        self._sender.begin_arming(schedule, now)
        described = schedule.describe(is_new=True)
        self._state.groups_journal.note([stated], [Answer(request=request, reply=described)])

    def alter(self, request: RequestId, command: AlterSchedule, now: Now) -> None:
        schedule = self._schedules.find(command.name)
        self._change(request, schedule, command.changes.applied_to, now)

    def _change(
        self,
        request: RequestId,
        schedule: Schedule,
        changed: Callable[[ScheduleSpec], ScheduleSpec],
        now: Now,
    ) -> None:
        def change(now: Now) -> None:
            spec = changed(schedule.spec)
            self._sender.check_target(spec)
            self._restate(request, self._schedules.alter(schedule, spec, now.wall))

        self._sender.when_idle(request, schedule, change, now)

    def pause(self, request: RequestId, command: PauseSchedule, now: Now) -> None:
        schedule = self._schedules.find(command.name)

        def pause(_: Now) -> None:
            self._restate(request, msgspec.structs.replace(schedule.stated, is_paused=True))

        self._sender.when_idle(request, schedule, pause, now)

    def resume(self, request: RequestId, command: ResumeSchedule, now: Now) -> None:
        schedule = self._schedules.find(command.name)

        def resume(now: Now) -> None:
            stated = schedule.stated
            if stated.is_paused:
                # Ticks of the pause do not exist.
                upto = max(stated.upto, now.wall)
                stated = msgspec.structs.replace(stated, is_paused=False, upto=upto)
            self._restate(request, stated)

        self._sender.when_idle(request, schedule, resume, now)

    def delete(self, request: RequestId, command: DeleteSchedule, now: Now) -> None:
        schedule = self._schedules.find(command.name)

        def delete(_: Now) -> None:
            change = ScheduleDeleted(number=schedule.number)
            self._schedules.apply(change)
            self._sender.forget(schedule)
            self._state.groups_journal.note([change], [Answer(request=request, reply=Done())])

        self._sender.when_idle(request, schedule, delete, now)

    def _restate(self, request: RequestId, stated: ScheduleStated) -> None:
        schedule = self._schedules.apply(stated)
        assert schedule is not None
        schedule.problem = None
        answer = Answer(request=request, reply=schedule.describe())
        self._state.groups_journal.note([stated], [answer])

    def describe(self, request: RequestId, command: DescribeSchedule, _: Now) -> None:
        described = self._schedules.find(command.name).describe()
        # What was decided and is not committed must not be seen: a crash could take it back.
        self._state.groups_journal.note([], [Answer(request=request, reply=described)])

    def list_page(self, request: RequestId, command: ListSchedules, now: Now) -> None:
        self._state.stepwise.begin(request, self._list_in_turns(request, command), now)

    def _list_in_turns(self, request: RequestId, command: ListSchedules) -> Steps:
        listed: list[ScheduleDescription] = []
        for number in [each.number for each in self._schedules.page(command.skip, command.limit)]:
            # It may have been deleted since the last turn.
            schedule = self._schedules.numbered(number)
            if schedule is not None:
                listed.append(schedule.describe())
            yield TICK_UNITS
        reply = ScheduleList(schedules=tuple(listed), total=len(self._schedules))
        self._state.groups_journal.note([], [Answer(request=request, reply=reply)])
