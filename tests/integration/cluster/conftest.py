"""Clusters that end with their test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.cluster.cluster_processes import ClusterProcesses


@pytest.fixture
def cluster_of(tmp_path: Path) -> Iterator[Callable[[int], ClusterProcesses]]:
    """Make a cluster of so many nodes; no node may print a traceback."""
    made: list[ClusterProcesses] = []

    def make(count: int) -> ClusterProcesses:
        made.append(ClusterProcesses(tmp_path, count))
        return made[-1]

    yield make
    for each in made:
        each.kill_all()
        assert "Traceback (most recent call last)" not in each.said, each.said[-4000:]
