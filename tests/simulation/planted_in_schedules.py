"""Faults planted into schedules, one at a time, to see that the simulator finds them."""

from typing import Any

import pytest

from goqueue.broker.tick_sender import TickSender
from goqueue.schedules import Schedules
from tests.simulation.planted_patches import Plant, attribute, does_nothing, forget

__all__ = ["PLANTED_IN_SCHEDULES"]


def forgets_that_a_schedule_ticked(patch: pytest.MonkeyPatch) -> None:
    forget(patch, "ScheduleTicked")


def decides_a_tick_before_its_message_is_committed(patch: pytest.MonkeyPatch) -> None:
    append = TickSender._append

    def hasty(sender: Any, batch: Any, now: Any) -> None:
        append(sender, batch, now)
        ticked = [
            sender._ticked(entry.schedule, entry.upto, entry.ticks)
            for entry in batch.entries
            if entry.upto is not None
        ]
        sender._state.journals.of_groups.note(ticked)

    patch.setattr(TickSender, "_append", hasty)


def tells_of_ticks_in_a_record_of_their_own(patch: pytest.MonkeyPatch) -> None:
    appended, completed = TickSender.appended, TickSender.completed
    late: list[Any] = []

    def split(sender: Any, number: int, refused: Any, now: Any) -> None:
        coordinator = sender._coordinator
        decide = type(coordinator).decide_move

        def decide_alone(move: int, outcome: Any, target: Any, journal: Any, changes: Any) -> None:
            late.extend(changes)
            decide(coordinator, move, outcome, target, journal, [])

        coordinator.decide_move = decide_alone
        appended(sender, number, refused, now)
        del coordinator.decide_move

    def tell(sender: Any, numbers: Any, now: Any) -> None:
        completed(sender, numbers, now)
        if numbers and late:
            sender._state.journals.of_groups.note(list(late))
            late.clear()

    patch.setattr(TickSender, "appended", split)
    patch.setattr(TickSender, "completed", tell)


def ticks_in_a_pause(patch: pytest.MonkeyPatch) -> None:
    def eager(schedules: Any, schedule: Any) -> None:
        schedule.next_tick = None
        if schedule.ticks is not None and not schedule.is_busy:
            schedule.next_tick = schedule.ticks.next_after(schedule.stated.upto)
        if schedule.next_tick is not None:
            heappush = attribute("goqueue.schedules.schedules.heappush")
            heappush(schedules._heap, (schedule.next_tick, schedule.number))

    patch.setattr(Schedules, "arm", eager)


def answers_while_a_tick_is_on_its_way(patch: pytest.MonkeyPatch) -> None:
    def hasty(sender: Any, _: Any, schedule: Any, change: Any, now: Any) -> None:
        change(now)
        sender.begin_arming(schedule, now)

    patch.setattr(TickSender, "when_idle", hasty)


def forgets_ticks_that_were_taken_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TickSender, "_give_up", does_nothing)


def forgets_a_deletion(patch: pytest.MonkeyPatch) -> None:
    forget(patch, "ScheduleDeleted")


def states_no_schedules(patch: pytest.MonkeyPatch) -> None:
    name = "goqueue.broker.recovery.journaled_state.JournaledState.state_groups"
    state_groups = attribute(name)

    def silent(journaled: Any) -> Any:
        for step in state_groups(journaled):
            yield [each for each in step if type(each).__name__ != "ScheduleStated"]

    patch.setattr(name, silent)


def ticks_early(patch: pytest.MonkeyPatch) -> None:
    pop_due = Schedules.pop_due
    look = TickSender.look_at_clock

    def early(schedules: Any, now: Any) -> Any:
        return pop_due(schedules, now + 900_000_000)

    def eager(sender: Any, now: Any) -> None:
        deadline = sender._schedules.next_deadline()
        if deadline is not None and deadline - now.wall < 900_000_000:
            sender._state.alarms.bring_forward("schedules", now.instant)
        look(sender, now)

    patch.setattr(Schedules, "pop_due", early)
    patch.setattr("goqueue.schedules.schedules.Schedule.due", _all_due)
    patch.setattr(TickSender, "look_at_clock", eager)


def _all_due(schedule: Any, _: Any, __: Any) -> Any:
    due = attribute("goqueue.schedules.DueTicks")
    return due((schedule.next_tick,), schedule.next_tick, False)


def does_not_arm_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TickSender, "begin", does_nothing)


PLANTED_IN_SCHEDULES: tuple[Plant, ...] = (
    forgets_that_a_schedule_ticked,
    decides_a_tick_before_its_message_is_committed,
    tells_of_ticks_in_a_record_of_their_own,
    ticks_in_a_pause,
    answers_while_a_tick_is_on_its_way,
    forgets_ticks_that_were_taken_back,
    forgets_a_deletion,
    states_no_schedules,
    ticks_early,
    does_not_arm_after_a_restart,
)
