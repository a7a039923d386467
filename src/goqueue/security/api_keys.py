"""API keys: who is accepted, as whom, and until when.

Holds no secret: a key is found by the digest of its secret, which nobody can steer, so that the
time of the lookup tells nothing about the secrets of others. Revoked keys stay in the list without
their verifiers; what a key was is part of the audit.

Durable state changes only in `apply`. `record_use` is memory: `UsageStated` makes it durable from
time to time, so a crash forgets half a minute of it.

Invariants
- A digest belongs to one key, and so does the name of a certificate.
- A secret is accepted if its key is neither revoked nor expired and the secret is the newest, or
  the one before within its grace; nothing else is looked at.

Memory: about 2 KB for each key and its metadata, at most `KEYS_MAX` keys.
"""

import re
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator

import msgspec

from goqueue.model import ROOT_KEY, SECOND, Code, KeyId, ProvenKey, Refused, Timestamp
from goqueue.model.requests import (
    GRACE_NS_KEY_MAX,
    KEY_EXPIRES_NS_MAX,
    KEYS_MAX,
    METADATA_CHARACTERS_MAX,
    METADATA_MAX,
    CreateKey,
    KeyDescription,
    KeyList,
    KeyVerifiers,
    Role,
    RotateKey,
    secret_proof,
)
from goqueue.security.changes import (
    USAGE_ENTRIES_MAX,
    KeyDeleted,
    KeyRevoked,
    KeyStated,
    UsageStated,
)

__all__ = [
    "DEFAULT_TENANT",
    "PAGE_MAX",
    "ApiKey",
    "ApiKeys",
    "check_metadata",
    "check_text",
]

DEFAULT_TENANT = "default"
# A page is described in one turn.
PAGE_MAX = 1000
MINUTE = 60 * SECOND
# Longer than anybody waits: a key that shall not expire has no `expires_in` at all.
_ID = re.compile(r"key_[0-9a-f]{16}", re.ASCII)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_NEVER = Timestamp(2**63 - 1)
_FINGERPRINT = "sha256:"
_CERTIFICATE = re.compile(r"(?:uri|dns):[!-~]{1,1024}|sha256:[0-9a-f]{64}", re.ASCII)


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key: what it may be used for, and what proves it."""

    id: KeyId
    name: str
    prefix: str
    roles: frozenset[Role]
    tenant: str
    created_at: Timestamp
    expires_at: Timestamp | None = None
    is_revoked: bool = False
    certificate: str = ""
    metadata: dict[str, str] = {}
    verifiers: KeyVerifiers | None = None
    previous: KeyVerifiers | None = None
    previous_until: Timestamp = Timestamp(0)

    def is_usable(self, wall: Timestamp) -> bool:
        """Whether the key is in force."""
        return not self.is_revoked and (self.expires_at is None or wall < self.expires_at)


class _Secret(msgspec.Struct, frozen=True, gc=False):
    """What a digest proves and until when, written down once: every request asks for it."""

    proven: ProvenKey
    until: Timestamp
    # The only certificate over which it proves that; empty: any connection.
    certificate: str


class ApiKeys:
    """All keys of a node."""

    # Of a member of a cluster: whether it knows all that was decided before it began. Until then
    # it does not say who is accepted.
    is_current = True

    def __init__(self) -> None:
        self._keys: dict[KeyId, ApiKey] = {}
        self._ids: list[KeyId] = []
        self._by_digest: dict[bytes, _Secret] = {}
        self._by_certificate: dict[str, KeyId] = {}
        self._by_tenant: dict[str, dict[KeyId, None]] = {}
        self._root: ApiKey | None = None
        # To the minute; those whose minute is not in the journal are also in `_used`.
        self._last_used: dict[KeyId, Timestamp] = {}
        self._used: dict[KeyId, None] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[ApiKey]:
        """The keys in the order of their ids; not the root key."""
        return (self._keys[id_] for id_ in self._ids)

    def accept_root(self, verifiers: KeyVerifiers) -> None:
        """Accept a root key while the process lives: admin of the tenant `default`."""
        self._root = ApiKey(
            id=ROOT_KEY,
            name="root",
            prefix="",
            roles=frozenset((Role.ADMIN,)),
            tenant=DEFAULT_TENANT,
            created_at=Timestamp(0),
            verifiers=verifiers,
        )
        proven = ProvenKey(ROOT_KEY, secret_proof(verifiers.digest))
        self._by_digest[verifiers.digest] = _Secret(proven, _NEVER, "")

    # Asking

    def get(self, key: KeyId) -> ApiKey | None:
        """A key by its id, whatever its state; the root key as well."""
        return self._root if key == ROOT_KEY else self._keys.get(key)

    def of_tenant(self, tenant: str) -> list[KeyId]:
        """The keys of a tenant, in the order in which they were made."""
        return list(self._by_tenant.get(tenant, ()))

    def has_admin(self, wall: Timestamp) -> bool:
        """Whether somebody can administrate the node: an admin key of `default` is usable."""
        if self._root is not None:
            return True
        keys = (self._keys[id_] for id_ in self._by_tenant.get(DEFAULT_TENANT, ()))
        return any(Role.ADMIN in key.roles and key.is_usable(wall) for key in keys)

    def identify(
        self, digest: bytes, wall: Timestamp, certificates: Iterable[str] = ()
    ) -> ProvenKey | None:
        """The key that a secret with this digest proves now.

        The secret of a key that has a certificate proves nothing without it. The dictionary has
        compared the whole digest, which says nothing about the secret.
        """
        secret = self._by_digest.get(digest)
        if secret is None or wall >= secret.until:
            return None
        if secret.certificate and secret.certificate not in certificates:
            return None
        return secret.proven

    def identify_certificate(self, names: Iterable[str], wall: Timestamp) -> KeyId | None:
        """The key that a verified certificate proves: by its fingerprint or one of its names.

        The fingerprint is the more exact one and decides if it comes first. A certificate whose
        names belong to two usable keys proves neither: which was meant is not ours to guess.
        """
        found: KeyId | None = None
        for name in names:
            id_ = self._by_certificate.get(name)
            key = None if id_ is None else self._keys.get(id_)
            if key is None or not key.is_usable(wall):
                continue
            if found is not None and found != key.id:
                return None
            found = key.id
            if name.startswith(_FINGERPRINT):
                break
        return found

    # Describing

    def describe(self, key: ApiKey) -> KeyDescription:
        """What may be told of a key."""
        return KeyDescription(
            id=key.id,
            name=key.name,
            prefix=key.prefix,
            roles=tuple(sorted(key.roles)),
            tenant=key.tenant,
            created_at=key.created_at,
            expires_at=key.expires_at,
            last_used_at=self._last_used.get(key.id),
            is_revoked=key.is_revoked,
            metadata=key.metadata,
            certificate=key.certificate,
        )

    def list_page(self, after: str, limit: int) -> KeyList:
        """Keys in the order of their ids, after one of them."""
        count = max(1, min(limit, PAGE_MAX))
        begin = bisect_right(self._ids, after)
        page = self._ids[begin : begin + count]
        has_more = begin + count < len(self._ids)
        return KeyList(
            keys=tuple(self.describe(self._keys[id_]) for id_ in page),
            next=page[-1] if has_more else None,
        )

    # Deciding: each raises Refused, or returns the change to journal and apply

    def find(self, key: KeyId) -> ApiKey:
        """A key that is in the list."""
        found = self._keys.get(key)
        if found is None:
            raise Refused(Code.KEY_NOT_FOUND, key=key)
        return found

    def create(self, command: CreateKey, wall: Timestamp) -> KeyStated:
        """Accept a new key; that its tenant exists is the caller's to know."""
        if not _ID.fullmatch(command.id) or command.id in self._keys:
            raise Refused(Code.REQUEST_INVALID, field="id", reason="is taken or not an id of a key")
        check_text(command.name, "name", minimum=1)
        if not command.roles:
            raise Refused(Code.REQUEST_INVALID, field="roles", reason="at least one is needed")
        check_metadata(command.metadata)
        self._check_certificate(command.certificate)
        self._check_digest(command.verifiers)
        expires_in = command.expires_in_ns
        if expires_in is not None and not 0 < expires_in <= KEY_EXPIRES_NS_MAX:
            raise Refused(
                Code.REQUEST_INVALID, field="expires_in", reason="is not between 1ns and 100 years"
            )
        if len(self._keys) >= KEYS_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="keys", limit=KEYS_MAX, used=len(self._keys))
        return KeyStated(
            id=command.id,
            name=command.name,
            prefix=command.prefix,
            roles=tuple(sorted(command.roles)),
            tenant=command.tenant,
            created_at=wall,
            verifiers=command.verifiers,
            expires_at=None if expires_in is None else wall + expires_in,
            metadata=command.metadata,
            certificate=command.certificate,
        )

    def revoke(self, key: KeyId) -> KeyRevoked:
        """End a key. To revoke it again changes nothing."""
        return KeyRevoked(id=self.find(key).id)

    def rotate(self, command: RotateKey, wall: Timestamp) -> KeyStated:
        """Give a key another secret; of two before it only the last stays, for its grace."""
        key = self.find(command.id)
        if not key.is_usable(wall):
            end = "was revoked" if key.is_revoked else "has expired"
            reason = f"names a key that {end}: create another one"
            raise Refused(Code.REQUEST_INVALID, field="id", reason=reason)
        if not 0 <= command.grace_ns <= GRACE_NS_KEY_MAX:
            raise Refused(Code.REQUEST_INVALID, field="grace", reason="is not between 0s and 168h")
        self._check_digest(command.verifiers)
        return KeyStated(
            id=key.id,
            name=key.name,
            prefix=command.prefix,
            roles=tuple(sorted(key.roles)),
            tenant=key.tenant,
            created_at=key.created_at,
            verifiers=command.verifiers,
            expires_at=key.expires_at,
            metadata=key.metadata,
            certificate=key.certificate,
            previous=key.verifiers if command.grace_ns else None,
            previous_until=wall + command.grace_ns if command.grace_ns else 0,
        )

    def _check_certificate(self, certificate: str) -> None:
        if not certificate:
            return
        if not _CERTIFICATE.fullmatch(certificate):
            raise Refused(
                Code.REQUEST_INVALID,
                field="certificate",
                reason="begins with uri: or dns:, or is sha256: and 64 hex digits",
            )
        if certificate in self._by_certificate:
            raise Refused(Code.CERTIFICATE_IN_USE)

    def _check_digest(self, verifiers: KeyVerifiers) -> None:
        if verifiers.digest in self._by_digest:
            raise Refused(Code.REQUEST_INVALID, field="key", reason="the secret is in use")

    # Applying

    def apply(self, change: KeyStated | KeyRevoked | KeyDeleted) -> None:
        """The only mutator of durable state."""
        before = self._keys.get(change.id)
        if before is not None:
            self._unindex(before)
        if isinstance(change, KeyDeleted):
            if before is not None:
                self._forget(before)
            return
        if isinstance(change, KeyRevoked):
            if before is None:
                return
            key = msgspec.structs.replace(
                before,
                is_revoked=True,
                verifiers=None,
                previous=None,
                previous_until=Timestamp(0),
            )
        else:
            key = _from_stated(change)
        if before is None:
            insort(self._ids, key.id)
            self._by_tenant.setdefault(key.tenant, {})[key.id] = None
        self._keys[key.id] = key
        self._index(key)

    def _index(self, key: ApiKey) -> None:
        if key.is_revoked:
            return
        end = _NEVER if key.expires_at is None else key.expires_at
        grace_end = min(end, key.previous_until)
        for verifiers, until in ((key.previous, grace_end), (key.verifiers, end)):
            if verifiers is not None:
                proven = ProvenKey(key.id, secret_proof(verifiers.digest))
                self._by_digest[verifiers.digest] = _Secret(proven, until, key.certificate)
        if key.certificate:
            self._by_certificate[key.certificate] = key.id

    def _unindex(self, key: ApiKey) -> None:
        for verifiers in (key.verifiers, key.previous):
            if verifiers is not None:
                self._by_digest.pop(verifiers.digest, None)
        if self._by_certificate.get(key.certificate) == key.id:
            del self._by_certificate[key.certificate]

    def _forget(self, key: ApiKey) -> None:
        del self._keys[key.id]
        del self._ids[bisect_right(self._ids, key.id) - 1]
        of_tenant = self._by_tenant[key.tenant]
        del of_tenant[key.id]
        if not of_tenant:
            del self._by_tenant[key.tenant]
        self._last_used.pop(key.id, None)
        self._used.pop(key.id, None)

    def state(self, key: KeyId) -> KeyStated | None:
        """A key in full, for the journal."""
        found = self._keys.get(key)
        return None if found is None else _to_stated(found)

    # Use

    def record_use(self, key: KeyId, wall: Timestamp) -> None:
        """A request came with this key: remember the minute."""
        minute = Timestamp(wall - wall % MINUTE)
        if self._last_used.get(key) != minute and key in self._keys:
            self._last_used[key] = minute
            self._used[key] = None

    @property
    def untold_uses(self) -> int:
        """How many keys have uses that the journal does not know."""
        return len(self._used)

    def take_used(self) -> dict[KeyId, int]:
        """Uses that the journal does not know, a bounded number of them."""
        taken = list(self._used)[:USAGE_ENTRIES_MAX]
        for key in taken:
            del self._used[key]
        return {key: self._last_used[key] for key in taken}

    def apply_used(self, usage: UsageStated) -> None:
        """Take in uses that the journal knows."""
        for key, minute in usage.last_used.items():
            if key in self._keys and minute >= self._last_used.get(key, 0):
                self._last_used[key] = Timestamp(minute)

    def state_used(self, keys: Iterable[KeyId]) -> dict[KeyId, int]:
        """When these keys were used last, as far as that is known."""
        return {key: self._last_used[key] for key in keys if key in self._last_used}


def _from_stated(stated: KeyStated) -> ApiKey:
    return ApiKey(
        id=stated.id,
        name=stated.name,
        prefix=stated.prefix,
        roles=frozenset(stated.roles),
        tenant=stated.tenant,
        created_at=Timestamp(stated.created_at),
        expires_at=None if stated.expires_at is None else Timestamp(stated.expires_at),
        is_revoked=stated.is_revoked,
        certificate=stated.certificate,
        metadata=stated.metadata,
        verifiers=stated.verifiers,
        previous=stated.previous,
        previous_until=Timestamp(stated.previous_until),
    )


def _to_stated(key: ApiKey) -> KeyStated:
    return KeyStated(
        id=key.id,
        name=key.name,
        prefix=key.prefix,
        roles=tuple(sorted(key.roles)),
        tenant=key.tenant,
        created_at=key.created_at,
        verifiers=key.verifiers,
        expires_at=key.expires_at,
        is_revoked=key.is_revoked,
        metadata=key.metadata,
        certificate=key.certificate,
        previous=key.previous,
        previous_until=key.previous_until,
    )


# Texts that users give to keys and tenants


def check_text(text: str, field: str, *, minimum: int = 0, maximum: int = 256) -> None:
    """Refuse what is too long to store, or would break the lines of a log."""
    if not minimum <= len(text) <= maximum:
        reason = f"has between {minimum} and {maximum} characters"
        raise Refused(Code.REQUEST_INVALID, field=field, reason=reason)
    if _CONTROL.search(text):
        raise Refused(Code.REQUEST_INVALID, field=field, reason="has control characters")


def check_metadata(metadata: dict[str, str]) -> None:
    """Refuse metadata beyond its limits."""
    if len(metadata) > METADATA_MAX:
        raise Refused(Code.REQUEST_INVALID, field="metadata", maximum=METADATA_MAX)
    for name, value in metadata.items():
        check_text(name, "metadata", minimum=1, maximum=METADATA_CHARACTERS_MAX)
        check_text(value, "metadata", maximum=METADATA_CHARACTERS_MAX)
