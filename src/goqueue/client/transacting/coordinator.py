"""What the broker is asked about producers and their transactions, one call per route.

Never decides anything. All calls but `begin` may be repeated: they answer the same again. But a
call names its producer and epoch, and not the transaction: one that arrives late, after another
attempt was answered, would be taken for a call of the next transaction. So whoever holds the epoch
is told of every attempt of a step whose outcome is unknown.
"""

from collections.abc import Callable, Sequence

import msgspec

from goqueue.client.consuming import Progress
from goqueue.client.producing import Identity
from goqueue.client.transport import Request, Transport, post
from goqueue.model.requests import Owner

__all__ = ["Coordinator", "commit_group"]


class _Begun(msgspec.Struct, frozen=True):
    transaction_id: str


class _Status(msgspec.Struct, frozen=True):
    status: str


_GRANTED = msgspec.json.Decoder(Identity)
_BEGUN = msgspec.json.Decoder(_Begun)
_STATUS = msgspec.json.Decoder(_Status)


class Coordinator:
    """The broker's side of transactions."""

    def __init__(self, transport: Transport, on_doubt: Callable[[], None]) -> None:
        self._transport = transport
        self._on_doubt = on_doubt

    async def init(self, transactional_id: str, timeout_s: float) -> Owner:
        """Hold the transactional id from now on; who held it before is fenced."""
        fields: dict[str, object] = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": round(timeout_s * 1000),
        }
        # Twice is once more than needed: the epoch that is answered last is the one that counts.
        request = post("producers", "init", fields=fields, is_repeatable=True)
        granted = await self._transport.read(request, _GRANTED)
        return Owner(
            producer_id=granted.producer_id,
            epoch=granted.epoch,
            transactional_id=transactional_id,
        )

    async def beat(self, owner: Owner) -> None:
        """Say that the producer lives; raises if it is fenced."""
        fields: dict[str, object] = {"epoch": owner.epoch}
        await self._transport.ask(
            post("producers", owner.producer_id, "heartbeat", fields=fields, is_repeatable=True)
        )

    async def begin(self, owner: Owner) -> str:
        """Open a transaction. Not repeated: the second call would find it open."""
        request = _step("begin", owner, is_repeatable=False)
        return (await self._transport.read(request, _BEGUN, self._on_doubt)).transaction_id

    async def add_offsets(self, owner: Owner, progress: Progress) -> None:
        """Let the progress of a group take effect with the transaction."""
        by_topic: dict[str, dict[str, int]] = {}
        for log, offset in progress.offsets.items():
            by_topic.setdefault(log.topic, {})[str(log.partition)] = offset
        request = _step(
            "offsets",
            owner,
            group=progress.group,
            offsets=by_topic,
            member_id=progress.member_id,
            generation=progress.generation,
        )
        await self._transport.ask(request, self._on_doubt)

    async def add_acks(self, owner: Owner, group: str, receipt_handles: Sequence[str]) -> None:
        """Let acknowledgements take effect with the transaction; all or none."""
        request = _step("offsets", owner, group=group, receipt_handles=receipt_handles)
        await self._transport.ask(request, self._on_doubt)

    async def prepare(self, owner: Owner) -> str:
        """Take no more, and wait for the decision of a group."""
        request = _step("prepare", owner)
        return (await self._transport.read(request, _BEGUN, self._on_doubt)).transaction_id

    async def commit(self, owner: Owner) -> None:
        await self._transport.read(_step("commit", owner), _STATUS, self._on_doubt)

    async def abort(self, owner: Owner) -> None:
        await self._transport.read(_step("abort", owner), _STATUS, self._on_doubt)


async def commit_group(transport: Transport, key: str, transaction_ids: Sequence[str]) -> bool:
    """Whether this call committed them; if not, the key was committed before."""
    fields: dict[str, object] = {"key": key, "transaction_ids": transaction_ids}
    request = post("transactions", "commit-group", fields=fields, is_repeatable=True)
    return (await transport.read(request, _STATUS)).status == "committed"


def _step(step: str, owner: Owner, *, is_repeatable: bool = True, **fields: object) -> Request:
    given: dict[str, object] = {**msgspec.structs.asdict(owner), **fields}
    return post("transactions", step, fields=given, is_repeatable=is_repeatable)
