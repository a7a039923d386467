"""Faults planted into delays and lanes, one at a time, to see that the simulator finds them."""

from typing import Any

import pytest

from goqueue.broker.delayed.delays import DelayedMessages
from goqueue.broker.publish import Publisher
from goqueue.delivery import Delays, DeliveryQueue, Lanes, PriorityIndex, Wheel
from goqueue.model import SECOND
from tests.simulation.planted_patches import Plant, attribute, does_nothing

__all__ = ["PLANTED_IN_DELAYS", "PLANTED_IN_LANES"]


# Delays


def waits_before_the_record_is_committed(patch: pytest.MonkeyPatch) -> None:
    expect = DelayedMessages.expect

    def hasty(delayed: Any, partition: Any, waiting: Any, now: Any, holder: Any = None) -> None:
        expect(delayed, partition, waiting, now, holder)
        delays = delayed._delays(partition.log_id, now)
        delays.add_all(waiting.offsets, waiting.dues, waiting.priorities)
        delayed._arm(partition.log_id, delays, now)

    patch.setattr(DelayedMessages, "expect", hasty)


def takes_a_delivery_for_done_when_it_is_appended(patch: pytest.MonkeyPatch) -> None:
    deliver = DelayedMessages._deliver

    def hasty(delayed: Any, batch: Any, partition: Any, delays: Any, now: Any) -> None:
        deliver(delayed, batch, partition, delays, now)
        entries = delayed._pending_appends._entries.get(batch.log)
        if entries and type(entries[-1]).__name__ == "Fired":
            first = entries[-1].next - len(entries[-1].messages)
            for index, message in enumerate(entries[-1].messages):
                delays.deliver(message, first + index)

    patch.setattr(DelayedMessages, "_deliver", hasty)


def forgets_delays_that_a_full_disk_took_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delays, "stay", does_nothing)


def loses_what_is_pending_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("goqueue.broker.delayed.delay_log.Replay.apply", does_nothing)


def replays_without_deliveries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("goqueue.broker.delayed.delay_log.DELAYED_FROM_HEADER", "gq.never-there")


def replays_without_cancellations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("goqueue.broker.delayed.delay_log.cancelled_by", lambda _: None)


def answers_a_cancellation_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    cancel = DelayedMessages._cancel_pending

    def hasty(
        delayed: Any, request: Any, partition: Any, delays: Any, offset: Any, now: Any
    ) -> None:
        cancel(delayed, request, partition, delays, offset, now)
        delayed._cancels.succeed(partition.log_id, offset)

    patch.setattr(DelayedMessages, "_cancel_pending", hasty)


def cancels_what_is_being_delivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delays, "leave", lambda delays, offset: delays._wheel.cancel(offset) or True)


def fires_what_is_leaving_again(patch: pytest.MonkeyPatch) -> None:
    due = Delays.due

    def stubborn(delays: Any, now: Any, limit: int) -> Any:
        fired = due(delays, now, limit)
        for offset in fired:
            delays._wheel.insert(offset, now + SECOND // 10)
        return fired

    patch.setattr(Delays, "due", stubborn)


def fires_early(patch: pytest.MonkeyPatch) -> None:
    advance = Wheel.advance

    def early(wheel: Any, now: Any, limit: Any = None) -> Any:
        return advance(wheel, now + 400 * SECOND // 1000, limit)

    patch.setattr(Wheel, "advance", early)


def ignores_a_clock_that_was_put(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DelayedMessages, "wake_if_due", does_nothing)


def lets_retention_take_what_is_pending(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delays, "needed_from", does_nothing)


def announces_no_delays(patch: pytest.MonkeyPatch) -> None:
    def silent(publishing: Any, request: Any, command: Any, topic: Any, admission: Any) -> None:
        topic.may_delay = True
        publishing._publish(request, command, topic, admission, publishing.now)

    publish = Publisher.publish

    def timed(publishing: Any, request: Any, command: Any, now: Any) -> None:
        publishing.now = now
        publish(publishing, request, command, now)

    patch.setattr(Publisher, "publish", timed)
    patch.setattr(Publisher, "_announce", silent)


def keeps_delays_of_a_deleted_topic(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DelayedMessages, "forget_logs", does_nothing)


def never_looks_at_what_is_due_much_later(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delays, "_bring_near", lambda *_: True)


def forgets_a_far_message_that_was_not_cancelled(patch: pytest.MonkeyPatch) -> None:
    wait = Delays._wait

    def forgetful(delays: Any, index: int) -> None:
        is_last = index == len(delays._offsets) - 1
        if is_last or delays._dues[index] - delays._now <= delays._reach_ns:
            wait(delays, index)

    patch.setattr(Delays, "_wait", forgetful)


# Lanes


def skips_a_block_of_the_census(patch: pytest.MonkeyPatch) -> None:
    find = PriorityIndex.next

    def hasty(priority_index: Any, lane: int, offset: int) -> Any:
        found = find(priority_index, lane, offset)
        return found if found == offset else min(found + 4, max(found, priority_index.upto))

    patch.setattr(PriorityIndex, "next", hasty)


def counts_a_message_in_another_lane(patch: pytest.MonkeyPatch) -> None:
    count = PriorityIndex.count

    def careless(priority_index: Any, offsets: Any, lanes: bytes, upto: int) -> None:
        count(priority_index, offsets, bytes((lane + 1) % 5 for lane in lanes), upto)

    patch.setattr(PriorityIndex, "count", careless)


def moves_the_cursor_of_every_lane(patch: pytest.MonkeyPatch) -> None:
    learn = DeliveryQueue.learn

    def careless(queue: Any, known: Any, next_offset: int, first: Any = None) -> None:
        learn(queue, known, next_offset, first)
        queue._cursors = [max(cursor, next_offset) for cursor in queue._cursors]

    patch.setattr(DeliveryQueue, "learn", careless)


def learns_messages_twice(patch: pytest.MonkeyPatch) -> None:
    learn = DeliveryQueue.learn

    def careless(queue: Any, known: Any, next_offset: int, first: Any = None) -> None:
        begin = queue.cursor if first is None else first
        cursors = list(queue._cursors)
        queue._cursors = [min(cursor, begin) for cursor in cursors]
        learn(queue, known, next_offset, first)
        queue._cursors = [max(pair) for pair in zip(cursors, queue._cursors, strict=True)]

    patch.setattr(DeliveryQueue, "learn", careless)


def drops_a_message_that_does_not_fit(patch: pytest.MonkeyPatch) -> None:
    name = "goqueue.delivery.lanes._Lane"
    pop_run = attribute(f"{name}.pop_run")

    def lossy(lane: Any, count: int, bytes_max: int) -> Any:
        before = lane.passed
        run = pop_run(lane, count, bytes_max)
        if lane.fresh and len(run) < count and lane.passed > before:
            lane.pass_over(1)
        return run

    patch.setattr(f"{name}.pop_run", lossy)


def drops_a_message_that_comes_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("goqueue.delivery.lanes.heappush", does_nothing)


def loses_what_the_last_lane_hands_out(patch: pytest.MonkeyPatch) -> None:
    take = Lanes.take

    def lossy(lanes: Any, count_max: int, bytes_max: int, now: Any) -> Any:
        taken = take(lanes, count_max, bytes_max, now)
        kept = [message for message in taken.messages if message.priority != 4]
        return taken._replace(messages=kept)

    patch.setattr(Lanes, "take", lossy)


def gathers_records_in_the_order_of_the_log(patch: pytest.MonkeyPatch) -> None:
    name = "goqueue.broker.groups.read_ahead.FetchedBytes.gather"
    gather = attribute(name)

    def careless(fetched: Any, group: Any, wanted: Any, offsets: Any, size: Any) -> Any:
        return gather(fetched, group, wanted, sorted(offsets), size)

    patch.setattr(name, careless)


PLANTED_IN_DELAYS: tuple[Plant, ...] = (
    waits_before_the_record_is_committed,
    takes_a_delivery_for_done_when_it_is_appended,
    forgets_delays_that_a_full_disk_took_back,
    loses_what_is_pending_at_a_restart,
    replays_without_deliveries,
    replays_without_cancellations,
    answers_a_cancellation_before_it_is_committed,
    cancels_what_is_being_delivered,
    fires_what_is_leaving_again,
    fires_early,
    ignores_a_clock_that_was_put,
    lets_retention_take_what_is_pending,
    announces_no_delays,
    keeps_delays_of_a_deleted_topic,
    never_looks_at_what_is_due_much_later,
    forgets_a_far_message_that_was_not_cancelled,
)

PLANTED_IN_LANES: tuple[Plant, ...] = (
    skips_a_block_of_the_census,
    counts_a_message_in_another_lane,
    moves_the_cursor_of_every_lane,
    learns_messages_twice,
    drops_a_message_that_does_not_fit,
    drops_a_message_that_comes_back,
    loses_what_the_last_lane_hands_out,
    gathers_records_in_the_order_of_the_log,
)
