"""Faults planted into the metadata in an external store, one at a time."""

from collections import deque
from typing import Any

import msgspec
import pytest

from goqueue.broker.cluster.broker_state import StoreMark
from goqueue.broker.cluster.etcd_calls import Transaction
from tests.simulation.planted_patches import Plant, attribute, does_nothing

__all__ = ["PLANTED_IN_STORES"]

_EXTERNAL = "goqueue.broker.cluster.external_metadata.ExternalMetadata"
_PROPOSAL = "goqueue.broker.cluster.store_proposal.StoreProposal"
_READER = "goqueue.broker.cluster.store_reader.StoreReader"
_RECORD = "goqueue.broker.cluster.store_records.StoredRecord"


def trusts_its_lease_as_a_lock(patch: pytest.MonkeyPatch) -> None:
    end = attribute(f"{_PROPOSAL}._end")

    def unguarded(proposal: Any, *rest: Any) -> Transaction:
        transaction: Transaction = end(proposal, *rest)
        return msgspec.structs.replace(transaction, compare=())

    patch.setattr(f"{_PROPOSAL}._end", unguarded)


def compares_the_head_alone(patch: pytest.MonkeyPatch) -> None:
    """What a deposed controller proposed arrives after another broker was elected."""
    end = attribute(f"{_PROPOSAL}._end")

    def half_guarded(proposal: Any, *rest: Any) -> Transaction:
        transaction: Transaction = end(proposal, *rest)
        heads = tuple(each for each in transaction.compare if each.target == "MOD")
        return msgspec.structs.replace(transaction, compare=heads)

    patch.setattr(f"{_PROPOSAL}._end", half_guarded)


def ignores_that_records_are_gone(patch: pytest.MonkeyPatch) -> None:
    def whole(reader: Any, reply: Any) -> Any:
        for found in reply.kvs:
            record = msgspec.json.decode(found.value, type=attribute(_RECORD))
            if not record.is_whole:
                reader._partial = (record, [])
                return
            reader._end = StoreMark()
            yield reader._next(record)

    patch.setattr(f"{_READER}.must_begin_anew", lambda *_: False)
    patch.setattr(f"{_READER}._whole_records", whole)


def counts_a_record_before_its_parts(patch: pytest.MonkeyPatch) -> None:
    prepare = attribute(f"{_PROPOSAL}.prepare")

    def reversed_order(proposal: Any, *rest: Any) -> None:
        prepare(proposal, *rest)
        proposal._calls = deque(reversed(proposal._calls))

    patch.setattr(f"{_PROPOSAL}.prepare", reversed_order)


def repeats_a_proposal_at_another_version(patch: pytest.MonkeyPatch) -> None:
    """When there was no reply it looks again, and proposes the same behind what it finds."""
    propose = attribute(f"{_EXTERNAL}.propose")
    handle = attribute(f"{_EXTERNAL}.handle_store")
    caught_up = attribute(f"{_EXTERNAL}._caught_up")

    def remembering(metadata: Any, changes: Any, answers: Any, now: Any) -> Any:
        version = propose(metadata, changes, answers, now)
        metadata._proposal.repeated = (changes, answers)
        return version

    def hasty(metadata: Any, event: Any, now: Any) -> None:
        asked = metadata._asked.get(getattr(event, "number", None))
        is_append = asked is not None and type(asked[0]).__name__ == "_Append"
        proposal = metadata._proposal
        if event.body is None and is_append and hasattr(proposal, "repeated"):
            metadata._again = proposal.repeated
            metadata._proposal = None
        handle(metadata, event, now)

    def again(metadata: Any, now: Any) -> None:
        caught_up(metadata, now)
        repeated = getattr(metadata, "_again", None)
        if repeated is not None and metadata.may_propose:
            metadata._again = None
            metadata.propose(*repeated, now)

    patch.setattr(f"{_EXTERNAL}.propose", remembering)
    patch.setattr(f"{_EXTERNAL}.handle_store", hasty)
    patch.setattr(f"{_EXTERNAL}._caught_up", again)


def confirms_what_nobody_answered(patch: pytest.MonkeyPatch) -> None:
    handle = attribute(f"{_EXTERNAL}.handle_store")

    def hopeful(metadata: Any, event: Any, now: Any) -> None:
        asked = metadata._asked.get(getattr(event, "number", None))
        proposal = metadata._proposal
        is_append = asked is not None and type(asked[0]).__name__ == "_Append"
        if event.body is None and is_append and proposal is not None:
            metadata._end_proposal(proposal, None)
            proposal.answers = ()
        handle(metadata, event, now)

    patch.setattr(f"{_EXTERNAL}.handle_store", hopeful)


def believes_a_restored_backup(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_EXTERNAL}._check_head", does_nothing)


def remembers_no_version_over_a_restart(patch: pytest.MonkeyPatch) -> None:
    apply = attribute(f"{_EXTERNAL}._apply")
    note = attribute(f"{_EXTERNAL}._note")

    def forgetful(metadata: Any) -> None:
        metadata._durable = metadata._reader.end
        apply(metadata)

    def once(metadata: Any, now: Any) -> None:
        if metadata._noted.version:
            metadata._noted = metadata._reader.end
            metadata._apply()
        else:
            note(metadata, now)

    patch.setattr(f"{_EXTERNAL}._apply", forgetful)
    patch.setattr(f"{_EXTERNAL}._note", once)
    patch.setattr(f"{_EXTERNAL}.hear_version", does_nothing)


PLANTED_IN_STORES: tuple[Plant, ...] = (
    trusts_its_lease_as_a_lock,
    compares_the_head_alone,
    ignores_that_records_are_gone,
    counts_a_record_before_its_parts,
    repeats_a_proposal_at_another_version,
    confirms_what_nobody_answered,
    believes_a_restored_backup,
    remembers_no_version_over_a_restart,
)
