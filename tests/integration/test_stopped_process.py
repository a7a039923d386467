"""A process that was stopped and resumed reads its sockets before it ends sessions."""

import contextlib
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.integration.http_api import Api, Json
from tests.integration.server_process import serving

# Longer than the session and the lease together with what the node waits for by itself.
_STOPPED_S = 4.0


def asked(url: str, path: str, body: Json) -> int:
    """The status of one request over a connection of its own."""
    with contextlib.closing(Api(url)) as api:
        return api.ask("POST", path, body).status


def test_sessions_and_leases_survive_a_process_that_was_stopped(tmp_path: Path) -> None:
    with (
        serving(tmp_path) as server,
        contextlib.closing(Api(server.url)) as api,
        ThreadPoolExecutor() as callers,
    ):
        api.create("orders")
        api.publish("orders", "a")
        member = api.join("shop", "orders", session_timeout="2s")
        (message,) = member.poll(visibility_timeout="2s")
        body = {"member_id": member.id, "generation": member.generation}
        server.signal(signal.SIGSTOP)
        beat = callers.submit(asked, server.url, "/groups/shop/heartbeat", body)
        receipt = {"receipt_handle": message["receipt_handle"]}
        ack = callers.submit(asked, server.url, "/messages/ack", receipt)
        # How long it stands still is what the test is about: nothing is waited for.
        time.sleep(_STOPPED_S)
        server.signal(signal.SIGCONT)

        assert (beat.result(), ack.result()) == (200, 200)
