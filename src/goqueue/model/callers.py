"""Who asks: the proven key of a caller, and the way it came.

A gateway proves who calls, and nothing else: roles, tenant, expiry and permissions are looked up by
the core at the moment of each command (docs/adr/0037-callers-and-access.md). So a caller holds no
right of its own, and one that was made a minute ago is worth no more than its key is now.
"""

import re
import zlib
from typing import NewType

import msgspec

__all__ = [
    "ANONYMOUS",
    "KEY_RANDOM_BYTES",
    "LOCAL",
    "ROOT_KEY",
    "Caller",
    "KeyId",
    "ProvenKey",
    "is_key_text",
    "key_text",
]

KeyId = NewType("KeyId", str)

# Names that no stored key can have: their ids begin with `key_`.
_LOCAL_KEY = KeyId("local")
_NO_KEY = KeyId("anonymous")
ROOT_KEY = KeyId("root")


# The text of a key: `gq_`, 28 random bytes and their CRC-32 in hex. A scanner of secrets can match
# it, and a key that was mistyped is known as such without asking a node.
KEY_RANDOM_BYTES = 28
_KEY_TEXT = re.compile(r"gq_([0-9a-f]{56})([0-9a-f]{8})", re.ASCII)


def key_text(random: bytes) -> str:
    """The text of a key with these random bytes."""
    assert len(random) == KEY_RANDOM_BYTES
    return f"gq_{random.hex()}{zlib.crc32(random):08x}"


def is_key_text(text: str) -> bool:
    """Whether a text has the form of a key, and its checksum is right."""
    found = _KEY_TEXT.fullmatch(text)
    return found is not None and text == key_text(bytes.fromhex(found[1]))


class ProvenKey(msgspec.Struct, frozen=True, gc=False):
    """A key, and what it was proven by.

    `proof` names the secret without telling it: a key may have two, and each has its end. `until`
    is the end of the client certificate of the connection, if there is one.
    """

    id: KeyId
    proof: bytes = b""
    until: int | None = None


class Caller(msgspec.Struct, frozen=True, gc=False):
    """The key that a request proved, and where the request came from, for the audit log.

    `proof` and `until` are those of the `ProvenKey`: a request that goes on for long ends with what
    has proven it.
    """

    key: KeyId
    gateway: str = ""
    address: str = ""
    request_id: str = ""
    proof: bytes = b""
    until: int | None = None


# Every caller of a node without authentication: admin of the tenant `default`.
LOCAL = Caller(_LOCAL_KEY)
# A probe without a key: it may ask whether the node is well.
ANONYMOUS = Caller(_NO_KEY)
