"""Faults planted into replicated partitions, one at a time."""

from typing import Any

import msgspec
import pytest

from goqueue.model import Offset
from tests.simulation.planted_patches import Plant, attribute

__all__ = ["PLANTED_IN_REPLICATION"]

_LEADER = "goqueue.broker.replication.partition_leader.PartitionLeader"
_FOLLOWER = "goqueue.broker.replication.partition_follower.PartitionFollower"
_LOG_FOLLOWER = "goqueue.broker.cluster.log_follower.LogFollower"
_ROLES = "goqueue.broker.replication.log_roles.LogRoles"
_REPLICAS = "goqueue.broker.replication.replicas.Replicas"
_DERIVED = "goqueue.broker.replication.derived_state.DerivedState"
_ENDS = "goqueue.broker.replication.recorded_ends.RecordedEnds"
_CONTROLLER = "goqueue.broker.cluster.partition_controller"
_EVENTS = "goqueue.broker.partition_events"


def commits_what_followers_have_only_written(patch: pytest.MonkeyPatch) -> None:
    send = attribute(f"{_FOLLOWER}._send")

    def hasty(follower: Any, message: Any) -> None:
        if type(message).__name__ == "ReplicaAck" and message.is_agreed:
            message = msgspec.structs.replace(message, durable=follower._log.end)
        send(follower, message)

    patch.setattr(f"{_FOLLOWER}._send", hasty)


def believes_a_removal_before_its_commit(patch: pytest.MonkeyPatch) -> None:
    advance = attribute(f"{_LEADER}.advance")

    def hasty(leader: Any) -> Any:
        image = leader._image
        if leader._wish is not None:
            names = {broker for broker, _ in leader._wish.isr}
            left = tuple(each for each in image.isr if each in names)
            leader._image = msgspec.structs.replace(image, isr=left)
        has_risen = advance(leader)
        leader._image = image
        return has_risen

    patch.setattr(f"{_LEADER}.advance", hasty)


def commits_with_fewer_than_the_minimum(patch: pytest.MonkeyPatch) -> None:
    wanted = attribute("goqueue.broker.replication.partition_leader.wanted_isr")
    check = attribute(f"{_CONTROLLER}.check_isr_change")

    def smaller(*args: Any, **how: Any) -> Any:
        return wanted(*args, **{**how, "minimum": 1})

    def lenient(change: Any, table: Any, epochs: Any, _: int) -> Any:
        return check(change, table, epochs, 1)

    patch.setattr("goqueue.broker.replication.partition_leader.wanted_isr", smaller)
    patch.setattr(f"{_CONTROLLER}.check_isr_change", lenient)


def writes_no_epoch_record(patch: pytest.MonkeyPatch) -> None:
    begin = attribute(f"{_LEADER}.begin_epoch")

    def silent(leader: Any, now: Any) -> None:
        if leader._epoch_first is None and leader._log.end > 0:
            leader._epoch_first = Offset(-1)
            leader._is_serving = True
            return
        begin(leader, now)

    patch.setattr(f"{_LEADER}.begin_epoch", silent)


def truncates_to_its_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Before leader epochs: what was committed and not known to be is cut (KIP-101)."""
    subscribe = attribute(f"{_LOG_FOLLOWER}.subscribe")

    def forgetful(follower: Any, lineage: str) -> None:
        log = follower._log
        is_new = not getattr(follower, "_was_cut", False) and hasattr(follower, "missed")
        if is_new and not log.is_changing and log.high_watermark < log.end:
            follower._was_cut = True
            follower._state.outbox.extend(log.truncate(log.high_watermark))
            return
        subscribe(follower, lineage)

    patch.setattr(f"{_LOG_FOLLOWER}.subscribe", forgetful)


def copies_records_behind_another_epoch(patch: pytest.MonkeyPatch) -> None:
    append = attribute(f"{_LOG_FOLLOWER}.append")

    def careless(follower: Any, message: Any, data: Any, now: Any) -> Any:
        same = msgspec.structs.replace(message, before=follower._log.last_epoch)
        return append(follower, same, data, now)

    agree = attribute(f"{_LEADER}.subscribed")

    def trusting(leader: Any, who: Any, asked: Any, now: Any) -> None:
        end = min(asked.end, leader._log.end)
        if end > leader._log.start and asked.end <= leader._log.end:
            last = leader._log.epochs.epoch_at(Offset(end - 1))
            asked = msgspec.structs.replace(asked, last=last)
        agree(leader, who, asked, now)

    patch.setattr(f"{_LOG_FOLLOWER}.append", careless)
    patch.setattr(f"{_LEADER}.subscribed", trusting)


def counts_before_it_agrees(patch: pytest.MonkeyPatch) -> None:
    begin = attribute(f"{_FOLLOWER}.__init__")

    def agreeable(follower: Any, *args: Any, **how: Any) -> None:
        begin(follower, *args, **how)
        follower._agrees = True

    send = attribute(f"{_FOLLOWER}._send")

    def still(follower: Any, message: Any) -> None:
        send(follower, message)
        follower._agrees = True

    subscribed = attribute(f"{_LEADER}.subscribed")

    def trusting(leader: Any, who: Any, asked: Any, now: Any) -> None:
        subscribed(leader, who, asked, now)

    patch.setattr(f"{_FOLLOWER}.__init__", agreeable)
    patch.setattr(f"{_FOLLOWER}._send", still)
    patch.setattr(f"{_LEADER}.subscribed", trusting)


def lets_a_follower_join_by_an_old_end(patch: pytest.MonkeyPatch) -> None:
    def hasty(progress: Any, _high_watermark: Any) -> bool:
        return progress.join_at is not None

    patch.setattr("goqueue.cluster.isr_rules.FollowerProgress.may_join", hasty)
    joining = attribute(f"{_LEADER}.wish")

    def uncounted(leader: Any, now: Any, repeat_ns: int) -> Any:
        wish = joining(leader, now, repeat_ns)
        leader._joining = ()
        return wish

    patch.setattr(f"{_LEADER}.wish", uncounted)


def lets_a_follower_join_by_what_it_has_only_written(patch: pytest.MonkeyPatch) -> None:
    """Trap 40: it may lead after a loss of power, without what it did not sync."""
    confirms_what_its_disk_has_not_written(patch)
    acknowledged, wish = attribute(f"{_LEADER}.acknowledged"), attribute(f"{_LEADER}.wish")

    def remember(leader: Any, who: Any, ack: Any, broker_epoch: int, now: Any) -> None:
        acknowledged(leader, who, ack, broker_epoch, now)
        if ack.epoch == leader.epoch:
            vars(leader).setdefault("written", {})[who.broker] = ack.written

    def hasty(leader: Any, now: Any, repeat_ns: int) -> Any:
        others = [each for each in leader.image.replicas if each not in leader.image.isr]
        held = {each: leader.progress(each).held for each in others}
        for each, written in vars(leader).get("written", {}).items():
            if each in held:
                leader.progress(each).held = max(held[each], written)
        try:
            return wish(leader, now, repeat_ns)
        finally:
            for each, durable in held.items():
                leader.progress(each).held = durable

    patch.setattr(f"{_LEADER}.acknowledged", remember)
    patch.setattr(f"{_LEADER}.wish", hasty)


def commits_what_any_majority_of_the_copies_has(patch: pytest.MonkeyPatch) -> None:
    """Copies outside the ISR count, and a member of it that lags does not."""

    def simple(own: Any, followers: Any, members: Any) -> Any:
        ends = sorted((own, *(each.held for each in followers.values())), reverse=True)
        return ends[len(ends) // 2] if members else own

    patch.setattr("goqueue.broker.replication.partition_leader.committed_end", simple)


def leads_in_the_epoch_of_an_earlier_run(patch: pytest.MonkeyPatch) -> None:
    def stubborn(roles: Any, state: Any) -> bool:
        return bool(state.leader == roles._me)

    patch.setattr(f"{_ROLES}._should_lead", stubborn)

    def blind(controller: Any, brokers: Any) -> Any:
        known = controller._metadata.image.brokers.items()
        live = frozenset(name for name, each in known if each.state == "active")
        return live, frozenset()

    patch.setattr(f"{_CONTROLLER}.PartitionController.live", blind)


def leads_on_after_its_disk_was_full(patch: pytest.MonkeyPatch) -> None:
    led = attribute(f"{_REPLICAS}._handle_led")

    def stubborn(replicas: Any, hosted: Any, leader: Any, now: Any, **_: bool) -> None:
        led(replicas, hosted, leader, now, is_cut=False)

    patch.setattr(f"{_REPLICAS}._handle_led", stubborn)


def takes_a_lost_copy_for_an_empty_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_ENDS}.noted", lambda _ends, _where: Offset(0))


def copies_records_behind_a_gap(patch: pytest.MonkeyPatch) -> None:
    append = attribute(f"{_LOG_FOLLOWER}.append")

    def careless(follower: Any, message: Any, data: Any, now: Any) -> Any:
        log = follower._log
        if message.first > log.end:
            message = msgspec.structs.replace(message, first=log.end, before=log.last_epoch)
        return append(follower, message, data, now)

    patch.setattr(f"{_LOG_FOLLOWER}.append", careless)
    patch.setattr(f"{_FOLLOWER}.does_miss", lambda _follower, _message: False)


def folds_producers_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    def hasty(derived: Any, partition: Any, now: Any) -> None:
        fold = partition.fold
        if fold is not None and not fold.is_reading:
            derived._fold_kept(partition, fold, partition.log.end, now)

    patch.setattr(f"{_DERIVED}.committed", hasty)
    patch.setattr(f"{_DERIVED}.truncated", lambda _derived, _partition: True)


def deletes_what_it_thinks_is_old(patch: pytest.MonkeyPatch) -> None:
    """A follower has a start of its own instead of its leader's."""
    apply = attribute(f"{_LOG_FOLLOWER}._apply_commit")

    def independent(follower: Any) -> None:
        apply(follower)
        log = follower._log
        is_copy = hasattr(follower, "missed")
        if is_copy and log.watermarks.stable > log.start + 20 and not log.is_changing:
            follower._state.outbox.extend(log.delete_before(Offset(log.watermarks.stable - 10)))

    patch.setattr(f"{_LOG_FOLLOWER}._apply_commit", independent)


def sorts_logs_by_an_old_image(patch: pytest.MonkeyPatch) -> None:
    """Trap 44: the image of a start may be older than what an earlier run knew."""
    follow = attribute("goqueue.broker.cluster.image_follower.ImageFollower.follow")

    def hasty(images: Any, applied: Any, image: Any, registered: Any, now: Any) -> None:
        follow(images, applied, image, registered, now)
        if image.cluster_id and not images._replicas.hosted.has_begun:
            images._replicas.begin(attribute("goqueue.broker.cluster.image_follower._INTERNAL"))

    patch.setattr("goqueue.broker.cluster.image_follower.ImageFollower.follow", hasty)


def elects_a_copy_that_may_have_lost_its_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("goqueue.cluster.PartitionState.is_unsure", lambda _state, _broker: False)


def confirms_what_its_disk_has_not_written(patch: pytest.MonkeyPatch) -> None:
    send = attribute(f"{_FOLLOWER}._send")

    def hasty(follower: Any, message: Any) -> None:
        if type(message).__name__ == "ReplicaAck" and message.is_agreed:
            message = msgspec.structs.replace(message, written=follower._log.end)
        send(follower, message)

    patch.setattr(f"{_FOLLOWER}._send", hasty)


PLANTED_IN_REPLICATION: tuple[Plant, ...] = (
    commits_what_followers_have_only_written,
    believes_a_removal_before_its_commit,
    commits_with_fewer_than_the_minimum,
    writes_no_epoch_record,
    truncates_to_its_high_watermark,
    copies_records_behind_another_epoch,
    counts_before_it_agrees,
    lets_a_follower_join_by_an_old_end,
    lets_a_follower_join_by_what_it_has_only_written,
    commits_what_any_majority_of_the_copies_has,
    leads_in_the_epoch_of_an_earlier_run,
    leads_on_after_its_disk_was_full,
    takes_a_lost_copy_for_an_empty_one,
    copies_records_behind_a_gap,
    folds_producers_before_the_commit,
    deletes_what_it_thinks_is_old,
    sorts_logs_by_an_old_image,
    elects_a_copy_that_may_have_lost_its_tail,
    confirms_what_its_disk_has_not_written,
)
