"""The metrics of a node, scraped as Prometheus does: whatever is exported moves."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.http_api import Api
from tests.integration.metrics import acts
from tests.integration.metrics.scrapes import WAIT_S_MAX, Scrape, Scrapes
from tests.integration.server_process import ServerProcess, serving

PROGRAM = (str(Path(__file__).with_name("worse_machine.py")),)
SETTLED = ("acked", "nacked", "rejected", "expired", "redelivered")

Connect = Callable[[ServerProcess], Api]


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files tell a node what goes wrong."""
    folder = tmp_path / "faults"
    folder.mkdir()
    monkeypatch.setenv("FAULTS", str(folder))
    return folder


@pytest.fixture
def obeying(tmp_path: Path, faults: Path) -> Iterator[ServerProcess]:
    assert faults.exists()
    node = ServerProcess(tmp_path / "data", program=PROGRAM)
    node.start()
    yield node
    node.kill()
    assert "Traceback (most recent call last)" not in node.said, node.said


def act_out(scrapes: Scrapes, api: Api, other: Api, faults: Path) -> None:
    """All that may happen to a node, until all of it is seen."""
    acts.publish(api)
    acts.fill_logs(api)
    acts.consume(api)
    acts.delay(api)
    acts.schedule(api, scrapes)
    acts.request(api)
    acts.transact(api)
    acts.lose_a_member(api)
    acts.slow_down(other, faults, scrapes)
    acts.back_up(api, faults, scrapes)
    acts.break_a_log(api, faults)
    acts.fill_the_disk(api, faults, scrapes)
    (faults / "grown").touch()
    for how in SETTLED:
        name = f"goqueue_broker_messages_{how}_total"
        scrapes.wait_for_rise(name, topic="orders", consumer_group="workers")
    moved = "goqueue_broker_messages_moved_total"
    for cause in ("rejected", "max_deliveries"):
        scrapes.wait_for_rise(moved, topic="orders", cause=cause)
    scrapes.wait_for_rise("goqueue_broker_delayed_messages_fired_total", topic="reminders")
    scrapes.wait_for_rise("goqueue_consumer_session_timeouts_total", consumer_group="forgetful")
    scrapes.wait_for_rise("goqueue_storage_compaction_runs_total", topic="state")
    scrapes.wait_for_rise("goqueue_storage_log_start_offset", topic="recent")
    scrapes.wait_for_rise("goqueue_storage_snapshots_created_total", snapshot_type="authors")
    aborted = "goqueue_broker_transactions_aborted_total"
    scrapes.wait_for(lambda seen: seen.value(aborted) == 2, aborted)


def test_every_series_moves_and_no_counter_falls(
    obeying: ServerProcess, faults: Path, connect: Connect
) -> None:
    moved: set[str] = set()
    api, other = connect(obeying), connect(obeying)
    scrapes = Scrapes(api, moved)
    act_out(scrapes, api, other, faults)
    seen = scrapes.last
    judge(seen)

    # Another life, in which an index is missing.
    obeying.stop()
    api.close()
    for index in (obeying.directory / "logs" / "recent").rglob("*.index"):
        index.unlink()
    acts.harm_a_record(obeying.directory)
    (faults / "slow").touch()
    obeying.begin()
    again = scrape_early(api, moved, scrapes.first)
    (faults / "slow").unlink()
    obeying.wait_until_ready()
    api.read(
        "recent", 0, offset=int(seen.value("goqueue_storage_log_start_offset", topic="recent") or 0)
    )
    again.wait_for_rise("goqueue_storage_index_rebuilds_total", topic="recent")
    acts.meet_damage(api)
    again.wait_for_rise("goqueue_storage_damaged_ranges")
    judge_restart(seen, again.last)

    exported = seen.ours | again.last.ours
    assert exported - moved == set()


def scrape_early(api: Api, moved: set[str], first: Scrape) -> Scrapes:
    """As soon as the node listens, which is before it is ready."""
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        try:
            return Scrapes(api, moved, first)
        except OSError:
            assert time.monotonic() < deadline, "the node does not listen"


def judge(seen: Scrape) -> None:
    """Numbers that are known exactly."""
    orders = {"topic": "orders"}
    assert seen.value("goqueue_broker_messages_published_total", **orders) == 13
    lanes = "goqueue_broker_priority_messages_published_total"
    assert seen.value(lanes, **orders, priority="high") == 1
    failed = "goqueue_broker_messages_failed_total"
    assert seen.value(failed, **orders, error_type="partition_not_found") == 1
    assert seen.value(failed, **orders, error_type="message_too_large") == 1
    assert seen.value(failed, topic="", error_type="topic_not_found") == 3
    workers = {**orders, "consumer_group": "workers"}
    assert seen.value("goqueue_broker_messages_acked_total", **workers) == 2
    assert seen.value("goqueue_broker_messages_nacked_total", **workers) == 1
    assert seen.value("goqueue_broker_messages_rejected_total", **workers) == 1
    streamers = {**orders, "consumer_group": "streamers"}
    assert seen.value("goqueue_consumer_offset_commits_total", **streamers) == 2
    assert seen.value("goqueue_consumer_committed_offset", **streamers) == 2
    scheduled = seen.value("goqueue_broker_delayed_messages_scheduled_total", topic="reminders")
    assert scheduled == 3
    assert seen.value("goqueue_broker_delayed_messages_pending", topic="reminders") == 1
    for how, count in (("started", 3), ("committed", 1), ("aborted", 2)):
        assert seen.value(f"goqueue_broker_transactions_{how}_total") == count
    assert seen.value("goqueue_storage_fsync_errors_total", topic="doomed") == 1


def judge_restart(before: Scrape, after: Scrape) -> None:
    """What is counted begins anew; what there is, is still there."""
    published = "goqueue_broker_messages_published_total"
    assert after.value(published, topic="orders") is None
    for gauge in ("goqueue_consumer_lag", "goqueue_consumer_committed_offset"):
        labels = {"topic": "orders", "consumer_group": "streamers"}
        assert after.value(gauge, **labels) == before.value(gauge, **labels)
    assert after.value("goqueue_broker_topic_count") == before.value("goqueue_broker_topic_count")


def test_series_of_what_is_deleted_go_away(api: Api) -> None:
    topic = api.create("gone", 1)
    api.publish(topic, "a")
    member = api.join("gone-group", topic)
    api.ack(member.take(1)[0])
    text = api.ask("GET", "/metrics").content
    assert b'topic="gone"' in text
    assert b'consumer_group="gone-group"' in text

    api.do("DELETE", "/groups/gone-group")
    api.do("DELETE", f"/topics/{topic}")
    text = api.ask("GET", "/metrics").content
    assert b'consumer_group="gone-group"' not in text
    assert b'topic="gone"' not in text


def test_partitions_are_shown_if_asked_for(tmp_path: Path, connect: Connect) -> None:
    with serving(tmp_path / "data", "--metrics-partitions") as node:
        api = connect(node)
        topic = api.create("t", 2)
        api.publish(topic, {"value": "a", "partition": 1}, {"value": "b", "partition": 1})
        api.post("/groups/g/offsets", {"offsets": {topic: {"1": 1}}})
        seen = Scrape(api.ask("GET", "/metrics").content.decode())
        place = {"topic": topic, "partition": "1", "consumer_group": "g"}
        assert seen.value("goqueue_consumer_lag", **place) == 1
        assert seen.value("goqueue_consumer_committed_offset", **place) == 1
        assert seen.value("goqueue_storage_log_end_offset", topic=topic, partition="1") == 2
        assert seen.value("goqueue_storage_log_start_offset", topic=topic) == 0


def test_head_and_other_methods(api: Api) -> None:
    assert api.send("HEAD", "/metrics").content == b""
    refused = api.ask("POST", "/metrics")
    assert (refused.status, refused.code) == (405, "method_not_allowed")
    assert refused.headers["allow"] == "GET, HEAD"
