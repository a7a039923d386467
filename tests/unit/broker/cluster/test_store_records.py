"""Records in an external store: what is read, what is believed, and how calls look on the wire."""

import msgspec
import pytest

from goqueue.broker.cluster.broker_state import (
    BrokerState,
    StoredBrokerState,
    StoreMark,
    misplaced_metadata,
)
from goqueue.broker.cluster.etcd_calls import (
    Compare,
    KeepLease,
    PutKey,
    RangeReply,
    Transaction,
    read_lease,
    read_range,
    read_transaction,
)
from goqueue.broker.cluster.store_reader import StoreReader
from goqueue.broker.cluster.store_records import (
    StoredHead,
    StoredRecord,
    StoreKeys,
    StoreUnusable,
)
from goqueue.broker.quorum_recovery import Survivor
from goqueue.cluster import FeatureLevelRaised, MetadataChange
from goqueue.model import Offset

KEYS = StoreKeys("/goqueue")
PART_BYTES = 160


def record(version: int, before: str = "", epoch: int = 3, levels: int = 1) -> tuple[bytes, str]:
    """A record as it is stored, and its digest; with many levels its changes are in parts."""
    changes = encoded(levels)
    stored = StoredRecord.of(version, epoch, before, changes, PART_BYTES if levels > 1 else 1 << 20)
    return msgspec.json.encode(stored), stored.digest


def encoded(levels: int) -> bytes:
    changes: list[MetadataChange] = [FeatureLevelRaised(level=each) for each in range(levels)]
    return msgspec.json.encode(changes)


def reply(*found: tuple[bytes, bytes]) -> RangeReply:
    values = [
        {"key": key, "value": value, "create_revision": "4", "mod_revision": "4"}
        for key, value in found
    ]
    return read_range(msgspec.json.encode({"header": {"revision": "9"}, "kvs": values}))


def test_records_are_read_in_order_and_continue_each_other() -> None:
    reader = StoreReader(KEYS, StoreMark())
    first, digest = record(1)
    second, last = record(2, digest)

    taken = reader.take(reply((KEYS.record(1), first), (KEYS.record(2), second)))

    assert [applied.version for _, applied in taken] == [1, 2]
    assert reader.end == StoreMark(version=2, digest=last)
    assert reader.next_call(StoredHead(cluster_id="c", version=2, digest=last)) is None


def test_a_record_that_does_not_continue_the_known_history_is_refused() -> None:
    reader = StoreReader(KEYS, StoreMark())
    reader.take(reply((KEYS.record(1), record(1)[0])))
    with pytest.raises(StoreUnusable, match="another history"):
        reader.take(reply((KEYS.record(2), record(2, "something else")[0])))


def test_a_record_that_an_earlier_run_saw_otherwise_is_refused() -> None:
    reader = StoreReader(KEYS, StoreMark(version=1, digest="what it saw"))
    with pytest.raises(StoreUnusable, match="another history"):
        reader.take(reply((KEYS.record(1), record(1)[0])))


def test_a_record_that_was_changed_is_refused() -> None:
    reader = StoreReader(KEYS, StoreMark())
    spoiled = record(1)[0].replace(b'"level":0', b'"level":7')
    with pytest.raises(StoreUnusable, match="damaged"):
        reader.take(reply((KEYS.record(1), spoiled)))


def test_a_record_behind_a_gap_is_not_taken() -> None:
    reader = StoreReader(KEYS, StoreMark())
    assert not reader.take(reply((KEYS.record(3), record(3)[0])))
    assert reader.must_begin_anew(StoredHead(cluster_id="c", version=3, digest="", base=3))


def test_a_large_record_is_taken_when_all_its_parts_are_there() -> None:
    reader = StoreReader(KEYS, StoreMark())
    changes = encoded(12)
    stored = StoredRecord.of(1, 3, "", changes, PART_BYTES)
    parts = list(KEYS.pieces(stored, changes, PART_BYTES))
    assert len(parts) == stored.parts > 2

    assert not reader.take(reply((KEYS.record(1), msgspec.json.encode(stored))))
    assert reader.is_partial
    assert not reader.take(reply(*parts[:2]))
    ((_, applied),) = reader.take(reply(*parts[2:]))

    assert len(applied.changes) == 12


def test_a_record_of_which_a_part_is_missing_is_not_taken() -> None:
    reader = StoreReader(KEYS, StoreMark())
    changes = encoded(12)
    stored = StoredRecord.of(1, 3, "", changes, PART_BYTES)
    reader.take(reply((KEYS.record(1), msgspec.json.encode(stored))))
    reader.take(reply(next(KEYS.pieces(stored, changes, PART_BYTES))))

    assert not reader.take(reply())
    assert not reader.is_partial
    assert reader.end.version == 0


def test_a_key_that_holds_something_else_is_refused_with_its_name() -> None:
    reader = StoreReader(KEYS, StoreMark())
    with pytest.raises(StoreUnusable, match="/goqueue/log/00000000000000000001 in etcd holds"):
        reader.take(reply((KEYS.record(1), b"hello")))


def test_a_transaction_is_written_as_etcd_takes_it() -> None:
    written = Transaction.of(
        [Compare.created(b"k", 0), Compare.modified(b"h", 7)], [PutKey(key=b"k", value=b"v")]
    )
    assert msgspec.json.decode(msgspec.json.encode(written)) == {
        "compare": [
            {"key": "aw==", "target": "CREATE", "result": "EQUAL", "create_revision": 0},
            {"key": "aA==", "target": "MOD", "result": "EQUAL", "mod_revision": 7},
        ],
        "success": [{"request_put": {"key": "aw==", "value": "dg==", "lease": 0}}],
    }


def test_replies_leave_out_what_is_zero_and_write_numbers_as_text() -> None:
    refused = read_transaction(b'{"header":{"revision":"12"},"responses":[]}')
    assert (refused.succeeded, refused.revision) == (False, 12)
    assert read_range(b'{"header":{"revision":"1"}}').kvs == ()
    ended = read_lease(KeepLease(ID=1), b'{"result":{"header":{"revision":"1"},"ID":"1"}}')
    assert ended.TTL == 0


def test_a_data_directory_whose_metadata_lie_elsewhere_is_named() -> None:
    blank = BrokerState()
    of_quorum = BrokerState(cluster_id="c")
    of_etcd = BrokerState(cluster_id="c", observed=StoreMark(version=4, digest="d"))

    for is_external in (False, True):
        assert misplaced_metadata(blank, is_external=is_external) is None
    assert misplaced_metadata(of_quorum, is_external=False) is None
    assert misplaced_metadata(of_etcd, is_external=True) is None
    assert "set it to quorum" in str(misplaced_metadata(of_quorum, is_external=True))
    assert "set it to etcd" in str(misplaced_metadata(of_etcd, is_external=False))


def test_a_cluster_that_keeps_its_metadata_in_etcd_is_not_recovered_from_a_log_it_has_not() -> None:
    stored = StoredBrokerState()
    stored.state = BrokerState(cluster_id="c", observed=StoreMark(version=4, digest="d"))

    assert "in etcd: restore that" in str(Survivor("1", stored, (), Offset(0)).obstacle())
