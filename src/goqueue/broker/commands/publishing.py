"""Publish: route a batch to its partitions, append, answer when all of it is committed.

Never looks at a single message: routing is a pass of the records room, appending stamps a batch.
Cost per batch: one route pass, then per partition one stamp pass, one write and one shared sync.
"""

from goqueue.broker.partitions import Partition, Publication
from goqueue.broker.state import NodeState
from goqueue.model import Code, Now, Offset, Refused, RequestId
from goqueue.model.requests import Publish
from goqueue.records import Unroutable, route

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

    def __init__(self, state: NodeState) -> None:
        self._state = state

    def publish(self, request: RequestId, command: Publish, now: Now) -> None:
        topic = self._state.catalog.find_for_writing(command.topic)
        config = topic.config
        routed = route(
            command.batch,
            topic.stated.partitions,
            topic.turn,
            command.targets,
            body_bytes_max=config.max_message_bytes,
            needs_key=config.cleanup_policy.compacts,
        )
        if command.is_whole:
            _check_whole(routed.targets, topic.stated.partitions, config.max_message_bytes)
        topic.turn = routed.turn
        publication = Publication(
            request if command.waits else None, routed.targets, len(routed.parts), now.wall
        )
        for number, batch in routed.parts.items():
            self._append(self._state.partition(topic, number), batch, publication, now)
        if not routed.parts or not command.waits:
            self._state.outbox.answer(request, publication.published())

    def _append(
        self, partition: Partition, batch: bytearray, publication: Publication, now: Now
    ) -> None:
        try:
            appended = self._state.append(partition, batch, now)
        except Refused as refused:
            published = publication.place(partition.log_id.partition, Offset(0), 0, refused.code)
            if published is not None and publication.request is not None:
                self._state.outbox.answer(publication.request, published)
            return
        partition.expect(appended.first, appended.next, publication)


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
