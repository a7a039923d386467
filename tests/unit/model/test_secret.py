"""A secret is seen only by whoever asks for it."""

import copy
import json
import pickle

import msgspec
import pytest

from goqueue.client.credentials import Credentials
from goqueue.client.http import Settings
from goqueue.model import Secret

SECRET = Secret("hush")


def test_a_secret_is_revealed_only_on_request() -> None:
    assert SECRET.reveal() == "hush"
    for shown in (repr(SECRET), str(SECRET), f"{SECRET}", f"{SECRET!r:>20}", f"{[SECRET]}"):
        assert "hush" not in shown
        assert "***" in shown


def test_an_empty_secret_is_false_and_shows_that_it_is_empty() -> None:
    assert not Secret("")
    assert SECRET
    assert str(Secret("")) == ""


def test_a_secret_is_not_encoded_pickled_copied_or_compared() -> None:
    with pytest.raises(TypeError):
        json.dumps(SECRET)
    with pytest.raises(TypeError):
        msgspec.json.encode(SECRET)
    with pytest.raises(TypeError):
        pickle.dumps(SECRET)
    with pytest.raises(TypeError):
        copy.deepcopy(SECRET)
    with pytest.raises(TypeError):
        _ = Secret("hush") == SECRET
    with pytest.raises(TypeError):
        hash(SECRET)


def test_two_secrets_are_compared_by_name() -> None:
    assert SECRET.is_same(Secret("hush"))
    assert not SECRET.is_same(Secret("hus"))
    assert not SECRET.is_same(Secret("hüsh"))


def test_what_holds_a_secret_does_not_show_it_either() -> None:
    settings = Settings(server="http://a:1", credentials=Credentials(key=SECRET, source="a test"))
    assert "hush" not in repr(settings)
    with pytest.raises(TypeError):
        msgspec.json.encode(settings)
