"""The contracts of the rooms can fail: each is shown a house that breaks it."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tidy.sources import CORE_ROOMS

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the package, to be spoiled."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "src" / "goqueue", tmp_path / "goqueue", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(house: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the copy, which the working directory puts before the real one."""
    code = "import sys; from importlinter.cli import lint_imports_command as run; run()"
    command = [sys.executable, "-c", code, "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=house, capture_output=True, text=True, check=False)


def append(path: Path, line: str) -> None:
    path.write_text(f"{path.read_text()}\n{line}\n")


def test_the_house_as_it_stands_keeps_its_contracts(house: Path) -> None:
    linted = lint(house)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_every_list_of_the_core_names_the_same_rooms() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    rooms = {f"goqueue.{room}" for room in CORE_ROOMS}
    built = {room for room in rooms if (ROOT / "src" / room.replace(".", "/")).is_dir()}
    (pure,) = (
        contract["source_modules"]
        for contract in config["tool"]["importlinter"]["contracts"]
        if contract["type"] == "forbidden"
    )
    (typed,) = (
        override["module"]
        for override in config["tool"]["mypy"]["overrides"]
        if override.get("disallow_any_explicit")
    )

    assert set(pure) == built
    assert {name.removesuffix(".*") for name in typed} == rooms


@pytest.mark.parametrize(
    ("room", "line"),
    [
        pytest.param("model", "import goqueue.log", id="upward"),
        pytest.param("records", "from goqueue.storage import x", id="two rooms upward"),
        pytest.param("log", "import time", id="a clock in the core"),
        pytest.param("transactions", "import random", id="chance in transactions"),
        pytest.param("tracing", "import time", id="a clock in tracing"),
        pytest.param("metrics", "import threading", id="a thread in metrics"),
        pytest.param("storage", "from os import fsync", id="a system call in storage"),
    ],
)
def test_a_forbidden_import_breaks_a_contract(house: Path, room: str, line: str) -> None:
    append(house / "goqueue" / room / "__init__.py", line)
    linted = lint(house)
    assert linted.returncode == 1, linted.stdout + linted.stderr
    assert "BROKEN" in linted.stdout
    assert f"goqueue.{room}" in linted.stdout


def test_sideways_imports_break_a_contract(house: Path) -> None:
    append(house / "goqueue" / "delivery" / "__init__.py", "import goqueue.log")
    linted = lint(house)
    assert linted.returncode == 1, linted.stdout + linted.stderr
    assert "goqueue.delivery -> goqueue.log" in linted.stdout


def test_a_gateway_that_imports_another_breaks_a_contract(house: Path) -> None:
    (house / "goqueue" / "gateways" / "kafka").mkdir()
    kafka = house / "goqueue" / "gateways" / "kafka" / "__init__.py"
    kafka.write_text("from goqueue.gateways import GatewayPort\n")
    linted = lint(house)
    assert linted.returncode == 0, linted.stdout + linted.stderr

    append(kafka, "from goqueue.gateways.http import HttpApi")
    linted = lint(house)
    assert linted.returncode == 1, linted.stdout + linted.stderr
    assert "goqueue.gateways.kafka -> goqueue.gateways.http" in linted.stdout


def test_a_package_that_is_in_no_layer_breaks_a_contract(house: Path) -> None:
    (house / "goqueue" / "lobby").mkdir()
    (house / "goqueue" / "lobby" / "__init__.py").write_text("")
    linted = lint(house)
    assert linted.returncode == 1, linted.stdout + linted.stderr
    assert "goqueue.lobby" in linted.stdout
