"""Publish: route a batch to its partitions, append, answer when all of it is committed.

Never looks at a single message: routing is a pass of the records room, appending stamps a batch.
Cost per batch: one route pass, then per partition one stamp pass, one write and one shared sync.
"""

import msgspec

from goqueue.broker.catalog import Topic
from goqueue.broker.messages.delaying import Delaying
from goqueue.broker.outbox import PublishDelayed
from goqueue.broker.partitions import Partition, Publication
from goqueue.broker.state import NodeState
from goqueue.model import Code, Now, Offset, Priority, Refused, RequestId
from goqueue.model.requests import Publish
from goqueue.records import Routed, Unroutable, route, walk

__all__ = ["Publishing"]

_REFUSALS = {
    Unroutable.TOO_LARGE: Code.MESSAGE_TOO_LARGE,
    Unroutable.NO_KEY: Code.MESSAGE_INVALID,
    Unroutable.NO_PARTITION: Code.PARTITION_NOT_FOUND,
    Unroutable.BAD_PARTITION: Code.PARTITION_INVALID,
    Unroutable.RESERVED: Code.MESSAGE_INVALID,
}


class Publishing:
    """Takes publish commands."""

    def __init__(self, state: NodeState, delaying: Delaying) -> None:
        self._state = state
        self._delaying = delaying

    def publish(self, request: RequestId, command: Publish, now: Now) -> None:
        topic = self._state.catalog.find_for_writing(command.topic)
        if command.dues is not None and not topic.may_delay:
            self._announce_delays(request, command, topic)
            return
        config = topic.config
        routed = route(
            command.batch,
            topic.stated.partitions,
            topic.turn,
            command.targets,
            body_bytes_max=config.max_message_bytes,
            needs_key=config.cleanup_policy.compacts,
            may_delay=command.dues is not None,
        )
        if command.is_whole:
            _check_whole(routed.targets, topic.stated.partitions, config.max_message_bytes)
        topic.turn = routed.turn
        self._note_lanes(topic, routed)
        publication = Publication(
            request if command.waits else None, routed.targets, len(routed.parts), now.wall
        )
        delayed = {} if command.dues is None else _delayed(routed, command.dues)
        for number, batch in routed.parts.items():
            partition = self._state.partition(topic, number)
            first = self._append(partition, batch, publication, now)
            if first is not None and number in delayed:
                found = [(Offset(first + place), due, lane) for place, due, lane in delayed[number]]
                self._delaying.expect(partition, found, now)
        if not routed.parts or not command.waits:
            self._state.outbox.answer(request, publication.published())

    def _append(
        self, partition: Partition, batch: bytearray, publication: Publication, now: Now
    ) -> Offset | None:
        """The offset of the first record, or None if none was taken."""
        try:
            appended = self._state.append(partition, batch, now)
        except Refused as refused:
            published = publication.place(partition.log_id.partition, Offset(0), 0, refused.code)
            if published is not None and publication.request is not None:
                self._state.outbox.answer(publication.request, published)
            return None
        partition.expect(appended.first, appended.next, publication)
        return appended.first

    def _note_lanes(self, topic: Topic, routed: Routed) -> None:
        counted = self._state.tally.published
        for lane, count in enumerate(routed.lanes):
            counted[lane] += count
        if sum(routed.lanes) != routed.lanes[Priority.NORMAL]:
            self._state.note_lanes(topic)

    def _announce_delays(self, request: RequestId, command: Publish, topic: Topic) -> None:
        """The first delayed message of a topic waits until it is committed that it has some.

        Otherwise a crash could leave a message in a log that no start looks through.
        """
        self._state.topics_journal.check_room()
        changes = []
        if not topic.stated.has_delays:
            stated = msgspec.structs.replace(topic.stated, has_delays=True)
            self._state.catalog.apply(stated)
            changes.append(stated)
        self._state.topics_journal.note(changes, [PublishDelayed(request, command)])


def _delayed(routed: Routed, dues: list[int]) -> dict[int, list[tuple[int, int, int]]]:
    """By partition: place within the part, due time and priority of each delayed record."""
    priorities = {number: walk(part).priorities for number, part in routed.parts.items()}
    places: dict[int, int] = {}
    found: dict[int, list[tuple[int, int, int]]] = {}
    for target, due in zip(routed.targets, dues, strict=True):
        if target < 0:
            continue
        place = places.get(target, 0)
        places[target] = place + 1
        if due:
            found.setdefault(target, []).append((place, due, priorities[target][place]))
    return found


def _check_whole(targets: list[int], partitions: int, limit: int) -> None:
    """Refuse everything if one record cannot be taken; the facts name the first."""
    lowest = min(targets, default=0)
    if lowest >= 0:
        return
    index = next(index for index, target in enumerate(targets) if target < 0)
    code = _REFUSALS[Unroutable(targets[index])]
    match code:
        case Code.MESSAGE_TOO_LARGE:
            raise Refused(code, index=index, limit=limit)
        case Code.PARTITION_NOT_FOUND | Code.PARTITION_INVALID:
            raise Refused(code, index=index, partitions=partitions)
        case _:
            raise Refused(code, index=index)
