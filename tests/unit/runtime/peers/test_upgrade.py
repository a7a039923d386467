"""What proves a broker at the head of a link."""

import pytest

from goqueue.model import Secret
from goqueue.runtime.peers import Credentials

ONE, OTHER = Secret("one secret".replace(" ", "-")), Secret("another-secret")


def bearer(secret: Secret) -> str:
    return f"Bearer {secret.reveal()}"


def test_the_first_secret_is_sent_and_each_is_accepted() -> None:
    credentials = Credentials(ONE, OTHER)
    assert credentials.header == f"Authorization: {bearer(ONE)}\r\n"
    assert credentials.prove(bearer(ONE), None)
    assert credentials.prove(bearer(OTHER), None)
    assert not credentials.prove(bearer(Secret("a third")), None)


def test_another_generation_begins_when_a_secret_is_no_longer_accepted() -> None:
    credentials = Credentials(ONE)
    assert not credentials.replace((ONE, OTHER))
    assert not credentials.replace((OTHER, ONE))
    assert credentials.generation == 0
    assert credentials.replace((OTHER,))
    assert credentials.generation == 1
    assert not credentials.prove(bearer(ONE), None)
    assert credentials.prove(bearer(OTHER), None)


@pytest.mark.parametrize("given", ["", "Bearer ", "Bearer", "Basic one-secret", "one-secret"])
def test_what_is_no_bearer_of_a_secret_proves_nothing(given: str) -> None:
    assert not Credentials(ONE, OTHER).prove(given, None)
    assert not Credentials(Secret(""), accepts_certificates=True).prove(given, None)
