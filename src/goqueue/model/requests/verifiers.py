"""What a node keeps of a secret, for each protocol that proves one.

Pure arithmetic: chance is handed in. Of a stolen journal none of these can be used to log in: the
digest is of 224 random bits, a SCRAM verifier only lets its thief pose as the server, and the one
for SigV4 is sealed with the secret of the node.

SigV4 signs with `"AWS4" + key`. That text is longer than the block of HMAC-SHA-256, which therefore
hashes it first: its hash yields the same signatures, and is what is kept instead of the key.
"""

import hashlib
import hmac

from goqueue.model.callers import KeyId
from goqueue.model.requests.security import KeyVerifiers, ScramVerifier

__all__ = [
    "SALT_BYTES",
    "SCRAM_ITERATIONS",
    "derived_secret",
    "key_digest",
    "make_verifiers",
    "scram_verifier",
    "seal_sigv4",
    "secret_proof",
    "sigv4_secret",
]

SCRAM_ITERATIONS = 10_000
SALT_BYTES = 16
_KEY_DIGEST = hashlib.sha256(b"goqueue api key\0")
_PROOF_BYTES = 8


def key_digest(secret: bytes) -> bytes:
    """The digest by which a key is found."""
    # A copy of a digest costs less than a new one, and this is done for every request.
    digest = _KEY_DIGEST.copy()
    digest.update(secret)
    return digest.digest()


def secret_proof(digest: bytes) -> bytes:
    """Which secret of a key was proven, from its digest: no use to anybody who learns it."""
    return digest[:_PROOF_BYTES]


def scram_verifier(
    password: bytes, salt: bytes, algorithm: str, iterations: int = SCRAM_ITERATIONS
) -> ScramVerifier:
    """StoredKey and ServerKey of RFC 5802 for `sha256` or `sha512`."""
    salted = hashlib.pbkdf2_hmac(algorithm, password, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    return ScramVerifier(
        salt=salt,
        iterations=iterations,
        stored_key=hashlib.new(algorithm, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", algorithm),
    )


def sigv4_secret(secret: bytes) -> bytes:
    """What signs like `"AWS4" + secret`, for secrets of 61 bytes and more."""
    signing = b"AWS4" + secret
    assert len(signing) > hashlib.sha256().block_size, "a short secret is not hashed by HMAC"
    return hashlib.sha256(signing).digest()


def derived_secret(shared: bytes, purpose: str) -> bytes:
    """A secret for one purpose from one that several nodes share: HKDF-SHA256, without a salt."""
    extracted = hmac.digest(bytes(hashlib.sha256().digest_size), shared, "sha256")
    return hmac.digest(extracted, purpose.encode() + b"\x01", "sha256")


def seal_sigv4(value: bytes, node_secret: bytes, key: KeyId) -> bytes:
    """Seal a value with the secret of the node, or open what was sealed."""
    pad = hmac.digest(node_secret, b"sigv4" + key.encode(), "sha256")
    return bytes(each ^ other for each, other in zip(value, pad, strict=True))


def make_verifiers(
    key: KeyId, secret: bytes, node_secret: bytes, salts: tuple[bytes, bytes]
) -> KeyVerifiers:
    """All verifiers of a secret; takes some ten milliseconds, so not on an event loop.

    A secret of another form than that of a key, a short root key, has none for SigV4.
    """
    has_sigv4 = len(secret) + len(b"AWS4") > hashlib.sha256().block_size
    return KeyVerifiers(
        digest=key_digest(secret),
        scram_256=scram_verifier(secret, salts[0], "sha256"),
        scram_512=scram_verifier(secret, salts[1], "sha512"),
        sigv4=seal_sigv4(sigv4_secret(secret), node_secret, key) if has_sigv4 else b"",
    )
