"""Delayed messages in a cluster whose leaders are killed while messages are due.

Each fires once, and not before it is due; one that was cancelled never does. Every node answers
questions about all of them.
"""

import contextlib
import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses

PARTITIONS = 2
MESSAGES = 240
SPREAD_MS = 9_000
CANCELLED = 20
WAIT_S = 60.0
# A place of a message: its partition and offset.
Place = tuple[int, int]


def retried(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer of a cluster whose leaders move."""
    deadline = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(httpx.HTTPError):
            answer = ask()
            if answer.status_code < 500:
                return answer
        assert time.monotonic() < deadline, "no answer"
        time.sleep(0.05)


def create(cluster: ClusterProcesses) -> None:
    wanted = {
        "name": "orders",
        "num_partitions": PARTITIONS,
        "replication_factor": 3,
        "min_insync_replicas": 2,
    }
    url = cluster["node-1"].url
    answer = retried(lambda: HTTP.post(f"{url}/topics", json=wanted, timeout=30))
    assert answer.status_code == 201, answer.text


def publish_all(cluster: ClusterProcesses) -> dict[str, Place]:
    """Messages that are due over the next seconds, and some in an hour: their places."""
    names = [f"m-{number}" for number in range(MESSAGES)] + ["much later", "later still"]
    places: dict[str, Place] = {}
    for number, name in enumerate(names):
        delay = "1h" if number >= MESSAGES else f"{1_000 + number * SPREAD_MS // MESSAGES}ms"
        body = {
            "messages": [{"value": name, "delay": delay, "partition": number % PARTITIONS}],
        }
        url = cluster[cluster.names[number % 3]].url
        answer = HTTP.post(f"{url}/topics/orders/messages", json=body, timeout=30)
        assert answer.status_code == 200, answer.text
        (result,) = answer.json()["results"]
        places[name] = (result["partition"], result["offset"])
    return places


def leader_of(cluster: ClusterProcesses, partition: int, living: list[str]) -> str:
    """Who leads a partition, as a node says."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError):
            url = cluster[living[0]].url
            found = HTTP.get(f"{url}/topics/orders/partitions", timeout=5).json()
            leader = found["partitions"][partition].get("leader")
            if leader in living:
                return str(leader)
        time.sleep(0.05)
    raise AssertionError(f"nobody leads partition {partition}")


def cancel_some(cluster: ClusterProcesses, through: str, places: dict[str, Place]) -> Iterator[str]:
    """Cancel the last messages; those whose cancellation was confirmed."""
    for number in range(MESSAGES - CANCELLED, MESSAGES):
        name = f"m-{number}"
        partition, offset = places[name]
        url = f"{cluster[through].url}/topics/orders/delayed/{partition}/{offset}"
        answer = retried(lambda url=url: HTTP.delete(url, timeout=30))  # type: ignore[misc]  # bound now
        if answer.status_code == 200:
            yield name
        else:
            assert answer.json()["code"] == "already_delivered", answer.text


def delivered(cluster: ClusterProcesses) -> list[dict[str, Any]]:
    """All messages that readers see."""
    found = []
    for partition in range(PARTITIONS):
        url = f"{cluster['node-1'].url}/topics/orders/partitions/{partition}/messages"
        answer = retried(
            lambda url=url: HTTP.get(url, params={"offset": 0, "limit": 1000}, timeout=30)  # type: ignore[misc]  # bound now
        )
        assert answer.status_code == 200, answer.text
        found += answer.json()["messages"]
    return found


def test_delays_fire_once_though_their_leaders_are_killed_while_they_are_due(
    cluster_of: Callable[[int], ClusterProcesses],
) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    cluster.wait_until_whole()
    create(cluster)
    begun = time.time()
    places = publish_all(cluster)
    cancelled: list[str] = []

    for turn in range(2):
        killed = leader_of(cluster, turn, cluster.names)
        cluster[killed].kill()
        living = [name for name in cluster.names if name != killed]
        leader_of(cluster, turn, living)
        if turn == 0:
            cancelled = list(cancel_some(cluster, living[1], places))
        cluster[killed].begin()
        cluster[killed].wait_until_ready()
    wanted = {f"m-{number}" for number in range(MESSAGES)} - set(cancelled)
    deadline = time.monotonic() + WAIT_S
    while len(delivered(cluster)) < len(wanted) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(max(0.0, begun + 2 + (1_000 + SPREAD_MS) / 1000 - time.time()))

    found = delivered(cluster)
    counts = Counter(each["value"] for each in found)
    assert counts == dict.fromkeys(wanted, 1)
    assert len(cancelled) > 0
    for each in found:
        number = int(each["value"].split("-")[1])
        fired = dt.datetime.fromisoformat(each["timestamp"]).timestamp()
        assert fired >= begun + 1 + number * SPREAD_MS / MESSAGES / 1000
    check_every_node(cluster, places, cancelled[0])


def check_every_node(cluster: ClusterProcesses, places: dict[str, Place], gone: str) -> None:
    """What waits still is listed by all nodes, and what ended is known to them."""
    for name in cluster.names:
        url = f"{cluster[name].url}/topics/orders/delayed"
        listed = retried(lambda url=url: HTTP.get(url, timeout=30)).json()  # type: ignore[misc]  # bound now
        waits = [(each["partition"], each["offset"]) for each in listed["messages"]]
        assert (waits, listed["total"]) == ([places["much later"], places["later still"]], 2)
        states = {"m-0": "delivered", gone: "cancelled", "much later": "pending"}
        for message, state in states.items():
            partition, offset = places[message]
            found = HTTP.get(f"{url}/{partition}/{offset}", timeout=30)
            assert found.json()["state"] == state, found.text
        counts = HTTP.get(f"{cluster[name].url}/delay/stats", timeout=30).json()
        assert counts["by_topic"] == {"orders": 2}, counts
