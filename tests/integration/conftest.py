"""What integration tests share: a node in a process of its own, clients of it, a Spark session."""

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.http_api import Api
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess, serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ServerProcess]:
    """One node for all tests of a file: no test ends it."""
    folder = tmp_path_factory.mktemp("node")
    with serving(folder) as process:
        yield process
    # A node takes 64 MiB for its journal at once; the data of a failure are kept.
    if not request.session.testsfailed:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def program(node: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The command line with a home of its own, connected to the node."""
    return Program(node.url, tmp_path_factory.mktemp("home"))


@pytest.fixture
def topic(node: ServerProcess, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions for one test."""
    name = re.sub(r"[^A-Za-z0-9._-]", ".", request.node.name)[:100]
    with contextlib.closing(Api(node.url)) as api:
        return api.create(name, partitions=2)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[ServerProcess]:
    """A node of one test's own, to kill."""
    with serving(tmp_path / "data") as process:
        yield process


@pytest.fixture
def connect() -> Iterator[Callable[[ServerProcess], Api]]:
    """Makes clients, and closes them at the end."""
    with contextlib.ExitStack() as clients:
        yield lambda process: clients.enter_context(contextlib.closing(Api(process.url)))


@pytest.fixture
def api(node: ServerProcess, connect: Callable[[ServerProcess], Api]) -> Api:
    return connect(node)


@pytest.fixture
def other(node: ServerProcess, connect: Callable[[ServerProcess], Api]) -> Api:
    """A second client, for what happens while the first one waits."""
    return connect(node)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Names that no other test of the file uses."""
    stem = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:150]
    numbers = itertools.count()
    return lambda: f"{stem}.{next(numbers)}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """One session for all tests of a worker: it takes longer to start than most of them.

    Two cores, four attempts of a task, and the source with faults beside the sound one.
    """
    # Without the extra the tests that ask for a session are skipped before this is imported.
    from tests.integration.spark.faults import DyingSource
    from tests.integration.spark.sessions import session

    before = dict(os.environ)
    folder = tmp_path_factory.mktemp("spark")
    made = session(folder, log=folder / "spark.log")
    made.dataSource.register(DyingSource)
    yield made
    made.stop()
    os.environ.clear()
    os.environ.update(before)
