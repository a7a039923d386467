"""The API against its own OpenAPI document: thousands of requests that follow it or break it.

No answer may be a failure of ours, have another status, body or header than the document says,
take what it forbids or refuse what it allows.
"""

import contextlib
import faulthandler
import os
import subprocess
import sys
from pathlib import Path

from tests.conformance.generated_requests import GROUP, OWNER, TOPIC, TRACE
from tests.examples import IS_EXHAUSTIVE
from tests.integration.http_api import Api
from tests.integration.server_process import serving

ROOT = Path(__file__).resolve().parents[2]
CONFIG = Path(__file__).with_name("schemathesis.toml")
# Beside the requests that are derived from the document, which are the same in every run.
EXAMPLES = 60 if IS_EXHAUSTIVE else 2
# Far above what it takes, also beside other work: only a run that hangs meets it.
SECONDS_MAX = 1200
# Longer than any request may wait, so that a wait that was not cut short is slow and no failure.
REQUEST_SECONDS_MAX = 90


def test_the_api_does_what_its_document_says(tmp_path: Path) -> None:
    # Beside other work it takes longer than a test may hang; it has a limit of its own.
    faulthandler.cancel_dump_traceback_later()
    with serving(tmp_path / "data") as server:
        with contextlib.closing(Api(server.url)) as api:
            api.create(TOPIC, partitions=3)
            api.publish(TOPIC, *map(str, range(30)))
            followed = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
            api.publish(TOPIC, {"value": "followed", "headers": followed})
            api.join(GROUP, TOPIC).poll(max_messages=5)
            owner = {"transactional_id": OWNER["transactional_id"]}
            granted = api.post("/producers/init", owner)
            assert {**granted, **owner} == OWNER
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG)]
        command += ["run", f"{server.url}/openapi.json", "--checks", "all", "--seed", "1"]
        command += ["--max-examples", str(EXAMPLES), "--request-timeout", str(REQUEST_SECONDS_MAX)]
        command += ["--continue-on-failure", "--no-color", "--generation-database", "none"]
        environment = {
            **os.environ,
            "SCHEMATHESIS_HOOKS": "tests.conformance.generated_requests",
            "NO_PROXY": "127.0.0.1",
        }
        ran = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
            assert f"✅ {phase}" in ran.stdout, ran.stdout
        with contextlib.closing(Api(server.url)) as api:
            topic = api.create("made-afterwards")
            assert len(api.publish(topic, "still here")) == 1
