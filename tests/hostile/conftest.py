"""A node that is attacked, and what must hold for everybody else meanwhile."""

import contextlib
import shutil
from collections.abc import Iterator

import pytest

from tests.hostile.spent_names import spent_name
from tests.integration.http_api import Api, values_of
from tests.integration.server_process import ServerProcess, serving

MIB = 1024 * 1024
GROWTH_MAX = 32 * MIB


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ServerProcess]:
    home = tmp_path_factory.mktemp("home")
    with serving(home / "data") as process:
        yield process
    # Nothing that anybody asked for was written outside of the data directory.
    assert [path.name for path in home.iterdir()] == ["data"]
    assert "\x1b" not in process.said
    if not request.session.testsfailed:
        shutil.rmtree(home)


@pytest.fixture
def api(node: ServerProcess) -> Iterator[Api]:
    """A client whose test must leave the node alive, small, and good to others."""
    with contextlib.closing(Api(node.url)) as client, contextlib.closing(Api(node.url)) as friend:
        topic = friend.create(spent_name())
        # An attack may take longer than a session, beside other work.
        waiting = friend.join(spent_name(), topic, session_timeout="5m")
        before = node.resident_bytes
        yield client
        friend.publish(topic, "healthy")
        assert values_of(waiting.poll()) == ["healthy"]
        assert node.resident_bytes - before < GROWTH_MAX
