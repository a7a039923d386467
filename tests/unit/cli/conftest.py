"""A log to look into, for every test of the command line."""

from pathlib import Path

import pytest

from tests.unit.cli.data_directories import Terminal, write_log


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A partition of three segments, 0, 10 and 20, with 25 records in all."""
    return write_log(tmp_path)


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)
