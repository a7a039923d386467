"""One session of Spark for all tests of a worker: it takes longer to start than most of them."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Two cores, four attempts of a task, and the source with faults beside the sound one."""
    # Without the extra the tests of these files are skipped, and nothing of this is asked for.
    from tests.integration.spark.faults import DyingSource
    from tests.integration.spark.sessions import session

    before = dict(os.environ)
    made = session(tmp_path_factory.mktemp("spark"))
    made.dataSource.register(DyingSource)
    yield made
    made.stop()
    os.environ.clear()
    os.environ.update(before)
