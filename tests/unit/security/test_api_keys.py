"""Keys: which secret proves which key, and until when."""

import base64
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from goqueue.model import (
    HOUR,
    KEY_RANDOM_BYTES,
    ROOT_KEY,
    SECOND,
    Code,
    KeyId,
    Refused,
    Timestamp,
    key_text,
)
from goqueue.model.requests import (
    GRACE_NS_KEY_MAX,
    METADATA_MAX,
    KeyVerifiers,
    Role,
    key_digest,
    make_verifiers,
)
from goqueue.security import ApiKeys, KeyDeleted, KeyStated, UsageStated
from tests.unit.security.secrets import key_id, new_key, new_secret, verifiers_of

_NOW = Timestamp(1_000 * HOUR)


def _digest(secret: str) -> bytes:
    return verifiers_of(secret).digest


def _identify(
    keys: ApiKeys, digest: bytes, at: Timestamp, certificates: Iterable[str] = ()
) -> KeyId | None:
    proven = keys.identify(digest, at, certificates)
    return None if proven is None else proven.id


def _with_key(**changes: object) -> ApiKeys:
    keys = ApiKeys()
    keys.apply(keys.create(msgspec.structs.replace(new_key(1), **changes), _NOW))
    return keys


def test_a_secret_proves_its_key_and_no_other() -> None:
    keys = _with_key()

    assert _identify(keys, _digest("secret 1"), _NOW) == key_id(1)
    assert _identify(keys, _digest("secret 2"), _NOW) is None


def test_a_key_is_worth_nothing_from_its_expiry_on() -> None:
    keys = _with_key(expires_in_ns=HOUR)

    assert _identify(keys, _digest("secret 1"), Timestamp(_NOW + HOUR - 1)) == key_id(1)
    assert _identify(keys, _digest("secret 1"), Timestamp(_NOW + HOUR)) is None


def test_a_revoked_key_stays_in_the_list_without_its_verifiers() -> None:
    keys = _with_key(certificate="dns:worker.example")
    keys.apply(keys.revoke(key_id(1)))

    (listed,) = keys.list_page("", 10).keys
    assert listed.is_revoked
    stated = keys.state(key_id(1))
    assert stated is not None
    assert stated.verifiers is None
    assert stated.previous is None
    assert _identify(keys, _digest("secret 1"), _NOW) is None
    assert keys.identify_certificate(["dns:worker.example"], _NOW) is None


def test_revoking_twice_changes_nothing_and_an_unknown_key_is_refused() -> None:
    keys = _with_key()
    keys.apply(keys.revoke(key_id(1)))
    keys.apply(keys.revoke(key_id(1)))

    with pytest.raises(Refused) as refused:
        keys.revoke(key_id(2))
    assert refused.value.code is Code.KEY_NOT_FOUND


def test_the_secret_before_a_rotation_is_accepted_for_its_grace() -> None:
    keys = _with_key()
    keys.apply(keys.rotate(new_secret(1, "newer", HOUR), _NOW))

    assert _identify(keys, _digest("newer"), _NOW) == key_id(1)
    assert _identify(keys, _digest("secret 1"), Timestamp(_NOW + HOUR - 1)) == key_id(1)
    assert _identify(keys, _digest("secret 1"), Timestamp(_NOW + HOUR)) is None
    assert _identify(keys, _digest("newer"), Timestamp(_NOW + HOUR)) == key_id(1)


def test_a_rotation_without_grace_ends_the_old_secret_at_once() -> None:
    keys = _with_key()
    keys.apply(keys.rotate(new_secret(1, "newer"), _NOW))

    assert _identify(keys, _digest("secret 1"), _NOW) is None


def test_two_rotations_leave_the_last_two_secrets() -> None:
    keys = _with_key()
    keys.apply(keys.rotate(new_secret(1, "second", HOUR), _NOW))
    keys.apply(keys.rotate(new_secret(1, "third", HOUR), _NOW))

    assert _identify(keys, _digest("secret 1"), _NOW) is None
    assert _identify(keys, _digest("second"), _NOW) == key_id(1)
    assert _identify(keys, _digest("third"), _NOW) == key_id(1)


@pytest.mark.parametrize("grace", [-1, GRACE_NS_KEY_MAX + 1])
def test_a_grace_outside_its_limits_is_refused(grace: int) -> None:
    keys = _with_key()

    with pytest.raises(Refused) as refused:
        keys.rotate(new_secret(1, "newer", grace), _NOW)
    assert refused.value.facts.get("field") == "grace"


def test_a_revoked_or_expired_key_is_not_rotated() -> None:
    keys = _with_key(expires_in_ns=HOUR)
    with pytest.raises(Refused):
        keys.rotate(new_secret(1, "newer"), Timestamp(_NOW + HOUR))
    keys.apply(keys.revoke(key_id(1)))
    with pytest.raises(Refused):
        keys.rotate(new_secret(1, "newer"), _NOW)


def test_a_certificate_proves_its_key_by_its_exact_name() -> None:
    keys = _with_key(certificate="dns:worker.example")

    assert keys.identify_certificate(["dns:other", "dns:worker.example"], _NOW) == key_id(1)
    assert keys.identify_certificate(["dns:worker.example.org"], _NOW) is None
    assert keys.identify_certificate(["uri:worker.example"], _NOW) is None


def test_a_certificate_with_the_names_of_two_keys_proves_neither_unless_one_is_its_own() -> None:
    keys = _with_key(certificate="dns:a")
    keys.apply(keys.create(msgspec.structs.replace(new_key(2), certificate="dns:b"), _NOW))
    exact = "sha256:" + "0" * 64
    keys.apply(keys.create(msgspec.structs.replace(new_key(3), certificate=exact), _NOW))

    assert keys.identify_certificate(["dns:a", "dns:b"], _NOW) is None
    assert keys.identify_certificate([exact, "dns:a", "dns:b"], _NOW) == key_id(3)
    keys.apply(keys.revoke(key_id(1)))
    assert keys.identify_certificate(["dns:a", "dns:b"], _NOW) == key_id(2)


def test_the_secret_of_a_key_with_a_certificate_works_only_over_it() -> None:
    keys = _with_key(certificate="dns:worker.example")

    assert _identify(keys, _digest("secret 1"), _NOW) is None
    assert _identify(keys, _digest("secret 1"), _NOW, ["dns:worker.example"]) == key_id(1)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": KeyId("key_1")},
        {"id": KeyId("key_ABCDEFABCDEFABCD")},
        {"id": ROOT_KEY},
        {"name": ""},
        {"name": "x" * 257},
        {"name": "tab\tbed"},
        {"roles": frozenset()},
        {"expires_in_ns": 0},
        {"expires_in_ns": -1},
        {"expires_in_ns": 1 << 63},
        {"metadata": {f"n{number}": "" for number in range(METADATA_MAX + 1)}},
        {"metadata": {"": "empty name"}},
        {"metadata": {"name": "é" * 257}},
        {"certificate": "cn:worker"},
        {"certificate": "dns:"},
        {"certificate": "sha256:ABC"},
        {"certificate": "dns:with space"},
    ],
)
def test_a_key_that_breaks_a_limit_is_refused(changes: dict[str, object]) -> None:
    keys = ApiKeys()

    with pytest.raises(Refused) as refused:
        keys.create(msgspec.structs.replace(new_key(1), **changes), _NOW)
    assert refused.value.code is Code.REQUEST_INVALID
    assert len(keys) == 0


def test_an_id_a_secret_or_a_certificate_belongs_to_one_key() -> None:
    keys = _with_key(certificate="dns:a")

    for command in (
        msgspec.structs.replace(new_key(2), id=key_id(1)),
        msgspec.structs.replace(new_key(2), verifiers=verifiers_of("secret 1")),
        msgspec.structs.replace(new_key(2), certificate="dns:a"),
    ):
        with pytest.raises(Refused):
            keys.create(command, _NOW)


def test_a_certificate_that_proves_another_key_is_a_conflict_until_that_key_is_revoked() -> None:
    keys = _with_key(certificate="dns:a")
    second = msgspec.structs.replace(new_key(2), certificate="dns:a")

    with pytest.raises(Refused) as refused:
        keys.create(second, _NOW)
    assert refused.value.code is Code.CERTIFICATE_IN_USE

    keys.apply(keys.revoke(key_id(1)))
    keys.apply(keys.create(second, _NOW))
    assert keys.identify_certificate(["dns:a"], _NOW) == key_id(2)


def test_the_root_key_is_known_by_its_secret_and_is_in_no_list() -> None:
    keys = ApiKeys()
    assert not keys.has_admin(_NOW)
    keys.accept_root(verifiers_of("the root"))

    assert _identify(keys, _digest("the root"), _NOW) == ROOT_KEY
    root = keys.get(ROOT_KEY)
    assert root is not None
    assert root.roles == {Role.ADMIN}
    assert keys.list_page("", 10).keys == ()
    assert keys.has_admin(_NOW)
    with pytest.raises(Refused):
        keys.revoke(ROOT_KEY)


def test_only_a_usable_admin_key_of_default_administrates_a_node() -> None:
    keys = ApiKeys()
    keys.apply(keys.create(new_key(1, role=Role.PRODUCER), _NOW))
    keys.apply(keys.create(new_key(2, tenant="acme"), _NOW))
    assert not keys.has_admin(_NOW)
    admin = msgspec.structs.replace(new_key(3), expires_in_ns=HOUR)
    keys.apply(keys.create(admin, _NOW))
    assert keys.has_admin(_NOW)
    assert not keys.has_admin(Timestamp(_NOW + HOUR))


def test_pages_follow_each_other_without_gaps() -> None:
    keys = ApiKeys()
    for number in (5, 1, 4, 2, 3):
        keys.apply(keys.create(new_key(number), _NOW))

    first = keys.list_page("", 2)
    second = keys.list_page(first.next or "", 2)
    third = keys.list_page(second.next or "", 2)
    found = [key.id for page in (first, second, third) for key in page.keys]
    assert found == [key_id(number) for number in range(1, 6)]
    assert third.next is None


def test_the_last_use_is_told_to_the_minute_and_once_a_minute() -> None:
    keys = _with_key()
    keys.record_use(key_id(1), Timestamp(_NOW + 61 * SECOND))
    keys.record_use(key_id(1), Timestamp(_NOW + 62 * SECOND))
    keys.record_use(KeyId("local"), _NOW)

    assert keys.take_used() == {key_id(1): _NOW + 60 * SECOND}
    assert keys.take_used() == {}
    assert keys.list_page("", 1).keys[0].last_used_at == _NOW + 60 * SECOND


def test_a_use_that_the_journal_knows_does_not_go_back() -> None:
    keys = _with_key()
    keys.record_use(key_id(1), Timestamp(_NOW + HOUR))
    keys.apply_used(UsageStated(last_used={key_id(1): _NOW, key_id(2): _NOW}))

    assert keys.state_used([key_id(1), key_id(2)]) == {key_id(1): _NOW + HOUR}


def test_no_text_of_a_key_shows_more_than_its_prefix() -> None:
    stated = ApiKeys().create(new_key(1), _NOW)

    assert b"secret" not in msgspec.json.encode(stated)


class KeysMachine(RuleBasedStateMachine):
    """Keys against a plain list of secrets, with a clock that only rises."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = ApiKeys()
        self.now = _NOW
        self.made = 0
        # By secret: its key, and when it ends; None: with its key.
        self.accepted: dict[str, KeyId] = {}
        self.ends: dict[str, int] = {}
        self.secrets: dict[KeyId, list[str]] = {}

    def _apply(self, stated: KeyStated) -> None:
        self.keys.apply(msgspec.json.decode(msgspec.json.encode(stated), type=KeyStated))

    @rule(expires=st.none() | st.integers(1, 50))
    def create(self, expires: int | None) -> None:
        self.made += 1
        command = msgspec.structs.replace(new_key(self.made), expires_in_ns=expires)
        self._apply(self.keys.create(command, self.now))
        secret = f"secret {self.made}"
        self.accepted[secret] = command.id
        self.secrets[command.id] = [secret]
        if expires is not None:
            self.ends[secret] = self.now + expires

    @precondition(lambda self: self.secrets)
    @rule(data=st.data(), grace=st.integers(0, 50))
    def rotate(self, data: st.DataObject, grace: int) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.secrets)))
        self.made += 1
        secret = f"secret {self.made}"
        number = int(id_[4:], 16)
        key = self.keys.get(id_)
        assert key is not None
        try:
            self._apply(self.keys.rotate(new_secret(number, secret, grace), self.now))
        except Refused:
            assert not key.is_usable(self.now)
            return
        *older, last = self.secrets[id_]
        for each in older:
            self.accepted.pop(each, None)
        own_end = key.expires_at if key.expires_at is not None else 1 << 62
        self.ends[last] = min(own_end, self.now + grace)
        self.accepted[secret] = id_
        self.ends[secret] = own_end
        self.secrets[id_] = [last, secret]

    @precondition(lambda self: self.secrets)
    @rule(data=st.data(), is_deleted=st.booleans())
    def end(self, data: st.DataObject, *, is_deleted: bool) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.secrets)))
        self.keys.apply(KeyDeleted(id=id_) if is_deleted else self.keys.revoke(id_))
        for secret in self.secrets.pop(id_):
            self.accepted.pop(secret, None)

    @rule(step=st.integers(1, 30))
    def wait(self, step: int) -> None:
        self.now = Timestamp(self.now + step)

    @invariant()
    def exactly_the_accepted_secrets_prove_their_keys(self) -> None:
        for number in range(1, self.made + 1):
            secret = f"secret {number}"
            expected = self.accepted.get(secret)
            if expected is not None and self.ends.get(secret, 1 << 62) <= self.now:
                expected = None
            assert _identify(self.keys, _digest(secret), self.now) == expected


KeysMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestKeysMachine = KeysMachine.TestCase


def test_verifiers_survive_the_journal() -> None:
    verifiers = verifiers_of("x")

    assert msgspec.json.decode(msgspec.json.encode(verifiers), type=KeyVerifiers) == verifiers


def test_nothing_that_is_stored_of_a_key_proves_it() -> None:
    """A thief of the journal tries every piece of it, as it is and in each usual form."""
    id_ = key_id(1)
    secret = key_text(bytes(range(KEY_RANDOM_BYTES)))
    node_secret = bytes(32)
    salts = bytes(16), bytes(range(16))
    keys = _with_key(verifiers=make_verifiers(id_, secret.encode(), node_secret, salts))
    stated = keys.state(id_)
    assert stated is not None
    assert stated.verifiers is not None
    assert _identify(keys, key_digest(secret.encode()), _NOW) == id_

    stored = _texts_and_bytes(msgspec.to_builtins(stated, builtin_types=(bytes,)))
    assert stated.verifiers.digest in stored
    assert len(stored) > 10
    tried = 0
    for each in stored:
        pieces = {each[start:end] for start in range(len(each)) for end in range(start, len(each))}
        for piece in {each, *pieces}:
            hexed, encoded = piece.hex().encode(), base64.b64encode(piece)
            forms = (piece, hexed, encoded, encoded.rstrip(b"="), b"gq_" + hexed)
            for guess in forms:
                tried += 1
                assert _identify(keys, key_digest(guess), _NOW) is None, guess
    assert tried > 10_000


def _texts_and_bytes(value: object) -> list[bytes]:
    """Every text and every value of bytes in what msgspec encodes."""
    if isinstance(value, dict):
        return [found for each in value.values() for found in _texts_and_bytes(each)]
    if isinstance(value, list | tuple):
        return [found for each in value for found in _texts_and_bytes(each)]
    if isinstance(value, str):
        return [value.encode()]
    return [value] if isinstance(value, bytes) else []
