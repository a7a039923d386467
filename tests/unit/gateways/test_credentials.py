"""Secrets prove keys, and those who guess wait longer each time."""

import pytest

from goqueue.gateways.credentials import (
    SECRET_BYTES_MAX,
    Authenticator,
    FailedAttempts,
    key_digest,
)
from goqueue.gateways.peer import ClientCertificate, network_of
from goqueue.model import ANONYMOUS, LOCAL, Caller, KeyId, ProvenKey
from goqueue.model.requests import secret_proof

KEY = KeyId("key_0000000000000001")
SECRET = b"gq_secret"


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def identify(digest: bytes | None, _: tuple[str, ...]) -> ProvenKey | None:
    known = key_digest(SECRET)
    return ProvenKey(KEY, secret_proof(known)) if digest == known else None


def test_without_authentication_everybody_is_local() -> None:
    authenticator = Authenticator()
    assert not authenticator.is_on
    assert authenticator.caller(None, "http", "127.0.0.1", "id") is LOCAL


def test_a_secret_proves_its_key_and_no_other() -> None:
    authenticator = Authenticator(identify)
    proven = authenticator.prove(SECRET)
    proof = secret_proof(key_digest(SECRET))
    assert proven == ProvenKey(KEY, proof)
    assert authenticator.prove(SECRET + b"x") is None
    caller = authenticator.caller(proven, "http", "10.0.0.1", "id")
    assert caller == Caller(KEY, "http", "10.0.0.1", "id", proof)
    assert authenticator.caller(None, "http", "10.0.0.1", "id") is ANONYMOUS


def test_a_certificate_is_shown_by_its_fingerprint_first_and_then_its_names() -> None:
    asked: list[tuple[bytes | None, tuple[str, ...]]] = []

    def remember(digest: bytes | None, certificates: tuple[str, ...]) -> ProvenKey | None:
        asked.append((digest, certificates))
        return None

    certificate = ClientCertificate(names=("dns:a",), sha256="ab" * 32, expires_at_s=1.0)
    authenticator = Authenticator(remember)
    authenticator.prove(SECRET, certificate)
    authenticator.prove_certificate(certificate)
    proofs = ("sha256:" + "ab" * 32, "dns:a")
    assert asked == [(key_digest(SECRET), proofs), (None, proofs)]


def test_a_secret_that_is_too_long_is_not_even_hashed() -> None:
    def never(_: bytes | None, __: tuple[str, ...]) -> ProvenKey | None:
        raise AssertionError("it was looked up")

    assert Authenticator(never).prove(b"x" * (SECRET_BYTES_MAX + 1)) is None


def test_each_failure_of_an_address_is_answered_later_than_the_one_before() -> None:
    attempts = FailedAttempts(Clock())
    delays = []
    for _ in range(8):
        held = attempts.hold("10.0.0.1")
        assert held is not None
        delays.append(held.delay_s)
        held.release()
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    other = attempts.hold("10.0.0.2")
    assert other is not None
    assert other.delay_s == 0.1


def test_an_address_that_fails_no_more_is_forgotten() -> None:
    clock = Clock()
    attempts = FailedAttempts(clock)
    attempts.hold("10.0.0.1")
    clock.now_s += 61
    held = attempts.hold("10.0.0.1")
    assert held is not None
    assert held.delay_s == 0.1


def test_not_more_answers_are_held_back_than_the_limit() -> None:
    attempts = FailedAttempts(Clock(), held_max=2)
    first, second = attempts.hold("10.0.0.1"), attempts.hold("10.0.0.2")
    assert attempts.hold("10.0.0.3") is None
    assert first is not None
    first.release()
    first.release()
    assert attempts.held_count == 1
    assert second is not None
    assert attempts.hold("10.0.0.3") is not None


def test_a_hundred_thousand_guesses_one_by_one_take_days() -> None:
    clock = Clock()
    attempts = FailedAttempts(clock)
    for _ in range(100_000):
        held = attempts.hold("10.0.0.1")
        assert held is not None
        clock.now_s += held.delay_s
        held.release()
    assert clock.now_s > 5 * 24 * 3600


def test_of_a_hundred_thousand_guesses_at_once_few_are_answered_and_none_soon() -> None:
    clock = Clock()
    attempts = FailedAttempts(clock)
    answered: list[float] = []
    for number in range(100_000):
        held = attempts.hold(f"10.0.{number % 50}.1")
        if held is not None:
            answered.append(held.delay_s)
    # The rest is cut off, and learns nothing.
    assert len(answered) == attempts.held_count == 512
    assert sum(delay == 5.0 for delay in answered) > 150


def test_not_more_addresses_are_remembered_than_the_limit() -> None:
    attempts = FailedAttempts(Clock())
    for number in range(20_000):
        held = attempts.hold(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        assert held is not None
        held.release()
    # The oldest was forgotten, the newest was not.
    oldest, newest = attempts.hold("10.0.0.0"), attempts.hold("10.0.78.31")
    assert oldest is not None
    assert newest is not None
    assert (oldest.delay_s, newest.delay_s) == (0.1, 0.2)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("not an address", "not an address"),
    ],
)
def test_addresses_that_one_client_can_choose_count_as_one(address: str, network: str) -> None:
    assert network_of(address) == network
