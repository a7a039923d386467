"""Settings of every test run: how properties are explored, which twin runs."""

import os
import time
from pathlib import Path

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.examples import IS_EXHAUSTIVE, examples

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
    """Leave out what is long."""
    if not IS_EXHAUSTIVE:
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


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


def group_of(nodeid: str) -> str:
    """Tests of one group run one after the other, on one worker."""
    if nodeid.startswith(ON_SPARK):
        return "spark"
    return next((place for place in ONE_WORKER if nodeid.startswith(place)), nodeid)


class GroupScheduler(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Groups tests by their files. The marks that xdist reads have no effect with pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduler:
    return GroupScheduler(config, log)


def pytest_report_header() -> str:
    """Say which twin of the compiled room these tests run."""
    records = Path(__file__).parents[1] / "src" / "goqueue" / "records"
    is_compiled = any(records.glob("*.so")) and os.environ.get("GOQUEUE_NO_EXTENSIONS") != "1"
    return f"goqueue.records: {'compiled' if is_compiled else 'interpreted'}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how to run the same fresh seeds again."""
    terminalreporter.write_line(f"fresh seeds: replay with SIM_SEED_BASE={SEED_BASE}")
