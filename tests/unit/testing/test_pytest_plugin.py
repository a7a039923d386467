"""The fixtures, used as a program's own tests use them."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = "goqueue._pytest_plugin"

TESTS = """
import asyncio
import os

import goqueue


def test_each_test_has_a_node_of_its_own(goqueue_node):
    with goqueue_node.connect_sync() as q:
        q.topics.create("jobs", partitions=1)


def test_a_program_finds_the_node_by_itself(goqueue_node, goqueue_clock):
    assert goqueue_clock is goqueue_node.clock

    async def program():
        async with goqueue.connect() as q:
            assert await q.topics.list() == ()
            await q.topics.create("jobs", partitions=1)
            await q.publish("jobs", "x", delay=60)
            await goqueue_clock.advance("1m")
            async with q.consume("jobs", group="g") as consumer:
                await (await anext(consumer)).ack()

    asyncio.run(program())


def test_a_run_without_the_fixtures_leaves_the_environment_alone():
    assert "GOQUEUE_SERVER" not in os.environ
"""


def run_pytest(folder: Path, tests: str, *options: str) -> str:
    (folder / "test_program.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    environment = {name: each for name, each in os.environ.items() if not name.startswith("GOQ")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_fixtures_give_each_test_a_node_and_a_clock(tmp_path: Path) -> None:
    assert "3 passed" in run_pytest(tmp_path, TESTS, "-p", PLUGIN)


def test_the_guide_shows_a_test_that_passes(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "testing.md").read_text()
    (shown,) = re.findall(r"<!-- not run[^\n]*-->\n```python\n(.*?)```", guide, re.DOTALL)
    assert "1 passed" in run_pytest(tmp_path, shown, "-p", PLUGIN)


def test_the_plugin_imports_nothing_of_a_node_before_it_is_used() -> None:
    script = f"import sys, {PLUGIN}; print([n for n in sys.modules if n.startswith('goqueue.')])"
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert "goqueue.broker" not in printed
    assert "goqueue.sim" not in printed


def test_an_installation_announces_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"goqueue": PLUGIN}
