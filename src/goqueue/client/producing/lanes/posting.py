"""A parcel on its way to the broker, until it is known what became of it.

Owns what is done about refusals. A batch with a number may be sent any number of times and is
taken once. The broker takes a batch as a whole or not at all: where it names the one message that
it will not have, the others are sent without it, under the same number. Where it does not know the
producer, the batch is sent as another one, but never if an attempt at it has an unknown outcome.

Invariant: whatever is raised, no message was taken twice; if the outcome is known, none was taken.
"""

from bisect import bisect_right

import msgspec

from goqueue import records
from goqueue.client.errors import GoQueueError, refusal
from goqueue.client.producing.lanes.identity import Registry
from goqueue.client.producing.lanes.parcel import ProducerBatch
from goqueue.client.producing.lanes.sequence import PartitionSequence
from goqueue.client.transport import Request, Transport, target
from goqueue.client.values import DELIVER_HEADER, nanoseconds

__all__ = ["Placed", "BatchSender"]

RECORDS = "application/vnd.goqueue.records"

# The broker has another opinion of the producer than the lane: it was forgotten, or its partition
# was, or the topic was made anew.
_ESTRANGED = frozenset({"producer_fenced", "producer_not_found", "sequence_out_of_order"})
_RENEWALS_MAX = 2


class _Placed(msgspec.Struct, frozen=True):
    partition: int
    base_offset: int
    count: int


class _Published(msgspec.Struct, frozen=True):
    results: list[_Placed]
    timestamp: str


class Placed(msgspec.Struct, frozen=True):
    """The offset of the first message, and the time of all."""

    first: int
    timestamp: int


_PUBLISHED = msgspec.json.Decoder(_Published)


class BatchSender:
    """Posts the parcels of one lane, one at a time."""

    def __init__(
        self,
        transport: Transport,
        topic: str,
        partition: int,
        *,
        registry: Registry | None,
        is_repeatable: bool,
    ) -> None:
        self._transport = transport
        self._target = target("topics", topic, "records", partition=partition)
        self._sequence = None if registry is None else PartitionSequence(registry)
        self._is_repeatable = is_repeatable or registry is not None

    @property
    def following(self) -> int:
        return 0 if self._sequence is None else self._sequence.following

    @property
    def is_lost(self) -> bool:
        return self._sequence is not None and self._sequence.is_lost

    async def post(self, parcel: ProducerBatch) -> Placed:
        """Where the parcel went; raises if it went nowhere, or nobody can say."""
        renewals = 0
        while True:
            body = records.build(parcel.remaining)
            count = len(parcel.remaining)
            try:
                return await self._post_numbered(body, count)
            except GoQueueError as error:
                if error.is_outcome_unknown:
                    raise
                index = _culprit(error, body)
                if index is not None and count > 1:
                    parcel.refuse(index, _reworded(error, parcel, index))
                elif index is not None:
                    raise _reworded(error, parcel, 0) from error
                elif error.code in _ESTRANGED and self._can_renew and renewals < _RENEWALS_MAX:
                    renewals += 1
                    await self._renew()
                else:
                    raise

    @property
    def _can_renew(self) -> bool:
        return self._sequence is not None and self._sequence.is_renewable

    async def _renew(self) -> None:
        assert self._sequence is not None, "without numbers there is nothing to renew"
        await self._sequence.renew()

    async def _post_numbered(self, body: bytearray, count: int) -> Placed:
        sequence = self._sequence
        if sequence is None:
            return await self._post(self._target, body, count)
        stamp = await sequence.stamp(count)
        try:
            placed = await self._post(self._target + stamp, body, count)
        except GoQueueError as error:
            # Who cannot become another producer goes on only when somebody gives it a new epoch.
            is_stuck = error.code in _ESTRANGED and not sequence.is_renewable
            if error.is_outcome_unknown or is_stuck:
                sequence.lose()
            raise
        sequence.advance(count)
        return placed

    async def _post(self, whither: str, body: bytearray, count: int) -> Placed:
        request = Request(
            method="POST",
            target=whither,
            body=body,
            content_type=RECORDS,
            is_repeatable=self._is_repeatable,
        )
        published = await self._transport.read(request, _PUBLISHED)
        placed = published.results
        if len(placed) != 1 or placed[0].count != count:
            words = "the broker took another number of messages"
            raise GoQueueError("response_invalid", words, is_outcome_unknown=True)
        return Placed(placed[0].base_offset, nanoseconds(published.timestamp))


def _culprit(error: GoQueueError, body: bytearray) -> int | None:
    """Which of the records the broker will not have, if that is all that it says."""
    position = error.details.get("position")
    if error.code != "request_invalid" or not isinstance(position, int):
        return None
    positions = records.walk(body).positions
    return max(bisect_right(positions, position) - 1, 0)


def _reworded(error: GoQueueError, parcel: ProducerBatch, index: int) -> GoQueueError:
    """The refusal of one message. All that can be wrong with a delay made here is its length."""
    headers = parcel.remaining[index].headers
    if any(name == DELIVER_HEADER for name, _ in headers):
        return refusal("delay_too_long", error.sentence, status=error.status)
    return error
