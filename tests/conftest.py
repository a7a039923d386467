"""Settings of every test run: how properties are explored, which twin runs."""

import os
import time
from pathlib import Path

import hypothesis
import pytest

from tests.examples import IS_EXHAUSTIVE, examples

# Fresh seeds of the simulator begin here. Workers inherit it from the process that starts them.
SEED_BASE = os.environ.setdefault("SIM_SEED_BASE", str(int(time.time()) * 1000))

ON_SPARK = {"spark", "pipelines"}
# A run in CI is a function of the commit. Exhaustive runs look for new examples instead.
hypothesis.settings.register_profile(
    "repeatable", max_examples=examples(40), derandomize=True, deadline=None
)
hypothesis.settings.register_profile(
    "exhaustive", max_examples=examples(40), deadline=None, print_blob=True
)
hypothesis.settings.load_profile("exhaustive" if IS_EXHAUSTIVE else "repeatable")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is long; let one worker run what starts Spark: two sessions would crowd."""
    if not IS_EXHAUSTIVE:
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    for item in items:
        if "integration" in item.path.parts and ON_SPARK & set(item.path.parts):
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_report_header() -> str:
    """Say which twin of the compiled room these tests run."""
    records = Path(__file__).parents[1] / "src" / "goqueue" / "records"
    is_compiled = any(records.glob("*.so")) and os.environ.get("GOQUEUE_NO_EXTENSIONS") != "1"
    return f"goqueue.records: {'compiled' if is_compiled else 'interpreted'}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how to run the same fresh seeds again."""
    terminalreporter.write_line(f"fresh seeds: replay with SIM_SEED_BASE={SEED_BASE}")
