"""Limits so tight that short runs meet them: blocks, rounds and snapshots of a few messages."""

import pytest

from goqueue.model import SECOND

__all__ = ["tighten"]

_LIMITS = {
    "goqueue.delivery.priority_index.BLOCK": 4,
    "goqueue.delivery.queue._READY_MAX": 7,
    "goqueue.delivery.queue._READY_MIN": 3,
    "goqueue.broker.groups.priority_indexer._INDEX_BYTES": 300,
    "goqueue.delivery.delays.REACH_NS": 2 * SECOND,
    "goqueue.delivery.far_delays._BLOCK_BITS": 2,
    "goqueue.delivery.delays._BLOCKS_AT_ONCE": 1,
    "goqueue.broker.delayed.delays._FIRE_MAX": 3,
    "goqueue.broker.delayed.delays._FIRE_BYTES": 300,
    "goqueue.broker.delayed.delays._SAVE_CHANGES_MIN": 4,
    "goqueue.broker.delayed.delays._ENCODED_MAX": 3,
    "goqueue.broker.transactions.producer_snapshots._CHANGES_MAX": 4,
    "goqueue.broker.transactions.producer_snapshots._RECORDS_MAX": 20,
    "goqueue.broker.transactions.producer_snapshots._ENCODED_MAX": 1,
    "goqueue.broker.recovery.partition_replay._REPLAY_BYTES": 300,
}


def tighten(patch: pytest.MonkeyPatch) -> None:
    """Make everything small that is large for speed alone."""
    for name, limit in _LIMITS.items():
        patch.setattr(name, limit)
