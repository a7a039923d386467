"""Settings of every test run: how properties are explored, which twin runs."""

import gc
import os
import time
from pathlib import Path

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.examples import IS_EXHAUSTIVE, LOST_SEED, examples

# Fresh seeds of the simulator begin here. Workers inherit it from the process that starts them.
SEED_BASE = os.environ.setdefault("SIM_SEED_BASE", str(int(time.time()) * 1000))

# A run in CI is a function of the commit. Exhaustive runs look for new examples instead.
hypothesis.settings.register_profile(
    "repeatable", max_examples=examples(40), derandomize=True, deadline=None
)
hypothesis.settings.register_profile(
    "exhaustive", max_examples=examples(40), deadline=None, print_blob=True
)
hypothesis.settings.load_profile("exhaustive" if IS_EXHAUSTIVE else "repeatable")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is long, and begin with what takes longest of the rest."""
    if not IS_EXHAUSTIVE:
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    items.sort(key=lambda item: rank_of(item.nodeid))


def pytest_collection_finish() -> None:
    """Keep the collector of garbage away from the thousands of tests: they stay until the end."""
    gc.collect()
    gc.freeze()


# What one worker runs, because its tests share something that takes long to make: a Spark session,
# the life of a node, wheels, the parsed sources.
ONE_WORKER = (
    "tests/integration/spark/",
    "tests/integration/pipelines/",
    "tests/integration/test_packaging.py",
    "tests/exhaustive/test_power_cuts.py",
    "tests/test_tidy.py",
)
# Both share one session.
ON_SPARK = ONE_WORKER[:2]
# Here the tests of each file share a node; tests of these files have nodes of their own.
SHARING = ("tests/hostile/", "tests/integration/")
APART = ("tests/integration/test_bench.py", "tests/integration/test_demo.py")
# The longest groups start first, so that no worker is left alone with one of them at the end.
# Soaks wait more than they work: they start early, beside what needs the processor.
FIRST = (
    *ON_SPARK,
    "tests/conformance/",
    "tests/integration/test_soak.py",
    "tests/integration/test_demo.py",
    "tests/integration/test_soak_deploys.py",
    "tests/integration/test_worker_processes.py",
    "tests/test_docs.py::test_a_document_does_what_it_shows[docs/guides/lakehouse.md]",
    "tests/test_docs.py::test_a_document_does_what_it_shows[docs/reference/cli.md]",
    "tests/integration/test_packaging.py",
    "tests/integration/test_cli_topics.py",
    "tests/integration/test_copies.py",
    "tests/integration/test_client_leases.py",
    "tests/hostile/",
    "tests/integration/",
    "tests/test_tidy.py",
    "tests/test_docs.py",
    "tests/simulation/",
)


def group_of(nodeid: str) -> str:
    """Tests of one group run one after the other, on one worker."""
    if nodeid.startswith(ON_SPARK):
        return "spark"
    file = nodeid.partition("::")[0]
    if file.startswith(SHARING) and file not in APART:
        return file
    return next((place for place in ONE_WORKER if nodeid.startswith(place)), nodeid)


def rank_of(nodeid: str) -> int:
    """Groups of a lower rank start earlier."""
    return next((rank for rank, place in enumerate(FIRST) if nodeid.startswith(place)), len(FIRST))


class GroupScheduler(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Groups tests by their files. The marks that xdist reads have no effect with pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def mark_test_complete(self, node: object, item_index: int, duration: float = 0) -> None:
        """Forget groups that are done: xdist counts the tests of all groups after each test."""
        super().mark_test_complete(node, item_index, duration)
        groups = self.assigned_work[node]
        done = group_of(self.registered_collections[node][item_index])
        if all(groups[done].values()):
            del groups[done]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduler:
    # Groups keep the order of the tests, whatever their size.
    config.option.loadscopereorder = False
    return GroupScheduler(config, log)


def pytest_report_header() -> str:
    """Say which twin of the compiled room these tests run."""
    records = Path(__file__).parents[1] / "src" / "goqueue" / "records"
    is_compiled = any(records.glob("*.so")) and os.environ.get("GOQUEUE_NO_EXTENSIONS") != "1"
    return f"goqueue.records: {'compiled' if is_compiled else 'interpreted'}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how to run the same fresh seeds again, and which faults had to be searched for."""
    terminalreporter.write_line(f"fresh seeds: replay with SIM_SEED_BASE={SEED_BASE}")
    lost = {
        str(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == LOST_SEED
    }
    if lost:
        words = "seeds that no longer find their fault: python -m tests.simulation.faults"
        terminalreporter.write_line(" ".join((words, *sorted(lost))))
