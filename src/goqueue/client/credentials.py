"""API keys of the client: reading them from files, checking them, and what may be shown of one.

Never shows a key: an error names the file or the variable it came from, at most with the first
characters by which an operator knows it.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from goqueue.client.errors import ArgumentInvalid, GoQueueError
from goqueue.model import Secret, is_key_text

__all__ = [
    "Credentials",
    "checked_key",
    "client_files",
    "environment_flag",
    "read_key",
    "shown_prefix",
]

_VISIBLE = range(0x21, 0x7F)
_KEY_BYTES_MAX = 4096
# What may be shown of a key: enough to tell it from others.
_PREFIX = re.compile(r"gq_[0-9a-f]{8}(?=[0-9a-f]{56}\Z)")


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """A key and where it came from; with a `file` it can be read again."""

    key: Secret
    source: str
    file: str | None = None

    @classmethod
    def given(
        cls, key: "str | Secret | Credentials | None", file: str | None
    ) -> "Credentials | None":
        """What the arguments of a program say; None if they name no key."""
        if key is not None and file is not None:
            raise ArgumentInvalid("api_key and api_key_file are both given: give one of them")
        if file is not None:
            return cls(key=read_key(file), source=f"the file {file}", file=file)
        if key is None or isinstance(key, Credentials):
            return key
        return cls(
            key=checked_key(key if isinstance(key, Secret) else Secret(key)), source="api_key"
        )

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> "Credentials | None":
        """What the environment says."""
        key, file = environment.get("GOQUEUE_API_KEY"), environment.get("GOQUEUE_API_KEY_FILE")
        if key and file:
            raise ArgumentInvalid(
                "GOQUEUE_API_KEY and GOQUEUE_API_KEY_FILE are both set: set one of them"
            )
        if key:
            return cls(key=checked_key(Secret(key)), source="GOQUEUE_API_KEY")
        return cls.given(None, file) if file else None

    def read_again(self) -> "Credentials | None":
        """Another key that is in the file by now; None if there is none."""
        if self.file is None:
            return None
        try:
            key = read_key(self.file)
        except GoQueueError:
            return None
        return None if self.key.is_same(key) else msgspec.structs.replace(self, key=key)


def client_files(environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The certificate of the environment, and its key."""
    cert = environment.get("GOQUEUE_CLIENT_CERT") or None
    return cert, environment.get("GOQUEUE_CLIENT_KEY") or None


def environment_flag(name: str, environment: Mapping[str, str]) -> bool:
    """Whether a variable is switched on; raises ArgumentInvalid if it is neither true nor false."""
    text = environment.get(name, "")
    if text not in ("", "true", "false"):
        raise ArgumentInvalid(f"{name} is neither true nor false")
    return text == "true"


def read_key(path: str) -> Secret:
    """The key in a file; raises ArgumentInvalid."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_KEY_BYTES_MAX + 2)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such path"
        raise ArgumentInvalid(f"api_key_file {path} cannot be read: {reason}") from None
    key = Secret(content.decode("ascii", "replace").strip())
    if len(content) > _KEY_BYTES_MAX or not _is_visible(key):
        words = "does not hold one API key: visible ASCII without spaces"
        raise ArgumentInvalid(f"api_key_file {path} {words}")
    return checked_key(key)


def checked_key(key: Secret) -> Secret:
    """The key, if it can be one; raises GoQueueError, which does not show it."""
    if not _is_visible(key):
        raise GoQueueError("unauthenticated", "an API key is visible ASCII without spaces")
    text = key.reveal()
    if text.startswith("gq_") and not is_key_text(text):
        # Told here instead of being counted as a failed attempt at the server.
        raise ArgumentInvalid(
            f"the API key that begins with {text[:6]} is mistyped or cut: its checksum is wrong"
        )
    return key


def _is_visible(key: Secret) -> bool:
    return bool(key) and all(ord(character) in _VISIBLE for character in key.reveal())


def shown_prefix(key: Secret) -> str:
    """The beginning of a key of the usual form, to tell it from others; of any other nothing."""
    known = _PREFIX.match(key.reveal())
    return f"{known[0]}…" if known else ""
