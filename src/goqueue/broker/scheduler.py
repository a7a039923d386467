"""Commands about schedules: create, change, pause, resume, delete, describe and list them.

A command for a schedule whose tick is on its way waits for the decision: no tick is decided after
the answer to a pause, a change or a deletion. What schedules send is the business of `TickSender`.
"""

from collections.abc import Callable, Generator

import msgspec

from goqueue.broker.state import NodeState
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.broker.tick_sender import TICK_UNITS, TickSender
from goqueue.broker.turns import Steps
from goqueue.model import Answer, Code, Now, Refused, RequestId
from goqueue.model.requests import (
    AlterSchedule,
    CreateSchedule,
    DeleteSchedule,
    DescribeSchedule,
    Done,
    ListSchedules,
    Operation,
    PauseSchedule,
    ResourceType,
    ResumeSchedule,
    ScheduleDescription,
    ScheduleList,
    ScheduleSpec,
)
from goqueue.schedules import Schedule, ScheduleDeleted, ScheduleStated
from goqueue.security import NameFilter, field_changes

__all__ = ["Scheduler"]


class Scheduler:
    """Takes commands about schedules."""

    def __init__(self, state: NodeState, sender: TickSender, quotas: TenantQuotas) -> None:
        self._quotas = quotas
        self._state = state
        self._schedules = state.schedules
        self._sender = sender

    def create(self, request: RequestId, command: CreateSchedule, now: Now) -> None:
        name = command.spec.name
        outside = "names of a tenant begin with its id and a dot"
        self._state.access.require_owner(name, Refused(Code.PERMISSION_DENIED, reason=outside))
        self._require_target(command.spec.topic)

        def create(now: Now) -> None:
            existing = self._schedules.get(name) if command.may_replace else None
            if existing is None:
                self._create(request, command, now)
            else:
                self._require_target(existing.spec.topic)
                self._change(request, existing, lambda _: command.spec, now)

        self._sender.validation.require(request, command.spec, create, now)

    def _create(self, request: RequestId, command: CreateSchedule, now: Now) -> None:
        self._state.journals.of_groups.check_room()
        self._sender.check_target(command.spec)
        self._quotas.check_schedule(command.spec)
        stated = self._schedules.create(command.spec, now.wall, is_paused=command.is_paused)
        schedule = self._schedules.apply(stated)
        assert schedule is not None
        self._sender.begin_arming(schedule, now)
        described = schedule.describe(is_new=True)
        self._state.journals.of_groups.note([stated], [Answer(request=request, reply=described)])
        changes = field_changes(None, stated.spec)
        self._state.audit.record(request, self._state.journals.of_groups, changes)

    def alter(self, request: RequestId, command: AlterSchedule, now: Now) -> None:
        schedule = self._state.find_schedule(command.name, Operation.WRITE)
        if command.changes.topic is not None:
            self._require_target(command.changes.topic)

        def change(now: Now) -> None:
            # It may have been deleted while its message was validated.
            self._schedules.check(schedule)
            self._change(request, schedule, command.changes.applied_to, now)

        spec = command.changes.applied_to(schedule.spec)
        self._sender.validation.require(request, spec, change, now)

    def _require_target(self, topic: str) -> None:
        self._state.access.require(ResourceType.TOPIC, topic, Operation.WRITE)

    def _change(
        self,
        request: RequestId,
        schedule: Schedule,
        changed: Callable[[ScheduleSpec], ScheduleSpec],
        now: Now,
    ) -> None:
        def change(now: Now) -> None:
            before, spec = schedule.spec, changed(schedule.spec)
            self._require_target(spec.topic)
            self._sender.check_target(spec)
            self._quotas.check_schedule(spec, before)
            self._restate(request, self._schedules.alter(schedule, spec, now.wall), before)

        self._sender.when_idle(request, schedule, change, now)

    def pause(self, request: RequestId, command: PauseSchedule, now: Now) -> None:
        schedule = self._state.find_schedule(command.name, Operation.WRITE)

        def pause(_: Now) -> None:
            self._restate(request, msgspec.structs.replace(schedule.stated, is_paused=True))

        self._sender.when_idle(request, schedule, pause, now)

    def resume(self, request: RequestId, command: ResumeSchedule, now: Now) -> None:
        schedule = self._state.find_schedule(command.name, Operation.WRITE)

        def resume(now: Now) -> None:
            stated = schedule.stated
            if stated.is_paused:
                # Ticks of the pause do not exist.
                upto = max(stated.upto, now.wall)
                stated = msgspec.structs.replace(stated, is_paused=False, upto=upto)
            self._restate(request, stated)

        self._sender.when_idle(request, schedule, resume, now)

    def delete(self, request: RequestId, command: DeleteSchedule, now: Now) -> None:
        schedule = self._state.find_schedule(command.name, Operation.WRITE)

        def delete(now: Now) -> None:
            self.remove(schedule, now)
            self._state.journals.of_groups.note([], [Answer(request=request, reply=Done())])
            self._state.audit.record(request, self._state.journals.of_groups)

        self._sender.when_idle(request, schedule, delete, now)

    def remove(self, schedule: Schedule, _: Now) -> bool:
        """Forget a schedule, unless its tick is on its way."""
        if schedule.is_busy:
            return False
        change = ScheduleDeleted(number=schedule.number)
        self._schedules.apply(change)
        self._sender.forget(schedule)
        self._state.journals.of_groups.note([change])
        return True

    def _restate(
        self, request: RequestId, stated: ScheduleStated, before: ScheduleSpec | None = None
    ) -> None:
        """Another definition, or another state of the same."""
        schedule = self._schedules.apply(stated)
        assert schedule is not None
        schedule.problem = None
        answer = Answer(request=request, reply=schedule.describe())
        self._state.journals.of_groups.note([stated], [answer])
        changes = field_changes(before or stated.spec, stated.spec)
        self._state.audit.record(request, self._state.journals.of_groups, changes)

    def describe(self, request: RequestId, command: DescribeSchedule, _: Now) -> None:
        described = self._state.find_schedule(command.name, Operation.DESCRIBE).describe()
        # What was decided and is not committed must not be seen: a crash could take it back.
        self._state.journals.answer(request, described, [self._state.journals.of_groups])

    def list_page(self, request: RequestId, command: ListSchedules, now: Now) -> None:
        sees = self._state.access.visible_topics()
        self._state.stepwise.begin(request, self._list_in_turns(request, command, sees), now)

    def _page(
        self, command: ListSchedules, sees: NameFilter
    ) -> Generator[int, None, tuple[list[int], int]]:
        """The numbers of the schedules of a page, and how many there are for the caller."""
        if sees is None:
            page = self._schedules.page(command.skip, command.limit)
            return [each.number for each in page], len(self._schedules)
        # Both the schedule and its topic are of the caller's tenant.
        every = self._schedules.page(0, len(self._schedules))
        targets = {each.spec.name: each.spec.topic for each in every}
        numbers = {each.spec.name: each.number for each in every}
        names = yield from self._state.access.select(
            targets, lambda name: sees(name) and sees(targets[name])
        )
        page_names = names[command.skip : command.skip + command.limit]
        return [numbers[name] for name in page_names], len(names)

    def _list_in_turns(self, request: RequestId, command: ListSchedules, sees: NameFilter) -> Steps:
        listed: list[ScheduleDescription] = []
        page, total = yield from self._page(command, sees)
        for number in page:
            # It may have been deleted since the last turn.
            schedule = self._schedules.numbered(number)
            if schedule is not None:
                listed.append(schedule.describe())
            yield TICK_UNITS
        reply = ScheduleList(schedules=tuple(listed), total=total)
        self._state.journals.answer(request, reply, [self._state.journals.of_groups])
