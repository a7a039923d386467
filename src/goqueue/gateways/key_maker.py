"""New keys: the secret is drawn here, shown once, and kept by nobody.

What goes to the node are verifiers. They take a while to compute, so that is done in a thread, and
for one key at a time: many threads would take the processors from the event loop.
"""

import asyncio
import secrets

import msgspec

from goqueue.model import KEY_RANDOM_BYTES, KeyId, key_text
from goqueue.model.requests import SALT_BYTES, KeyVerifiers, make_verifiers

__all__ = ["KeyMaker", "NewSecret"]

# What of a key may be shown: enough to tell two of them apart.
_PREFIX_CHARACTERS = len("gq_") + 8


class NewSecret(msgspec.Struct, frozen=True):
    """The secret of a key, and what may be stored of it."""

    key: str
    prefix: str
    verifiers: KeyVerifiers

    def __repr__(self) -> str:
        return f"NewSecret({self.prefix}…)"


class KeyMaker:
    """Draws keys. `node_secret` seals verifiers that would be as good as the key."""

    def __init__(self, node_secret: bytes) -> None:
        self._node_secret = node_secret
        self._turn = asyncio.Lock()

    def new_id(self) -> KeyId:
        """An id that no other key has."""
        return KeyId(f"key_{secrets.token_hex(8)}")

    async def draw(self, key: KeyId) -> NewSecret:
        """A new secret for a key."""
        async with self._turn:
            return await asyncio.to_thread(self.draw_now, key)

    def draw_now(self, key: KeyId) -> NewSecret:
        """The same where nobody waits."""
        text = key_text(secrets.token_bytes(KEY_RANDOM_BYTES))
        return NewSecret(text, text[:_PREFIX_CHARACTERS], self.verify(key, text.encode()))

    def verify(self, key: KeyId, secret: bytes) -> KeyVerifiers:
        """The verifiers of a secret that somebody else drew: a root key."""
        salts = secrets.token_bytes(SALT_BYTES), secrets.token_bytes(SALT_BYTES)
        return make_verifiers(key, secret, self._node_secret, salts)
