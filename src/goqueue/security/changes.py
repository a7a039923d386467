"""Journal entries about keys, ACLs, tenants and usage. Past tense; applied without a clock.

The structs are stored: fields are only added, at the end, with a default. A version that does not
know a tag refuses to start, so nobody loses an ACL by going back to it.

Each is small enough for a journal record of its own: texts and metadata have limits, and usage is
stated in pieces of at most `USAGE_ENTRIES_MAX` entries.
"""

import msgspec

from goqueue.model import KeyId
from goqueue.model.requests import AclSpec, KeyVerifiers, Quotas, Role, TenantStatus

__all__ = [
    "USAGE_ENTRIES_MAX",
    "AclDeleted",
    "AclStated",
    "AuditRecord",
    "AuditRecorded",
    "AuditWritten",
    "FieldChange",
    "KeyDeleted",
    "KeyRevoked",
    "KeyStated",
    "SecurityChange",
    "TenantDeleted",
    "TenantStated",
    "TenantTotals",
    "UsageStated",
]

USAGE_ENTRIES_MAX = 256


class KeyStated(msgspec.Struct, frozen=True, kw_only=True, tag="key", omit_defaults=True):
    """A key in full, after a change of any kind. A revoked key has no verifiers."""

    id: KeyId
    name: str
    prefix: str
    roles: tuple[Role, ...]
    tenant: str
    created_at: int
    verifiers: KeyVerifiers | None
    expires_at: int | None = None
    is_revoked: bool = False
    metadata: dict[str, str] = {}
    certificate: str = ""
    # Of the secret before the last rotation, and up to when it is accepted.
    previous: KeyVerifiers | None = None
    previous_until: int = 0


class KeyRevoked(msgspec.Struct, frozen=True, kw_only=True, tag="key_revoked"):
    """A key was revoked. It stays in the list, without its verifiers."""

    id: KeyId


class KeyDeleted(msgspec.Struct, frozen=True, kw_only=True, tag="key_deleted"):
    """A key is gone, with its tenant."""

    id: KeyId


class AclStated(msgspec.Struct, frozen=True, kw_only=True, tag="acl"):
    """An ACL under its id."""

    id: str
    acl: AclSpec


class AclDeleted(msgspec.Struct, frozen=True, kw_only=True, tag="acl_deleted"):
    """An ACL is gone."""

    id: str


class TenantStated(msgspec.Struct, frozen=True, kw_only=True, tag="tenant", omit_defaults=True):
    """A tenant in full, after a change of any kind."""

    id: str
    name: str
    created_at: int
    updated_at: int
    quotas: Quotas
    display_name: str = ""
    description: str = ""
    status: TenantStatus = TenantStatus.ACTIVE
    metadata: dict[str, str] = {}
    suspended_at: int | None = None
    suspend_reason: str = ""


class TenantDeleted(msgspec.Struct, frozen=True, kw_only=True, tag="tenant_deleted"):
    """A tenant is gone, after everything that it had."""

    id: str


class TenantTotals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tenant has used since its totals were reset."""

    tenant: str
    published_messages: int = 0
    published_bytes: int = 0
    consumed_messages: int = 0
    consumed_bytes: int = 0
    violations: int = 0
    updated_at: int = 0


class UsageStated(msgspec.Struct, frozen=True, kw_only=True, tag="usage", omit_defaults=True):
    """When keys were used last, to the minute, and the totals of tenants."""

    last_used: dict[KeyId, int] = {}
    totals: tuple[TenantTotals, ...] = ()


class FieldChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One field that a command changed, as text; None: it was not there, or is not any more."""

    field: str
    old: str | None = None
    new: str | None = None


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who did what to what, and what came of it: a record of the audit log as it is stored.

    `count` is above one where like records were folded into this one. In a cluster `version` and
    `part` say up to which record of the metadata, and which of its changes, the audit log of this
    node has them, this one included: the records of one change have the same on every node.
    """

    number: int
    time: str
    node: str
    action: str
    resource: str
    outcome: str
    key: str
    key_name: str = ""
    tenant: str = ""
    roles: tuple[str, ...] = ()
    address: str = ""
    gateway: str = ""
    request_id: str = ""
    code: str = ""
    count: int = 1
    changes: tuple[FieldChange, ...] = ()
    version: int = 0
    part: int = 0


class AuditRecorded(msgspec.Struct, frozen=True, kw_only=True, tag="audit"):
    """The audit record of the changes beside it: the audit log is to have it.

    The numbers of both journals together rise without gaps, except for what was only written to the
    audit log. In the metadata log of a cluster a record has no number: every node gives it one of
    its own. `request` is known to the node that the record names, as long as that runs.
    """

    record: AuditRecord
    request: int = 0


class AuditWritten(msgspec.Struct, frozen=True, kw_only=True, tag="audit_written"):
    """The audit log has every record up to this number, and to this part of the metadata."""

    upto: int
    version: int = 0
    part: int = 0


SecurityChange = (
    KeyStated
    | KeyRevoked
    | KeyDeleted
    | AclStated
    | AclDeleted
    | TenantStated
    | TenantDeleted
    | UsageStated
    | AuditRecorded
    | AuditWritten
)
