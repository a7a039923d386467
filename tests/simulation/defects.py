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
    Defect(
        "a clock that is put back forgets groups",
        f"{_BROKER}/groups/test_group_retention.py"
        "::test_a_clock_that_is_put_back_by_weeks_forgets_no_group_that_is_used",
    ),
    Defect(
        "a batch that is taken back in its middle",
        "tests/unit/log/test_batch_mark.py"
        "::test_a_batch_that_a_truncation_cuts_in_its_middle_is_no_repeat",
    ),
    Defect(
        "nacks without a limit",
        f"{_BROKER}/groups/test_large_offsets.py"
        "::test_only_so_many_messages_of_a_group_and_partition_rest",
    ),
    Defect(
        "reasons of every failure are kept",
        "tests/unit/delivery/test_position.py::test_only_the_reason_of_the_last_failure_is_kept",
    ),
    Defect(
        "a restart makes producers young",
        "tests/unit/transactions/test_transactions.py"
        "::test_a_restart_makes_no_producer_young_again",
    ),
    Defect(
        "verify is silent about good records behind a bad one",
        "tests/unit/cli/log/test_verify.py"
        "::test_good_records_behind_a_bad_one_above_the_recovery_point_are_a_problem",
    ),
    Defect(
        "nobody is told what was cut",
        "tests/unit/runtime/test_node_log.py"
        "::test_a_cut_with_good_records_is_a_warning_with_the_name_of_its_copy",
    ),
    Defect(
        "an acknowledged write is lost with the power",
        "tests/exhaustive/test_power_cuts.py::test_whatever_a_power_cut_leaves_keeps_every_promise",
    ),
    Defect(
        "a kill in a numbered batch",
        "tests/integration/test_killed_batches.py"
        "::test_a_torn_numbered_batch_is_written_once_by_its_retry",
    ),
    Defect(
        "a kill in a batch of a transaction",
        "tests/integration/test_killed_batches.py"
        "::test_a_torn_batch_in_a_transaction_hides_nothing_of_others",
    ),
    Defect(
        "copies of what was cut are in no statistics",
        "tests/unit/cli/log/test_stats.py::test_what_a_start_cut_off_and_kept_is_named",
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
    Defect(
        "a full disk or damage leaves a node ready",
        f"{_HTTP}/test_service.py"
        "::test_a_node_whose_disk_is_full_or_damaged_is_degraded_and_says_why",
    ),
    Defect(
        "a full disk is not in the log",
        "tests/unit/runtime/test_node_log.py"
        "::test_a_full_disk_is_told_when_it_begins_and_when_it_ends",
    ),
    Defect(
        "damage is in no metric",
        f"{_BROKER}/metrics/test_node_metrics.py"
        "::test_damage_is_told_by_topic_until_the_topic_is_deleted_and_over_a_restart",
    ),
    Defect(
        "a reader does not know where to go on",
        "tests/unit/storage/segment/test_holes.py::test_a_read_of_damage_says_where_to_go_on",
    ),
    Defect(
        "one damaged partition silences others",
        f"{_BROKER}/test_damage.py::test_damage_in_one_partition_does_not_silence_the_others",
    ),
    Defect(
        "a restart of a node ends publishing",
        "tests/integration/test_client_idempotence.py"
        "::test_publishing_and_consuming_survive_a_node_that_is_away_for_seconds",
    ),
    Defect(
        "closing counts deliveries",
        "tests/integration/test_client_leases.py"
        "::test_what_was_leased_ahead_and_not_begun_is_given_back_by_close_and_not_counted",
    ),
    Defect(
        "a stopped worker drops its jobs",
        "tests/integration/test_client_leases.py"
        "::test_a_worker_that_is_told_to_stop_finishes_its_job_and_gives_back_the_others",
    ),
    Defect(
        "a poll that was given up gets what is released",
        "tests/unit/broker/groups/test_leases.py"
        "::test_a_drained_member_has_no_waiting_poll_and_gets_nothing_more",
    ),
    Defect(
        "one name of the time of delivery",
        "tests/unit/gateways/http/test_unknown_names.py::test_both_names_of_the_time_are_read",
    ),
    Defect(
        "misspelt parameters are ignored",
        "tests/unit/gateways/http/test_unknown_names.py"
        "::test_a_misspelt_parameter_is_told_what_was_meant",
    ),
    Defect(
        "the command line shows no lag",
        "tests/integration/test_cli_topics.py"
        "::test_groups_are_shown_with_their_lag_also_where_they_never_committed",
    ),
    Defect(
        "one flipped byte refuses a segment",
        "tests/unit/storage/segment/test_holes.py"
        "::test_one_flipped_byte_refuses_one_record_wherever_it_is",
    ),
    Defect(
        "no alert for damage",
        "tests/integration/deploy/test_rules.py"
        "::test_every_alert_is_shown_to_fire_and_to_stay_quiet",
    ),
    # Turns without a bound
    Defect(
        "nobody counts the work of a turn",
        "tests/unit/sim/node/test_turns.py::test_a_node_without_a_budget_is_found",
    ),
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
        "snapshots of keys of group commits",
        f"{_BROKER}/groups/test_large_offsets.py"
        "::test_very_many_keys_of_group_commits_are_stated_in_many_turns",
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
        "an ack over a hidden offset",
        f"{_BROKER}/test_work_by_log.py"
        "::test_an_ack_over_a_hidden_offset_does_not_look_at_what_is_unsettled_behind_it",
    ),
    Defect(
        "headers without an end",
        f"{_HTTP}/test_publishing.py"
        "::test_a_message_of_very_many_headers_is_refused_before_one_of_them_is_decoded",
    ),
    Defect(
        "a scrape of many series",
        "tests/unit/runtime/test_metrics.py::test_a_scrape_lets_others_run_and_keeps_the_order",
    ),
    Defect(
        "a search over all traces",
        f"{_BROKER}/test_trace_queries.py"
        "::test_a_search_over_a_full_ring_takes_several_bounded_turns",
    ),
    Defect(
        "a decision compares all ACLs",
        "tests/unit/security/test_acls.py::test_a_principal_has_so_many_patterns_and_no_more",
    ),
    Defect(
        "compaction begins anew",
        "tests/unit/storage/test_compaction.py::test_a_restart_does_not_rewrite_what_is_clean",
    ),
    # Smaller things
    Defect(
        "offsets wait for transactions",
        "tests/integration/test_http_transactions.py"
        "::test_whoever_asks_for_offsets_waits_for_the_transaction_that_holds_them",
    ),
    Defect(
        "messages that a gateway refuses are not counted",
        f"{_BROKER}/metrics/test_counters.py"
        "::test_messages_that_a_gateway_did_not_take_count_as_failed",
    ),
    Defect(
        "a sequence needs a partition",
        f"{_BROKER}/transactions/test_idempotence.py"
        "::test_a_key_or_a_single_partition_tell_where_a_sequence_counts",
    ),
    Defect(
        "an offset of -1",
        f"{_HTTP}/test_parameters.py::test_an_offset_of_minus_one_asks_for_the_earliest",
    ),
    Defect(
        "the trace of an aborted message",
        f"{_BROKER}/test_trace_recorder.py"
        "::test_the_trace_of_a_message_of_an_aborted_transaction_ends_as_aborted",
    ),
    Defect(
        "transactions are not paged",
        f"{_BROKER}/transactions/test_descriptions.py"
        "::test_pages_follow_each_other_and_tell_how_many_there_are",
    ),
    Defect(
        "the topics of the broker",
        f"{_BROKER}/test_topics.py"
        "::test_a_topic_of_the_broker_is_described_as_it_is_read_and_left_out_of_lists",
    ),
    Defect(
        "the version without its commit",
        "tests/unit/runtime/test_build_note.py::test_the_note_of_a_build_is_read",
    ),
)
