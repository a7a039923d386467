"""How a packaged pipeline reaches the broker, and what it says when it cannot do its work.

Owns the options of the connector that all pipelines share. Credentials are a path, never a key.
"""

import re
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from goqueue.client.sync import SyncConnection

__all__ = ["ConnectionOptions", "OptionWrong", "PipelineFailed", "check_topic"]

_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


class OptionWrong(ValueError):
    """An option of a packaged pipeline that is missing, wrong, or contradicts another."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(option, reason)
        self.option = option
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.option}: {self.reason}"


class PipelineFailed(RuntimeError):
    """The world is not as the pipeline needs it; one sentence says what to do."""


class ConnectionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The server, and the files that hold the key for it and the certificates."""

    server: str
    token_file: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    allow_plaintext: bool = False
    timeout_s: float = 30.0

    def options(self, **more: str) -> dict[str, str]:
        """For `format("goqueue")`, with others beside them."""
        link = {
            "goqueue.servers": self.server,
            "goqueue.timeoutMs": str(max(100, int(self.timeout_s * 1000))),
        }
        files = {
            "goqueue.tokenFile": self.token_file,
            "goqueue.tls.caFile": self.ca_file,
            "goqueue.tls.certFile": self.cert_file,
            "goqueue.tls.keyFile": self.key_file,
        }
        link |= {option: path for option, path in files.items() if path is not None}
        if self.allow_plaintext:
            link["goqueue.allowPlaintext"] = "true"
        return link | more

    def connect(self) -> "SyncConnection":
        """A client for what Spark has no words for."""
        from goqueue.client import connect_sync

        return connect_sync(
            self.server,
            api_key_file=self.token_file,
            ca_file=self.ca_file,
            client_cert=self.cert_file,
            client_key=self.key_file,
            allow_plaintext=self.allow_plaintext,
            timeout_s=self.timeout_s,
            client_id="pipeline",
        )


def check_topic(option: str, topic: str) -> str:
    if not _NAME.fullmatch(topic):
        raise OptionWrong(option, f"{topic!r} is no name of a topic")
    return topic
