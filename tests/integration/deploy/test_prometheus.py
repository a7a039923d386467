"""A real Prometheus scrapes a real node: every query has an answer, and alerts come when due."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from deploy.grafana.generate import FOLDER
from tests.integration.cluster.cluster_processes import running_cluster
from tests.integration.deploy.prometheus_process import Prometheus, found, scraping
from tests.integration.deploy.test_dashboards import NAMES, page
from tests.integration.deploy.traffic import Traffic
from tests.integration.server_process import ServerProcess, serving

SECONDS_MAX = 120
OF_CLUSTER = "cluster.json"
# What Grafana puts in the place of its variables when all is chosen.
CHOSEN = {"$__rate_interval": "20s", "$instance": ".*", "$topic": ".*", "$group": ".*"}


class Watched(msgspec.Struct):
    """A node with traffic, and the Prometheus that scrapes it."""

    node: ServerProcess
    traffic: Traffic
    prometheus: Prometheus

    def go_on_until(self, condition: Callable[[], bool], words: Callable[[], object]) -> None:
        """Keep the node busy until something is so."""
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            assert time.monotonic() < deadline, words()
            self.traffic.go_round()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    found("prometheus")
    with serving(tmp_path_factory.mktemp("node")) as node:
        target = node.url.removeprefix("http://")
        with scraping(target, tmp_path_factory.mktemp("prometheus")) as prometheus:
            traffic = Traffic(node.url)
            yield Watched(node, traffic, prometheus)
            traffic.close()


def filled_in(expression: str) -> str:
    for variable, choice in CHOSEN.items():
        expression = expression.replace(variable, choice)
    assert "$" not in expression, expression
    return expression


def queries(name: str) -> dict[str, str]:
    """The queries of a dashboard, and the panels that ask them."""
    return {
        filled_in(target.expr): f"{name}: {panel.title}"
        for panel in page(name).panels
        for target in panel.targets
    }


def test_no_panel_is_empty(watched: Watched) -> None:
    names = [name for name in NAMES if name != OF_CLUSTER]
    left = {expression: panel for name in names for expression, panel in queries(name).items()}
    assert len(left) > 100
    watched.go_on_until(lambda: watched.prometheus.answers(left), lambda: left)
    assert not left


def test_no_panel_of_the_cluster_is_empty(tmp_path: Path) -> None:
    found("prometheus")
    left = queries(OF_CLUSTER)
    assert len(left) > 30
    with running_cluster(tmp_path, 3) as cluster:
        targets = [cluster[name].url.removeprefix("http://") for name in cluster.names]
        traffic = Traffic(cluster[cluster.names[0]].url)
        with scraping("\n          - ".join(targets), tmp_path) as prometheus:
            records = [str(rule["name"]) for rule in prometheus.rules() if _is_of_cluster(rule)]
            left |= dict.fromkeys(records, "a recording rule")
            traffic.go_round()
            # Its partitions get other leaders, which is an election to show.
            lost = cluster.names[2]
            cluster[lost].kill()
            cluster.wait_for(
                cluster.names[:2],
                lambda states: all(cluster.leaders(each)[lost] == 0 for each in states),
                "other leaders",
            )
            cluster[lost].start()
            cluster.wait_until_whole()
            deadline = time.monotonic() + SECONDS_MAX
            while not prometheus.answers(left):
                assert time.monotonic() < deadline, left
                traffic.go_round()
        traffic.close()


def _is_of_cluster(rule: dict[str, object]) -> bool:
    return rule["type"] == "recording" and str(rule["name"]).startswith(("follower:", "link:"))


def test_every_variable_of_a_dashboard_has_values(watched: Watched) -> None:
    for name in NAMES:
        text = (FOLDER / name).read_text()
        for metric, label in (
            ("goqueue_broker_ready", "instance"),
            ("goqueue_broker_topic_partitions", "topic"),
            ("goqueue_consumer_group_members", "consumer_group"),
        ):
            if f"label_values({metric}" in text:
                assert all(label in found for found in watched.prometheus.query(metric))


def test_every_rule_is_evaluated_and_every_record_has_a_series(watched: Watched) -> None:
    rules = watched.prometheus.rules()
    assert len(rules) > 25
    watched.go_on_until(
        lambda: all(rule["health"] == "ok" for rule in watched.prometheus.rules()),
        watched.prometheus.rules,
    )
    records = [
        str(rule["name"])
        for rule in rules
        if rule["type"] == "recording" and not _is_of_cluster(rule)
    ]
    watched.go_on_until(
        lambda: all(watched.prometheus.query(name) for name in records),
        lambda: [name for name in records if not watched.prometheus.query(name)],
    )
    assert all(not rule.get("lastError") for rule in watched.prometheus.rules())


def test_dead_letters_are_told_and_a_node_that_is_well_is_not(watched: Watched) -> None:
    watched.go_on_until(
        lambda: "firing" in watched.prometheus.states("GoQueueDeadLettersArriving"),
        watched.prometheus.rules,
    )
    for alert in ("GoQueueDown", "GoQueueNotReady", "GoQueueLogFailed", "GoQueueDelaysOverdue"):
        assert watched.prometheus.states(alert) == []


def test_a_node_that_dies_is_noticed_and_one_that_comes_back_too(watched: Watched) -> None:
    watched.node.kill()
    try:
        wait_until(lambda: watched.prometheus.states("GoQueueDown") == ["pending"])
    finally:
        watched.node.start()
    wait_until(lambda: watched.prometheus.states("GoQueueDown") == [])
    assert watched.prometheus.query("goqueue_broker_ready == 1")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
