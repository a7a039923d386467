"""Three real processes: they form a cluster, and keep one controller whatever ends them."""

import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event

import httpx
import pytest

from goqueue.model import Message
from goqueue.records import build
from tests.free_ports import free_ports
from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses, State

Make = Callable[[int], ClusterProcesses]


def epoch_of(state: State) -> int:
    epoch = state["controller_epoch"]
    assert isinstance(epoch, int)
    return epoch


def peer_ports_of(state: State) -> dict[str, int]:
    """Where a node finds the others, and where it is found."""
    nodes = state["nodes"]
    assert isinstance(nodes, list)
    return {node["id"]: int(node["peer_address"].rpartition(":")[2]) for node in nodes}


def others_than(cluster: ClusterProcesses, name: object) -> list[str]:
    return [each for each in cluster.names if each != name]


def test_a_controller_that_is_killed_is_replaced_and_follows_when_it_comes_back(
    cluster_of: Make,
) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    state = cluster.wait_for_agreement()
    cluster_id = state["cluster_id"]

    for _ in range(3):
        controller = str(state["controller_id"])
        cluster[controller].kill()
        left = others_than(cluster, controller)
        successor = cluster.wait_for_agreement(*left, above=epoch_of(state))
        assert successor["controller_id"] in left
        cluster.forget_versions(controller)
        cluster[controller].start()
        state = cluster.wait_for_agreement(above=epoch_of(state))

    assert state["cluster_id"] == cluster_id
    cluster.wait_for(
        cluster.names,
        lambda states: all(set(cluster.statuses(each).values()) == {"alive"} for each in states),
        "three nodes that are alive",
    )


def test_a_controller_that_sleeps_is_replaced_and_decides_nothing_when_it_wakes(
    cluster_of: Make,
) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    state = cluster.wait_for_agreement()
    controller = str(state["controller_id"])

    cluster[controller].signal(signal.SIGSTOP)
    left = others_than(cluster, controller)
    successor = cluster.wait_for_agreement(*left, above=epoch_of(state))
    cluster[controller].signal(signal.SIGCONT)

    last = cluster.wait_for_agreement(above=epoch_of(state))
    assert epoch_of(last) >= epoch_of(successor)


def create_topics(cluster: ClusterProcesses, name: str, is_over: Event) -> list[str]:
    """Create topics through a node until it is gone or all is over; those that it confirmed."""
    confirmed = []
    with httpx.Client(base_url=cluster[name].url, timeout=10) as client:
        for number in count():
            topic = f"{name}-topic-{number}"
            body = {"name": topic, "num_partitions": 1, "replication_factor": 1}
            try:
                answer = client.post("/topics", json=body)
            except httpx.HTTPError:
                if cluster.look(name) is None:
                    break
                continue
            if answer.is_success:
                confirmed.append(topic)
            if is_over.is_set():
                break
    return confirmed


def test_a_controller_that_is_told_to_stop_hands_over_under_load_and_loses_no_change(
    cluster_of: Make,
) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    state = cluster.wait_for_agreement()
    controller = str(state["controller_id"])
    left = others_than(cluster, controller)
    is_over = Event()

    with ThreadPoolExecutor(3) as pool:
        loads = [pool.submit(create_topics, cluster, name, is_over) for name in cluster.names]
        try:
            cluster.wait_for(
                cluster.names,
                lambda states: all(int(str(each["version"])) >= 20 for each in states),
                "that topics are created",
            )
            cluster[controller].signal(signal.SIGTERM)
            cluster.wait_for(
                left,
                lambda states: all(
                    epoch_of(each) > epoch_of(state) and each["controller_id"] in left
                    for each in states
                ),
                "another controller",
            )
            assert cluster[controller].wait() == 0
        finally:
            is_over.set()
        confirmed = {topic for load in loads for topic in load.result()}

    cluster.wait_for_agreement(*left)
    for name in left:
        listed = HTTP.get(f"{cluster[name].url}/topics", timeout=10).json()
        assert confirmed <= set(listed["topics"])
    assert len(confirmed) >= 10


@pytest.mark.long
def test_a_controller_that_sleeps_for_twenty_seconds_is_taken_for_dead_and_loses_nothing(
    cluster_of: Make,
) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    state = cluster.wait_for_agreement()
    controller = str(state["controller_id"])
    left = others_than(cluster, controller)

    cluster[controller].signal(signal.SIGSTOP)
    asleep_until = time.monotonic() + 20
    successor = cluster.wait_for_agreement(*left, above=epoch_of(state))
    created = HTTP.post(
        f"{cluster[str(successor['controller_id'])].url}/topics",
        json={"name": "made-meanwhile", "num_partitions": 1},
        timeout=30,
    )
    assert created.status_code == 201
    cluster.wait_for(
        left,
        lambda states: all(cluster.statuses(each)[controller] == "dead" for each in states),
        "that the sleeper is taken for dead",
    )
    time.sleep(max(0.0, asleep_until - time.monotonic()))
    cluster[controller].signal(signal.SIGCONT)

    last = cluster.wait_for_agreement(above=epoch_of(state))
    assert epoch_of(last) >= epoch_of(successor)
    cluster.wait_for(
        cluster.names,
        lambda states: all(set(cluster.statuses(each).values()) == {"alive"} for each in states),
        "three nodes that are alive",
    )
    for name in cluster.names:
        found = HTTP.get(f"{cluster[name].url}/topics/made-meanwhile", timeout=30)
        assert found.status_code == 200


def test_a_cluster_that_was_killed_as_a_whole_comes_back_as_it_was(cluster_of: Make) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    before = cluster.wait_for_agreement()

    cluster.kill_all()
    for name in cluster.names:
        cluster.forget_versions(name)
    cluster.start_all()
    cluster.wait_for(
        cluster.names,
        lambda states: all(int(str(s["version"])) > int(str(before["version"])) for s in states),
        "what was committed before, and more",
    )
    after = cluster.wait_for_agreement(above=epoch_of(before))

    assert after["cluster_id"] == before["cluster_id"]
    assert set(cluster.statuses(after)) == set(cluster.names)


def test_a_cluster_whose_nodes_all_have_other_addresses_is_the_same_cluster(
    cluster_of: Make,
) -> None:
    """Voters are nodes and disks; where they are to be found is no part of the log's promises."""
    cluster = cluster_of(3)
    cluster.start_all()
    cluster.wait_until_whole()
    before = cluster.wait_for_agreement()
    created = {"name": "before-the-move", "num_partitions": 1, "replication_factor": 3}
    assert HTTP.post(f"{cluster['node-1'].url}/topics", json=created).status_code == 201

    cluster.kill_all()
    cluster.peer_ports = dict(zip(cluster.names, free_ports(3), strict=True))
    cluster.advertise(cluster.peer_ports)
    for name in cluster.names:
        cluster.forget_versions(name)
    cluster.start_all()
    cluster.wait_until_whole()

    states = cluster.wait_for(
        cluster.names,
        lambda states: all(peer_ports_of(each) == cluster.peer_ports for each in states),
        "that all nodes are registered where they are",
    )
    assert {state["cluster_id"] for state in states} == {before["cluster_id"]}
    assert epoch_of(cluster.wait_for_agreement()) > epoch_of(before)
    for name in cluster.names:
        found = HTTP.get(f"{cluster[name].url}/topics/before-the-move", timeout=30)
        assert found.status_code == 200


def test_one_node_of_three_decides_nothing_and_says_so(cluster_of: Make) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    cluster.wait_for_agreement()
    first, second, third = cluster.names

    cluster[second].kill()
    cluster[third].kill()
    (alone,) = cluster.wait_for(
        [first], lambda states: not states[0]["controller_id"], "no controller"
    )

    health = HTTP.get(f"{cluster[first].url}/cluster/health", timeout=10).json()
    assert health["status"] == "fail"
    refused = cluster.forget(third, through=first)
    assert (refused.status_code, refused.json()["code"]) == (503, "leader_unavailable")
    assert (cluster.look(first) or {})["version"] == alone["version"]


def test_a_node_with_a_wiped_disk_is_refused_until_it_is_forgotten(cluster_of: Make) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    state = cluster.wait_for_agreement()
    wiped = others_than(cluster, state["controller_id"])[0]
    left = others_than(cluster, wiped)

    cluster[wiped].kill()
    shutil.rmtree(cluster[wiped].directory)
    cluster.forget_versions(wiped)
    cluster[wiped].start()
    cluster.wait_for([wiped], lambda states: "problem" in states[0], "why it is refused")
    cluster.wait_for(
        left,
        lambda states: all(cluster.statuses(each)[wiped] != "alive" for each in states),
        "that its old self is gone",
    )

    controller = str(cluster.wait_for_agreement(*left)["controller_id"])
    cluster.wait_for(
        [controller],
        lambda _: cluster.forget(wiped, through=controller).status_code in {200, 404},
        "that it is forgotten",
    )
    cluster.wait_for(
        cluster.names,
        lambda states: all(cluster.statuses(each).get(wiped) == "alive" for each in states),
        "that it is a member again",
    )


def test_a_forgotten_node_stays_forgotten_when_every_node_is_killed(cluster_of: Make) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    state = cluster.wait_for_agreement()
    gone = others_than(cluster, state["controller_id"])[0]
    left = others_than(cluster, gone)
    cluster[gone].kill()
    cluster.wait_for(
        left,
        lambda states: all(cluster.statuses(each)[gone] == "dead" for each in states),
        "that the node is dead",
    )
    controller = str(cluster.wait_for_agreement(*left)["controller_id"])

    assert cluster.forget(gone, through=controller).json() == {"forgotten": True, "id": gone}
    forgotten = cluster.look(controller)
    assert forgotten is not None
    assert set(cluster.statuses(forgotten)) == set(left)
    for name in left:
        cluster[name].kill()
        cluster.forget_versions(name)
    for name in left:
        cluster[name].begin()
    for name in left:
        cluster[name].wait_until_ready()

    # Until a new controller has committed something, a node may show an older state.
    after = cluster.wait_for(
        left,
        lambda states: all(
            int(str(s["version"])) >= int(str(forgotten["version"])) for s in states
        ),
        "what was committed before",
    )
    assert all(set(cluster.statuses(each)) == set(left) for each in after)


def test_a_node_whose_address_nobody_lists_says_so_and_ends_as_misconfigured(
    cluster_of: Make,
) -> None:
    cluster = cluster_of(3)
    first, second, third = cluster.names
    cluster[first].begin()
    cluster[second].begin()
    elsewhere = free_ports(1)[0]
    cluster.advertise({**cluster.peer_ports, third: elsewhere}, third)

    cluster[third].begin()

    assert cluster[third].wait() == 2
    assert f"no peer lists the own address 127.0.0.1:{elsewhere}" in cluster[third].said


def test_what_one_node_created_is_known_to_every_other_at_once(cluster_of: Make) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    cluster.wait_until_whole()
    urls = [cluster[name].url for name in cluster.names]
    batch = bytes(build([Message(value=b"hello")]))

    for number in range(30):
        first, *rest = urls[number % 3 :] + urls[: number % 3]
        topic = {"name": f"orders-{number}", "num_partitions": 1}
        assert HTTP.post(f"{first}/topics", json=topic).status_code == 201
        granted = HTTP.post(f"{first}/producers/init", json={}).json()
        for sequence, url in enumerate(rest):
            stamp = {"partition": 0, "sequence": sequence, **granted}
            published = HTTP.post(
                f"{url}/topics/orders-{number}/records", params=stamp, content=batch
            )
            assert published.status_code == 200, published.text

    absent = HTTP.get(f"{urls[0]}/topics/absent")
    assert (absent.status_code, absent.json()["code"]) == (404, "topic_not_found")
