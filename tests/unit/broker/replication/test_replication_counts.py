"""What a broker counts of replication, by topic."""

from goqueue.broker.replication.replication_counts import ElectionType, ReplicationCounts


def test_an_isr_that_keeps_its_size_is_no_change() -> None:
    counts = ReplicationCounts()
    counts.change_isr("orders", 3, 2)
    counts.change_isr("orders", 2, 2)
    counts.change_isr("orders", 2, 3)
    assert counts.isr_shrinks["orders"] == 1
    assert counts.isr_expands["orders"] == 1


def test_only_unclean_elections_are_counted_as_such() -> None:
    counts = ReplicationCounts()
    counts.elections["orders", ElectionType.FAILOVER] += 2
    counts.elections["orders", ElectionType.UNCLEAN] += 1
    assert counts.unclean_elections == 1


def test_the_counts_of_a_deleted_topic_go_with_it() -> None:
    counts = ReplicationCounts()
    counts.change_isr("orders", 3, 2)
    counts.elections["orders", ElectionType.FAILOVER] += 1
    counts.bytes_copied["orders"] += 10
    counts.bytes_copied["other"] += 10
    counts.forget("orders")
    assert not counts.isr_shrinks
    assert not counts.elections
    assert dict(counts.bytes_copied) == {"other": 10}
