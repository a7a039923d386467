"""A command without a rule is noticed three times: by types, a unit test and the simulator.

Done to a copy of the tree: once the row is taken out of the source, and once out of the table of a
process that has already imported it.
"""

import importlib.util
import subprocess
from collections.abc import Iterator

import pytest

from tests.development.copied_tree import CopiedTree
from tests.tidy.sources import ROOT

RULES = "src/goqueue/security/rules.py"
ROW = "    if issubclass(kind, (Read, Watch, ListDelayed, FindDelayed)):"
FORGET = """
from goqueue.model.requests import Read
from goqueue.security import RULES
del RULES[Read]
"""
UNIT_TEST = """
from tests.unit.security.test_access_rules import test_every_command_has_exactly_one_rule
test_every_command_has_exactly_one_rule()
"""
SIMULATOR = """
from goqueue.sim.node import NodeRun
from goqueue.sim.trace import Trace
for seed in range(3):
    NodeRun(seed, Trace(), 300, has_tenants=True).live()
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> CopiedTree:
    return CopiedTree.into(tmp_path_factory.mktemp("rules") / "tree")


@pytest.fixture
def without_row(tree: CopiedTree) -> Iterator[CopiedTree]:
    rules = tree.root / RULES
    content = rules.read_text(encoding="utf-8")
    assert content.count(ROW) == 1
    rules.write_text(content.replace(ROW, ROW.replace("Read, ", "")), encoding="utf-8")
    yield tree
    rules.write_text(content, encoding="utf-8")


def run(tree: CopiedTree, *programs: str) -> subprocess.CompletedProcess[str]:
    return tree.try_python("-c", "".join(programs))


@pytest.mark.parametrize("program", [UNIT_TEST, SIMULATOR], ids=["unit test", "simulator"])
def test_the_tree_as_it_is_passes(tree: CopiedTree, program: str) -> None:
    done = run(tree, program)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_types_miss_a_row_that_is_removed(without_row: CopiedTree) -> None:
    options = ("--config-file", str(ROOT / "pyproject.toml"), "--follow-imports", "silent")
    checked = without_row.try_python(
        "-m", "mypy", *options, "--cache-dir", str(without_row.root / ".mypy"), RULES
    )
    errors = [line for line in checked.stdout.splitlines() if "error:" in line]
    assert checked.returncode == 1
    assert errors
    assert all(RULES in line and "incompatible type" in line for line in errors), errors


@pytest.mark.parametrize("program", [UNIT_TEST, SIMULATOR], ids=["unit test", "simulator"])
def test_a_node_without_the_row_is_not_even_imported(without_row: CopiedTree, program: str) -> None:
    done = run(without_row, program)
    assert done.returncode != 0
    assert "Expected code to be unreachable" in done.stderr


def test_the_unit_test_misses_a_row_that_the_table_lost(tree: CopiedTree) -> None:
    done = run(tree, FORGET, UNIT_TEST)
    assert done.returncode != 0
    assert "AssertionError" in done.stderr


def test_the_simulator_misses_a_row_that_the_table_lost(tree: CopiedTree) -> None:
    done = run(tree, FORGET, SIMULATOR)
    assert done.returncode != 0
    assert "requests.commands.Read" in done.stderr
