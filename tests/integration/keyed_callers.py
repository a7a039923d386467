"""A real node that asks for keys, and requests with one key or another."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.integration.http_api import Answer, Api, Json
from tests.integration.server_process import ServerProcess, serving

__all__ = ["ROOT", "Callers", "keyed_node"]

ROOT = "the root key of this test, hidden".replace(" ", "-").replace(",", "")


class Callers:
    """One node, and a way to send requests with a key."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server

    def ask(
        self, method: str, path: str, body: Json | None = None, key: str | None = ROOT
    ) -> Answer:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        content = None if body is None else msgspec.json.encode(body)
        with contextlib.closing(Api(self.server.url)) as api:
            return api.send(method, path, content, headers)

    def do(self, method: str, path: str, body: Json | None = None, key: str = ROOT) -> Json:
        answer = self.ask(method, path, body, key)
        assert 200 <= answer.status < 300, answer
        return answer.body

    def key(self, role: str, tenant: str = "default") -> Json:
        body = {"name": f"{role} of {tenant}", "roles": [role], "tenant": tenant}
        return self.do("POST", "/admin/keys", body)


@contextlib.contextmanager
def keyed_node(directory: Path, *flags: str) -> Iterator[Callers]:
    """A node with a root key, as long as the block runs."""
    secret = directory / "root-key"
    secret.write_text(ROOT)
    secret.chmod(0o600)
    keyed = ("--auth-enabled=true", "--api-root-key-file", str(secret))
    with serving(directory / "data", *keyed, *flags) as server:
        yield Callers(server)
