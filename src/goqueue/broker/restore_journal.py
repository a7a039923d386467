"""What the journals say of a restore, and how one that was cut short is undone.

A restore is stated over many turns, in both journals; one record decides it. In this order, each
committed before the next is written:

1. `__topics`: the contents of its schemas, which no version has yet, and its topics, each marked as
   arriving. They have their ids, names and numbers, so nobody else gets them, and nobody can use
   them.
2. `__groups`: `RestoreStated` with the groups and schedules that it creates, these themselves, and
   positions, which name the topics by number.
3. The logs are moved to their places (`goqueue.storage.backups.restore_stage`).
4. `__topics`: `RestoreCommitted`. This record is the restore: before it a start undoes 1 and 2 and
   removes the logs, after it everything is there already.
5. `__groups`: `RestoreEnded`.

A start after a crash between 4 and 5 finds in `__topics` that the restore was committed, and only
writes 5 again. Positions of topics that are undone need no record: numbers are never used twice,
and a position in a topic that does not exist is nobody's.
"""

import msgspec

from goqueue.broker.journal_changes import RestoreEnded, RestoreStated, TopicDeleted
from goqueue.broker.restored_schemas import undo_contents
from goqueue.broker.state import NodeState
from goqueue.groups import GroupDeleted
from goqueue.schedules import ScheduleDeleted

__all__ = ["apply_restore", "undo_groups", "undo_restore"]


def apply_restore(state: NodeState, change: RestoreStated | RestoreEnded) -> None:
    """Become what the journal of groups says of a restore."""
    pending = state.pending_restore
    if isinstance(change, RestoreEnded):
        if pending is not None and pending.restore == change.restore:
            state.pending_restore = None
    elif pending is None or pending.restore != change.restore:
        state.pending_restore = change
    else:
        state.pending_restore = msgspec.structs.replace(
            pending,
            groups=sorted({*pending.groups, *change.groups}),
            schedules=sorted({*pending.schedules, *change.schedules}),
        )


def undo_restore(state: NodeState) -> None:
    """At a start, when both journals are replayed: undo a restore that was not committed."""
    places = state.group_partitions
    for topic in [each for each in state.catalog.all if each.stated.is_arriving]:
        for group in places.groups:
            for place in places.of_group_on(group, topic.logs):
                places.remove(place)
        deleted = TopicDeleted(name=topic.name, number=topic.number)
        state.metadata.propose([deleted])
    if state.cluster is None:
        undo_contents(state.schemas, state.metadata, state.schemas.unused())
    pending = state.pending_restore
    if pending is None:
        return
    if state.catalog.last_restore != pending.restore:
        undo_groups(state, pending)
    state.journals.of_groups.note([RestoreEnded(restore=pending.restore)])
    state.pending_restore = None


def undo_groups(state: NodeState, pending: RestoreStated) -> None:
    """Remove the groups and schedules of a restore, unless somebody uses a group by now."""
    for number in pending.groups:
        group = state.groups.numbered(number)
        if group is None or group.members or state.group_partitions.of_group(number):
            continue
        gone = GroupDeleted(group=group.name, number=number)
        state.groups.apply(gone)
        state.counts.forget_group(group.name)
        state.journals.of_group(group.name).note([gone])
    for number in pending.schedules:
        if state.schedules.numbered(number) is not None:
            deleted = ScheduleDeleted(number=number)
            state.schedules.apply(deleted)
            state.journals.of_groups.note([deleted])
