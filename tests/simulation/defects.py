"""Which test finds each defect that a review of the single node named, if it comes back.

A planted fault is found by the simulator; a test is named by its file and its function. Timings
are no tests: `bench/stalls` prints them.
"""

import msgspec

__all__ = ["DEFECTS", "Defect"]


class Defect(msgspec.Struct, frozen=True):
    """One promise that was broken, and who notices: a planted fault, or `file::test`."""

    what: str
    found_by: str


_BROKER = "tests/unit/broker"
_HTTP = "tests/unit/gateways/http"

DEFECTS: tuple[Defect, ...] = (
    # Acknowledged data
    Defect("a torn numbered batch", "keeps_half_of_a_torn_batch"),
    Defect(
        "the same tear in a transaction",
        f"{_BROKER}/transactions/test_torn_batches.py"
        "::test_the_abort_of_a_torn_batch_hides_nothing_of_others",
    ),
    Defect(
        "nacks brick a node",
        f"{_BROKER}/groups/test_large_offsets.py::test_nacks_with_long_reasons_stop_no_upkeep",
    ),
    Defect(
        "messages that cannot die",
        f"{_BROKER}/groups/test_dead_letter_sizes.py"
        "::test_the_largest_headers_that_are_accepted_survive_every_death",
    ),
    Defect(
        "restarts give the journal reserve away",
        "tests/unit/storage/test_reserve.py"
        "::test_restarts_on_a_full_disk_give_nothing_of_the_reserve_away",
    ),
    Defect(
        "producer ids lock others out",
        "tests/unit/transactions/test_transactions.py"
        "::test_the_producer_that_was_silent_longest_gives_way_at_once",
    ),
    Defect("a clock forgets producers", "forgets_producers_when_the_clock_is_put"),
    Defect(
        "a cut of good records",
        "tests/unit/storage/test_recovery.py"
        "::test_a_tail_with_a_good_record_behind_a_bad_one_is_kept",
    ),
    Defect(
        "sessions end because the node stalled",
        f"{_BROKER}/test_late_wakes.py::test_a_session_does_not_end_because_the_node_was_stopped",
    ),
    Defect(
        "compaction loses letters",
        f"{_BROKER}/test_topics.py::test_a_topic_that_takes_dead_letters_cannot_be_compacted",
    ),
    Defect(
        "groups never expire",
        f"{_BROKER}/groups/test_group_retention.py"
        "::test_a_group_is_forgotten_a_week_after_its_last_commit",
    ),
    # Work that is lost or done twice
    Defect(
        "healthy slow jobs die",
        "tests/integration/test_client_leases.py::test_slow_jobs_of_one_worker_are_each_done_once",
    ),
    Defect("a release counts as a delivery", "counts_a_release_as_a_delivery"),
    Defect(
        "an ack of a dead letter is acknowledged",
        f"{_BROKER}/groups/test_dead_letter_acks.py"
        "::test_an_ack_of_a_message_that_became_a_dead_letter_is_stale",
    ),
    Defect(
        "keys of zero bytes",
        "tests/unit/client/test_values.py"
        "::test_a_key_that_is_no_text_is_refused_and_never_made_of_zero_bytes",
    ),
    Defect(
        "unknown fields are ignored",
        f"{_HTTP}/test_unknown_names.py::test_every_body_and_what_is_in_it_refuses_unknown_fields",
    ),
    Defect(
        "an absent value is a tombstone",
        f"{_HTTP}/test_unknown_names.py::test_a_value_under_another_name_is_no_tombstone",
    ),
    Defect(
        "produce drops fields of lines",
        "tests/integration/test_cli_messages.py::test_a_line_is_a_value_whatever_is_in_it",
    ),
    Defect(
        "no lag where a group never committed",
        f"{_BROKER}/groups/test_lag.py"
        "::test_lag_counts_partitions_in_which_a_group_never_committed_also_without_members",
    ),
    Defect(
        "a full disk is not seen",
        f"{_HTTP}/test_publishing.py"
        "::test_a_request_of_which_nothing_was_stored_has_the_status_of_its_first_error",
    ),
    Defect(
        "one damaged record silences others",
        "tests/integration/test_damaged_records.py"
        "::test_every_reader_gets_all_but_the_damaged_record",
    ),
    Defect(
        "retries end too early",
        "tests/unit/client/test_retries.py"
        "::test_a_server_that_is_away_is_asked_until_the_time_is_over",
    ),
    # Turns without a bound
    Defect("alarms", "does_all_that_is_due_in_one_turn"),
    Defect("last deliveries that run out together", "ends_all_leases_in_one_turn"),
    Defect("redrives", "moves_all_letters_in_one_turn"),
    Defect("a journal that finds room again", "writes_a_journal_again_in_one_turn"),
    Defect(
        "ends of transactions with many acks",
        f"{_BROKER}/transactions/test_bounded_ends.py"
        "::test_the_end_of_a_transaction_with_thousands_of_acks_is_bounded_and_linear",
    ),
    Defect(
        "a publish visits all polls",
        f"{_BROKER}/groups/test_waiting_polls.py"
        "::test_a_commit_visits_one_partition_of_one_poll_however_many_wait",
    ),
    Defect(
        "snapshots of positions",
        f"{_BROKER}/groups/test_large_offsets.py::test_a_large_position_is_stated_in_many_turns",
    ),
    Defect(
        "reads wait for syncs",
        "tests/unit/storage/test_open_log.py::test_a_read_does_not_wait_for_the_disk",
    ),
    Defect(
        "a group returns to a floor",
        f"{_BROKER}/test_work_by_log.py"
        "::test_a_queue_that_begins_at_a_floor_skips_what_is_settled_above_it",
    ),
    Defect(
        "the first poll of delayed records",
        f"{_BROKER}/test_work_by_log.py"
        "::test_a_queue_that_begins_takes_in_delayed_records_by_blocks",
    ),
    Defect(
        "old keys of group commits",
        "tests/unit/transactions/test_transactions.py"
        "::test_old_keys_of_group_commits_go_a_few_at_a_time_the_oldest_first",
    ),
    Defect(
        "joins of many members",
        f"{_BROKER}/groups/test_waiting_polls.py"
        "::test_a_rebalance_looks_at_partitions_that_all_members_share_once",
    ),
    Defect(
        "each marker asks every group",
        f"{_BROKER}/test_work_by_log.py::test_what_is_hidden_in_a_log_visits_only_the_queues_on_it",
    ),
    Defect(
        "a page deep in delayed messages",
        f"{_BROKER}/delayed/test_delay_pages.py::test_a_page_deep_in_very_many_is_found_in_small_steps",
    ),
    Defect(
        "compaction begins anew",
        "tests/unit/storage/test_compaction.py::test_a_restart_does_not_rewrite_what_is_clean",
    ),
)
