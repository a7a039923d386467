"""What users, operators and time do to a node, so that everything that is counted is moved."""

from pathlib import Path

from goqueue.model import SECOND, parse_time
from tests.integration.http_api import Api
from tests.integration.metrics.scrapes import Scrapes
from tests.integration.transactional import Producer, send_records

__all__ = [
    "back_up",
    "break_a_log",
    "consume",
    "delay",
    "fill_logs",
    "lose_a_member",
    "publish",
    "schedule",
    "slow_down",
    "transact",
]

KIB = "x" * 1024


def publish(api: Api) -> None:
    """As JSON, in lanes, as records; and what cannot be taken."""
    api.create("orders", 2, max_message_bytes=2000, visibility_timeout="100ms", max_deliveries=2)
    api.publish("orders", *[{"value": f"v{n}", "partition": 0} for n in range(8)])
    api.publish("orders", {"value": "soon", "priority": "high", "partition": 1})
    assert send_records(api, "orders", "raw", "rawer").status == 200
    results = api.post(
        "/topics/orders/messages",
        {"messages": [{"value": "a", "partition": 99}, {"value": KIB + KIB}, {"value": "fine"}]},
    )["results"]
    assert [each.get("code") for each in results] == [
        "partition_not_found",
        "message_too_large",
        None,
    ]
    absent = api.refusal("POST", "/topics/absent/messages", {"messages": [{"value": "a"}] * 3})
    assert absent == (404, "topic_not_found")


def consume(api: Api) -> None:
    """As a stream, and as a queue with every way of settling."""
    assert len(api.read("orders", 0)) >= 8
    api.get("/topics/orders/partitions/0/messages", timestamp="2020-01-01T00:00:00Z")
    member = api.join("workers", "orders", session_timeout="10m")
    first, second, third, fourth = member.take(4, visibility_timeout="10m")
    api.ack_all([first, second])
    api.nack(third, delay="0s")
    api.post("/messages/reject", {"receipt_handle": fourth["receipt_handle"], "reason": "no"})
    # Nobody settles these: their lease runs out, they come again, and then they are dead.
    while member.take(1)[0]["delivery_count"] < 2:
        pass
    beat = {"member_id": member.id, "generation": member.generation}
    api.post("/groups/workers/heartbeat", beat)
    api.join("workers", "orders", session_timeout="10m").leave()
    body = {"offsets": {"orders": {"0": 1}}}
    api.post("/groups/streamers/offsets", body)
    beyond = {"offsets": {"orders": {"0": 10**6}}}
    assert api.refusal("POST", "/groups/streamers/offsets", beyond)[1] == "offset_out_of_range"
    idle = api.join("idlers", api.create("quiet", 1))
    assert idle.poll(timeout="0") == []


def delay(api: Api) -> None:
    """One that is due soon, one that waits, one that is cancelled."""
    topic = api.create("reminders", 1)
    api.publish(topic, {"value": "soon", "delay": "10ms"}, {"value": "later", "delay": "1h"})
    (placed,) = api.publish(topic, {"value": "never", "delay": "1h"})
    api.do("DELETE", f"/topics/{topic}/delayed/0/{placed['offset']}")


def schedule(api: Api, scrapes: Scrapes) -> None:
    """One that ticks, one that is run; then their topic is gone for longer than the grace."""
    topic = api.create("ticks", 1)
    body = {"topic": topic, "message": {"value": "x"}, "missed": "skip", "grace": "1s"}
    api.post("/schedules", {"name": "fast", "every": "100ms", **body})
    api.do("POST", "/schedules/fast/run")
    scrapes.wait_for_rise("goqueue_broker_schedule_ticks_total")
    scrapes.wait_for_rise("goqueue_broker_schedule_runs_total")
    api.do("DELETE", f"/topics/{topic}")
    scrapes.wait_for_rise("goqueue_broker_schedule_failures_total")
    # The latest tick that was missed is older than the grace when the topic is back.
    seen = parse_time(api.get("/schedules/fast")["next_tick_at"])
    while parse_time(api.get("/healthz")["timestamp"]) < seen + 2 * SECOND:
        pass
    api.create("ticks", 1)
    scrapes.wait_for_rise("goqueue_broker_schedule_skips_total")
    api.do("DELETE", "/schedules/fast")


def request(api: Api) -> None:
    """One that nobody replies to, and a reply that comes too late."""
    topic = api.create("questions", 1)
    code = ""
    for timeout in ("50ms", "1s", "20s"):
        # Beside other work the disk may take longer than the shorter ones.
        body = {"value": "anybody?", "timeout": timeout}
        _, code = api.refusal("POST", f"/topics/{topic}/request", body)
        if code != "request_timeout":
            break
    assert code == "no_reply"
    answers = {"topic": topic, "max": 3}
    for asked in api.post("/queues/answers/receive", answers)["messages"]:
        reply_to = asked["headers"]["goqueue.reply_to"]
        assert api.post(f"/replies/{reply_to}", {"value": "yes"}) == {"delivered": False}
        api.ack(asked)


def transact(api: Api) -> None:
    """One that commits the progress of a group, one that is aborted, one that takes too long."""
    topic = api.create("ledger", 1)
    producer = Producer(api, "copier")
    producer.begin()
    producer.publish(topic, "paid")
    producer.add("streamers", offsets={"orders": {"0": 2}})
    producer.commit()
    producer.begin()
    producer.publish(topic, "never")
    producer.abort()
    slow = Producer(api, "slow", transaction_timeout_ms=1000)
    slow.begin()


def fill_logs(api: Api) -> None:
    """A log that is compacted, and one of which the oldest segments go."""
    api.create("state", 1, cleanup_policy="compact", segment_bytes=65536)
    api.create("recent", 1, segment_bytes=65536, retention_bytes=100_000)
    for _ in range(6):
        api.publish("state", *[{"key": "k", "value": KIB}] * 50)
        api.publish("recent", *[KIB] * 50)


def lose_a_member(api: Api) -> None:
    """It joins and is never heard of again."""
    api.join("forgetful", "orders", session_timeout="1s")


def break_a_log(api: Api, faults: Path) -> None:
    """Syncs of one topic fail: it takes no more writes."""
    api.publish(api.create("doomed", 1), "fine")
    (faults / "broken").write_text("doomed")
    lost = {"messages": [{"value": "lost"}]}
    assert api.refusal("POST", "/topics/doomed/messages", lost) == (500, "storage_failed")
    (faults / "broken").unlink()


def fill_the_disk(api: Api, faults: Path, scrapes: Scrapes) -> None:
    """There is no space for one topic, and then there is again."""
    api.publish(api.create("crammed", 1), "fine", "harmed", "behind")
    (faults / "full").write_text("crammed")
    lost = {"messages": [{"value": "lost"}, {"value": "lost, too"}]}
    assert api.refusal("POST", "/topics/crammed/messages", lost) == (507, "storage_full")
    scrapes.wait_for_rise("goqueue_storage_full_logs")
    ready = api.get("/readyz", verbose="true")
    assert ready["status"] == "degraded"
    assert "the disk is full" in ready["message"]
    (faults / "full").unlink()


def back_up(api: Api, faults: Path, scrapes: Scrapes) -> None:
    """A backup that takes its time, and a restore in which there is nothing new."""
    (faults / "slow").touch()
    backup = api.post("/admin/backup", {})["backup_id"]
    scrapes.wait_for_rise("goqueue_broker_backup_running", kind="backup")
    (faults / "slow").unlink()
    scrapes.wait_for_rise("goqueue_broker_backups_total", kind="backup", outcome="completed")
    api.post(f"/admin/backup/{backup}/restore", {"skip_existing": True})
    scrapes.wait_for_rise("goqueue_broker_backups_total", kind="restore", outcome="completed")


def harm_a_record(directory: Path) -> None:
    """A byte of the second record changes while nobody looks."""
    (path,) = (directory / "logs" / "crammed").rglob("*.log")
    data = bytearray(path.read_bytes())
    data[data.index(b"harmed")] ^= 1
    path.write_bytes(data)


def meet_damage(api: Api) -> None:
    """Only what is damaged is refused."""
    for _ in range(2):
        answer = api.ask("GET", "/topics/crammed/partitions/0/messages", offset=1)
        assert (answer.status, answer.code) == (500, "records_damaged")
    assert api.get("/readyz")["status"] == "degraded"


def slow_down(api: Api, faults: Path, scrapes: Scrapes) -> None:
    """While a sync takes its time, work waits for the disk thread."""
    (faults / "slow").touch()
    content = b'{"messages": [{"value": "slow", "partition": 0}]}'
    api.begin("POST", "/topics/orders/messages", content)
    scrapes.wait_for_rise("goqueue_runtime_disk_queue_length")
    (faults / "slow").unlink()
    assert api.finish().status == 200
