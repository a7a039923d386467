"""Verifiers: by the vectors of RFC 7677, and by signing with the key itself."""

import base64
import hashlib
import hmac
import zlib

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import KEY_RANDOM_BYTES, KeyId, is_key_text, key_text
from goqueue.model.requests import derived_secret, key_digest, make_verifiers
from goqueue.model.requests.verifiers import scram_verifier, seal_sigv4, sigv4_secret

_RANDOM = st.binary(min_size=KEY_RANDOM_BYTES, max_size=KEY_RANDOM_BYTES)
_ID = KeyId("key_0123456789abcdef")
_SALTS = (b"a" * 16, b"b" * 16)


def test_a_scram_verifier_proves_the_exchange_of_rfc_7677() -> None:
    verifier = scram_verifier(
        b"pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), "sha256", 4096
    )
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    message = f"{first},c=biws,r={nonce}".encode()
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")

    signature = hmac.digest(verifier.stored_key, message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == verifier.stored_key
    server = hmac.digest(verifier.server_key, message, "sha256")
    assert base64.b64encode(server) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@given(_RANDOM, st.binary(max_size=40))
def test_the_sigv4_verifier_signs_like_the_key_itself(random: bytes, day: bytes) -> None:
    secret = key_text(random).encode()

    kept = hmac.digest(sigv4_secret(secret), day, "sha256")
    assert kept == hmac.digest(b"AWS4" + secret, day, "sha256")


@given(_RANDOM)
def test_the_sigv4_verifier_is_stored_sealed(random: bytes) -> None:
    secret, node_secret = key_text(random).encode(), b"n" * 32
    sealed = seal_sigv4(sigv4_secret(secret), node_secret, _ID)

    assert seal_sigv4(sealed, node_secret, _ID) == sigv4_secret(secret)
    assert seal_sigv4(sealed, b"m" * 32, _ID) != sigv4_secret(secret)


def test_no_stored_byte_string_is_a_credential() -> None:
    secret = key_text(bytes(range(28))).encode()
    stored = make_verifiers(_ID, secret, b"n" * 32, _SALTS)

    kept = [
        stored.digest,
        stored.sigv4,
        *(
            each
            for scram in (stored.scram_256, stored.scram_512)
            for each in (scram.stored_key, scram.server_key, scram.salt)
        ),
    ]
    for each in kept:
        assert key_digest(each) != stored.digest
        assert key_digest(each.hex().encode()) != stored.digest
        assert key_digest(base64.b64encode(each)) != stored.digest
    assert sigv4_secret(secret) not in kept


def test_two_salts_give_two_verifiers() -> None:
    stored = make_verifiers(_ID, b"x" * 67, b"n" * 32, _SALTS)

    assert stored.scram_256.salt != stored.scram_512.salt
    assert len(stored.scram_256.stored_key) == 32
    assert len(stored.scram_512.stored_key) == 64


def test_a_short_secret_has_no_verifier_for_sigv4() -> None:
    assert make_verifiers(_ID, b"x" * 40, b"n" * 32, _SALTS).sigv4 == b""


@given(_RANDOM)
def test_the_text_of_a_key_has_its_form_and_its_checksum(random: bytes) -> None:
    text = key_text(random)

    assert len(text) == 67
    assert text.startswith("gq_")
    assert int(text[-8:], 16) == zlib.crc32(random)
    assert is_key_text(text)


@given(_RANDOM, st.integers(3, 66), st.sampled_from("0123456789abcdef"))
def test_a_key_with_one_wrong_character_is_known_as_such(
    random: bytes, place: int, character: str
) -> None:
    text = key_text(random)
    wrong = text[:place] + character + text[place + 1 :]

    assert is_key_text(wrong) == (wrong == text)


def test_other_texts_are_no_keys() -> None:
    text = key_text(bytes(28))
    for wrong in ("", "gq_", text[:-1], text + "0", text.upper(), f" {text}", f"{text}\n"):
        assert not is_key_text(wrong)


def test_a_secret_is_derived_as_by_rfc_5869() -> None:
    vector = bytes.fromhex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d")
    assert derived_secret(b"\x0b" * 22, "") == vector
    assert derived_secret(b"\x0b" * 22, "sigv4") not in {vector, derived_secret(b"", "sigv4")}
