"""The bench runs and prints what others may parse. What it measures is not judged here.

`make test` runs a measure or two of each bench, `make test-exhaustive` all of them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.figure import Figure, Rounds, Target
from bench.goqueue_node import RawRoad
from bench.peers.redis_streams import command, entries_end, settle
from goqueue import records
from goqueue.model import Message
from goqueue.records import build, stamp

ROOT = Path(__file__).resolve().parents[2]
FIGURES = {
    "disk": {"disk_write", "disk_cached_read", "disk_sync"},
    "append": {
        f"append_{size}{what}" for size in ("100B", "1KiB") for what in ("", "_verified", "_built")
    },
    "read": {
        f"read_{size}_{what}"
        for size in ("100B", "1KiB")
        for what in ("written", "reopened_first", "reopened_again")
    },
    "scan": {f"scan_{size}{what}" for size in ("100B", "1KiB") for what in ("", "_with_read")},
    "reopen": {"reopen_clean", "reopen_clean_cold", "reopen_killed", "reopen_killed_cold"},
    "memory": {"memory_growth"},
}
QUICK = {"append"}
TWINS = FIGURES["append"] | FIGURES["read"] | FIGURES["scan"]


PEERS = {
    "publish_raw",
    "read_columns",
    "read_sdk",
    "queue_json",
    "queue_sdk",
    "publish_queue_json",
    "publish_queue_sdk",
    "one_a_request_json",
    "latency_answer_at_1000_per_s_json",
    "latency_answer_at_5000_per_s_json",
    "latency_consumed_at_1000_per_s_json",
    "latency_consumed_at_5000_per_s_json",
    "sdk_send",
    "sdk_send_and_flush",
    "sdk_awaited_ack_cpu",
    "priorities_json_five",
    "priorities_json_one",
}


def run_bench(only: str, folder: Path, bench: str = "log") -> list[Figure]:
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "bench" / bench / "run.py")),
            *("--tiny", "--only", only, "--dir", str(folder)),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [msgspec.json.decode(line, type=Figure) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "only",
    [
        pytest.param(only, marks=() if only in QUICK else pytest.mark.long)
        for only in sorted(FIGURES)
    ],
)
def test_each_figure_is_one_json_line_and_no_file_is_left(only: str, tmp_path: Path) -> None:
    figures = run_bench(only, tmp_path)

    assert [figure.figure for figure in figures].count(figures[0].figure) == 1
    assert {figure.figure for figure in figures} == FIGURES[only]
    assert all(figure.value >= 0 for figure in figures if figure.figure != "memory_growth")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("access_log", {"request_cpu", "request_cpu_with_access_log"}),
        pytest.param(
            "sizing",
            {
                "idle_memory",
                "idle_descriptors",
                "memory_per_connection",
                "descriptors_per_connection",
                "memory_per_partition",
                "descriptors_of_partitions",
            },
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_a_node_takes_of_a_machine_is_measured(
    only: str, expected: set[str], tmp_path: Path
) -> None:
    assert {figure.figure for figure in run_bench(only, tmp_path, "operations")} == expected


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        pytest.param("publish", "publish_stream", marks=pytest.mark.long),
        ("subscribe", "subscribe_with_batch_acks"),
        pytest.param("unary", "unary_publish_p99_at_1000", marks=pytest.mark.long),
        pytest.param("idle", "idle_subscriptions", marks=pytest.mark.long),
    ],
)
def test_the_bench_of_grpc_prints_its_figures(only: str, expected: str, tmp_path: Path) -> None:
    assert [figure.figure for figure in run_bench(only, tmp_path, "grpc")] == [expected]
    assert list(tmp_path.iterdir()) == []


def test_the_bench_of_schemas_prints_its_figures(tmp_path: Path) -> None:
    expected = [
        f"{figure}_{language}"
        for language in ("avro", "json", "protobuf")
        for figure in ("check_cold", "check_warm", "loop_wait", "loop_wait_large")
    ]
    assert [each.figure for each in run_bench("compatibility", tmp_path, "schemas")] == expected
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_interpreted_figures_stand_beside_and_are_not_judged(tmp_path: Path) -> None:
    if not records.COMPILED:
        pytest.skip("this process has no compiled mode to stand beside")
    figures = run_bench("interpreted", tmp_path)

    assert {figure.figure for figure in figures} == TWINS
    assert {figure.mode for figure in figures} == {"interpreted"}
    assert {figure.is_reached for figure in figures} == {None}


def test_the_runner_lists_every_bench_with_its_measures() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "bench.runner"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for suite in ROOT.glob("bench/*/suite.py"):
        assert f"{suite.parent.name}: Measure " in listed
    assert "in_process, publish, single, latency, consume, sdk" in listed


def test_a_bench_without_a_broker_refuses_the_brokers_of_another_tree() -> None:
    refused = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "log" / "run.py"), "--source", str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "starts no broker" in refused.stderr


def test_a_target_is_reached_only_if_all_its_bounds_hold() -> None:
    target = Target(at_least=100, ratio_at_least=0.5)

    assert target.is_reached(100, 0.5)
    assert not target.is_reached(99, 0.5)
    assert not target.is_reached(100, 0.49)
    assert not target.is_reached(100, None)
    assert not Target(below=3).is_reached(3, None)


def test_the_ratio_is_the_median_over_rounds_of_our_rate_to_the_raw_one() -> None:
    rounds = Rounds()
    for ours_s, raw_s in ((2.0, 1.0), (1.0, 1.0), (100.0, 1.0)):
        rounds.add(ours_s, raw_s)

    assert rounds.ratio == 0.5


@pytest.mark.parametrize(
    ("only", "figures"),
    [
        ("in_process", {"publish_in_process"}),
        pytest.param(
            "publish", {"publish_json_batches", "publish_raw_batches"}, marks=pytest.mark.long
        ),
        pytest.param(
            "consume",
            {"stream_json", "read_raw_into_columns", "queue_lease_and_ack"},
            marks=pytest.mark.long,
        ),
        ("sdk", {"sdk_send", "sdk_consume", "sdk_lease", "sdk_ack_awaited"}),
        pytest.param(
            "scale",
            {"crowded_idle_cpu", "crowded_rss", "crowded_publish"},
            marks=pytest.mark.long,
        ),
        pytest.param(
            "age",
            {"age_publish", "age_one_a_request", "age_lease_and_ack"},
            marks=pytest.mark.long,
        ),
        pytest.param(
            "worker",
            {"worker_empty", "worker_cpu_per_message", "worker_transactions"},
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_broker_bench_prints_its_figures_and_leaves_no_file(
    only: str, figures: set[str], tmp_path: Path
) -> None:
    printed = run_bench(only, tmp_path, "broker")
    assert {figure.figure for figure in printed} == figures
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("only", "figures"),
    [
        ("memory", {"wheel_rss_per_timer"}),
        (
            "pending",
            {
                "delayed_publish_json",
                "delayed_publish_raw",
                "pending_rss_per_message",
                "pending_idle_cpu",
            },
        ),
        ("accuracy", {"delivery_lateness_p99"}),
        ("restart", {"ready_after_kill", "ready_after_stop", "ready_after_stop_and_kill"}),
        ("schedules", {"schedules_ready_after_kill", "schedules_ready_after_stop"}),
        ("lanes", {"lanes_queue_http", "lanes_queue_in_process"}),
        (
            "backlog",
            {
                "backlog_publish",
                "first_critical_of_a_new_group",
                "first_critical_of_a_running_group",
                "backlog_dequeue",
                "backlog_dequeue_at_its_end",
                "backlog_rss",
            },
        ),
    ],
)
def test_the_delivery_bench_prints_its_figures_and_leaves_no_file(
    only: str, figures: set[str], tmp_path: Path
) -> None:
    printed = run_bench(only, tmp_path, "delivery")
    assert {figure.figure for figure in printed} == figures
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("only", "figures"),
    [
        ("idempotence", {"idempotent_publish_http", "idempotent_publish_in_process"}),
        (
            "commits",
            {
                "transactions_numbered",
                "transactions_numbered_commit_p99",
                "transactions_spread",
                "transactions_spread_commit_p99",
            },
        ),
        ("isolation", {"read_committed_raw", "read_committed_json"}),
        (
            "restart",
            {
                "ready_after_kill",
                "ready_after_stop",
                "ready_after_stop_and_kill",
                "ready_without_snapshots",
            },
        ),
    ],
)
def test_the_transactions_bench_prints_its_figures_and_leaves_no_file(
    only: str, figures: set[str], tmp_path: Path
) -> None:
    printed = run_bench(only, tmp_path, "transactions")
    assert {figure.figure for figure in printed} == figures
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("only", "figures"),
    [
        ("queue", {"queue_three_copies", "ack_three_copies"}),
        ("coordinator", {"group_coordinator_failover", "transaction_coordinator_failover"}),
        ("transactions", {"transactions_three_copies", "commit_three_copies"}),
    ],
)
def test_the_cluster_bench_prints_figures_of_the_coordinator_and_leaves_no_file(
    only: str, figures: set[str], tmp_path: Path
) -> None:
    printed = run_bench(only, tmp_path, "cluster")
    assert {figure.figure for figure in printed} == figures
    assert list(tmp_path.iterdir()) == []


def test_the_bench_of_metrics_prints_its_figures_and_leaves_no_file(tmp_path: Path) -> None:
    printed = run_bench("metrics", tmp_path, "observability")

    assert {figure.figure for figure in printed} == {
        "metrics_scrape",
        "metrics_stall",
        "publish_while_scraped",
    }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_the_bench_of_tracing_prints_its_figures_and_leaves_no_file(tmp_path: Path) -> None:
    printed = run_bench("tracing", tmp_path, "observability")
    printed += run_bench("memory", tmp_path, "observability")

    assert {figure.figure for figure in printed} == {
        "span_store_growth",
        "tracing_all",
        "tracing_hundredth",
    }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("redrive", marks=pytest.mark.long),
        pytest.param("abort", marks=pytest.mark.long),
        "traces",
    ],
)
def test_the_bench_of_stalls_prints_its_figures_and_leaves_no_file(
    row: str, tmp_path: Path
) -> None:
    printed = run_bench(row, tmp_path, "stalls")

    assert {figure.figure for figure in printed} == {f"livez_during_{row}"}
    assert all(figure.details["p99_ms"] for figure in printed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("measure", [pytest.param("queue", marks=pytest.mark.long), "latency"])
def test_the_bench_of_peers_stands_beside_every_peer_that_is_installed(
    measure: str, tmp_path: Path
) -> None:
    printed = {figure.figure: figure for figure in run_bench(measure, tmp_path, "peers")}

    redis = [name for name in printed if name.endswith("_redis")]
    assert bool(redis) == (shutil.which("redis-server") is not None)
    for name, figure in printed.items():
        assert (figure.raw is not None) == (bool(redis) and name not in redis)
        assert figure.details["cpu_s_per_million"] is not None
    assert list(tmp_path.iterdir()) == []


def test_the_raw_road_acknowledges_every_message_of_every_share() -> None:
    records = build([Message(value=b"x")] * 3)
    stamp(records, 4, 1)
    heads = [
        {"leases": [{"handle": "a:0:1:k", "offsets": [[0, 2], [5, 6]], "delivery_count": 1}]},
        {
            "leases": [
                {"handle": "a:1:1:l", "offsets": [[7, 9]]},
                {"handle": "a:1:2:m", "offsets": [[3, 4]]},
            ]
        },
        {"leases": [{"handle": "a:2:1:n", "count": 1}, {"handle": "a:2:2:o", "count": 2}]},
    ]
    shares = b"".join(
        len(head).to_bytes(4) + len(records).to_bytes(4) + head + records
        for head in (msgspec.json.encode(each) for each in heads)
    )
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(shares), shares)

    count, ack = RawRoad("workers", "m", "1s").settle(answer)

    assert count == 9
    assert ack.startswith(b"POST /groups/workers/leases/ack HTTP/1.1\r\n")
    assert msgspec.json.decode(ack.partition(b"\r\n\r\n")[2]) == {
        "leases": [
            {"handle": "a:0:1:k", "steps": [0, 1, 4]},
            {"handle": "a:1:1:l", "offsets": [[7, 9]]},
            {"handle": "a:1:2:m", "offsets": [[3, 4]]},
            {"handle": "a:2:1:n", "offsets": [[4, 5]]},
            {"handle": "a:2:2:o", "offsets": [[5, 7]]},
        ]
    }


def test_the_client_of_redis_acknowledges_every_entry_of_a_whole_reply() -> None:
    entries = b"".join(
        b"*2\r\n$%d\r\n%b\r\n*2\r\n$1\r\nv\r\n$3\r\nabc\r\n" % (len(each), each)
        for each in (b"17-0", b"17-10")
    )
    reply = b"*1\r\n*2\r\n$1\r\ns\r\n*2\r\n" + entries

    assert entries_end(bytearray(reply[:-1])) == 0
    assert entries_end(bytearray(reply)) == len(reply)
    assert settle("s", reply) == (2, command(b"XACK", b"s", b"g", b"17-0", b"17-10"))
    assert settle("s", b"*-1\r\n")[0] == 0


@pytest.mark.long
def test_the_bench_of_peers_prints_our_figures_where_there_is_no_peer(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench/peers/run.py"), "--tiny", "--dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    figures = [msgspec.json.decode(line, type=Figure) for line in done.stdout.splitlines()]

    assert {each.figure for each in figures if "_raw" not in each.figure} == PEERS - {"publish_raw"}
    assert done.stderr.count("peers: redis is skipped: there is no redis-server on the PATH") == 1
    assert all(figure.raw is None or "priorities" in figure.figure for figure in figures)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_the_bench_of_groups_prints_its_figures(tmp_path: Path) -> None:
    printed = run_bench("small", tmp_path, "groups")
    assert [figure.figure for figure in printed] == [
        "rebalance_small_p99",
        "rebalance_small_refused_polls",
        "rebalance_small_unmoved_worst",
    ]
    assert printed[1].value == 0


def test_the_bench_of_security_prints_its_figures(tmp_path: Path) -> None:
    printed = [
        figure for row in ("sdk", "reload") for figure in run_bench(row, tmp_path, "security")
    ]
    assert [figure.figure for figure in printed] == ["sdk_one_by_one", "reload_worst_wait"]
    assert printed[1].details["lost"] == 0


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("check", "check_key_rule_acl_quota"),
        pytest.param("timing", "timing_of_a_right_prefix", marks=pytest.mark.long),
        pytest.param("attempts", "failed_attempts_p99", marks=pytest.mark.long),
        pytest.param("neighbour", "neighbour_own_p99", marks=pytest.mark.long),
        pytest.param("quota", "quota_accuracy", marks=pytest.mark.long),
        ("usage", "usage_after_kill"),
        ("revoke", "revoked_key_refused"),
        pytest.param(
            "revoke_on_three", "revoked_key_refused_by_three_nodes", marks=pytest.mark.long
        ),
    ],
)
def test_the_bench_of_keys_and_tenants_prints_its_figures(
    only: str, expected: str, tmp_path: Path
) -> None:
    printed = run_bench(only, tmp_path, "security")
    assert printed[0].figure == expected
    if only.startswith("revoke"):
        assert printed[0].details["accepted_afterwards"] == 0
    if only == "usage":
        assert printed[0].details["ahead"] == 0
