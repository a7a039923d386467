"""The lines of the guide "gRPC in five minutes", run by grpcurl where it is installed."""

import contextlib
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.grpc_client import grpc_address
from tests.integration.http_api import Api
from tests.integration.server_process import serving

ROOT = Path(__file__).resolve().parents[2]
GRPCURL = shutil.which("grpcurl")
_LINE = re.compile(r"^grpcurl .*$", re.MULTILINE)
_HANDLE = re.compile(r'"receiptHandle": "([^"]+)"')


@pytest.mark.skipif(GRPCURL is None, reason="grpcurl is not installed")
def test_the_lines_of_the_guide_publish_consume_subscribe_and_acknowledge(tmp_path: Path) -> None:
    guide = (ROOT / "docs/guides/grpc.md").read_text()
    flags = ("--grpc", "127.0.0.1:0", "--grpc-reflection", "true")
    with serving(tmp_path / "data", *flags) as node, contextlib.closing(Api(node.url)) as api:
        api.create("orders", partitions=1)
        address = grpc_address(node)
        lines = [
            shlex.split(line.replace("127.0.0.1:9000", address)) for line in _LINE.findall(guide)
        ]
        listing, publishing, consuming, subscribing, acknowledging = lines
        assert "goqueue.v1.PublishService" in _output(listing)
        assert json.loads(_output(publishing))["topic"] == "orders"
        assert "aGVsbG8=" in _output(consuming, is_ended_by_time=True)
        with subprocess.Popen(subscribing, stdout=subprocess.PIPE, text=True) as member:
            assert member.stdout is not None
            found = next(filter(None, map(_HANDLE.search, member.stdout)))
            place = acknowledging.index("-d") + 1
            acknowledging[place] = json.dumps({"receipt_handle": found[1]})
            assert json.loads(_output(acknowledging)) == {"success": True}
            member.terminate()
        assert api.get("/groups/billing/lag")["total_lag"] == 0


def _output(command: list[str], *, is_ended_by_time: bool = False) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode == 0) is not is_ended_by_time, done.stderr
    return done.stdout
