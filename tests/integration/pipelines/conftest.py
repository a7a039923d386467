"""A client for tests that pause for long, while Spark works."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess


@pytest.fixture
def api(node: ServerProcess) -> Iterator[Api]:
    with contextlib.closing(Api(node.url, reconnects=True)) as made:
        yield made
