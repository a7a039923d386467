"""Keys with verifiers that belong to no secret: the core never sees one."""

import hashlib

from goqueue.model import KeyId
from goqueue.model.requests import CreateKey, KeyVerifiers, Role, RotateKey, ScramVerifier

__all__ = ["key_id", "new_key", "new_secret", "verifiers_of"]


def key_id(number: int) -> KeyId:
    """The id of the n-th key."""
    return KeyId(f"key_{number:016x}")


def verifiers_of(secret: str) -> KeyVerifiers:
    """Verifiers that are told apart by the digest alone."""
    scram = ScramVerifier(salt=b"salt", iterations=1, stored_key=b"stored", server_key=b"server")
    digest = hashlib.sha256(secret.encode()).digest()
    return KeyVerifiers(digest=digest, scram_256=scram, scram_512=scram, sigv4=digest)


def new_key(
    number: int, tenant: str = "default", role: Role = Role.ADMIN, certificate: str = ""
) -> CreateKey:
    """The n-th key; its secret is `secret n`."""
    return CreateKey(
        id=key_id(number),
        prefix=f"gq_{number:08x}",
        verifiers=verifiers_of(f"secret {number}"),
        name=f"key {number}",
        roles=frozenset((role,)),
        tenant=tenant,
        certificate=certificate,
    )


def new_secret(number: int, secret: str, grace_ns: int = 0) -> RotateKey:
    """Another secret for the n-th key."""
    return RotateKey(
        id=key_id(number),
        prefix="gq_new",
        verifiers=verifiers_of(secret),
        grace_ns=grace_ns,
    )
