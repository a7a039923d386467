"""Keys, ACLs, tenants and quotas: who may do what, and how much of it.

Owns the durable state of API keys, ACLs and tenants, and the decisions about them. Never draws a
secret, reads a clock or a file: the shell proves a key, the broker asks and journals.
Docs: docs/adr/0037-callers-and-access.md, docs/adr/0041-tenants-and-quotas.md,
docs/adr/0042-audit.md.
"""

from goqueue.security.access import UNLIMITED, Access, Admitted, NameFilter, Principal
from goqueue.security.acls import (
    ALIKE_MAX,
    GLOB_CHARACTERS_MAX,
    STARS_MAX,
    Acls,
    Glob,
    check_acl,
)
from goqueue.security.api_keys import (
    DEFAULT_TENANT,
    PAGE_MAX,
    ApiKey,
    ApiKeys,
    check_metadata,
    check_text,
)
from goqueue.security.audit import (
    AuditSubject,
    Denial,
    DenialFold,
    FoldedDenials,
    RecordRate,
    field_changes,
    recorded_commands,
    shown,
    subject_of,
)
from goqueue.security.changes import (
    USAGE_ENTRIES_MAX,
    AclDeleted,
    AclStated,
    AuditRecord,
    AuditRecorded,
    AuditWritten,
    FieldChange,
    KeyDeleted,
    KeyRevoked,
    KeyStated,
    SecurityChange,
    TenantDeleted,
    TenantStated,
    TenantTotals,
    UsageStated,
)
from goqueue.security.quotas import RateState, TenantMeter, TenantMeters, TokenBucket, check_count
from goqueue.security.registry import RegistryChange, SecurityRegistry
from goqueue.security.rules import RULES, Need, Rule, Scope, rule_of
from goqueue.security.tenants import NO_QUOTAS, Tenant, Tenants

__all__ = [
    "ALIKE_MAX",
    "DEFAULT_TENANT",
    "GLOB_CHARACTERS_MAX",
    "NO_QUOTAS",
    "PAGE_MAX",
    "RULES",
    "STARS_MAX",
    "UNLIMITED",
    "USAGE_ENTRIES_MAX",
    "Access",
    "AclDeleted",
    "AclStated",
    "Acls",
    "Admitted",
    "ApiKey",
    "ApiKeys",
    "AuditRecord",
    "AuditRecorded",
    "AuditSubject",
    "AuditWritten",
    "Denial",
    "DenialFold",
    "FieldChange",
    "FoldedDenials",
    "Glob",
    "KeyDeleted",
    "KeyRevoked",
    "KeyStated",
    "NameFilter",
    "Need",
    "Principal",
    "RateState",
    "RecordRate",
    "RegistryChange",
    "Rule",
    "Scope",
    "SecurityChange",
    "SecurityRegistry",
    "Tenant",
    "TenantDeleted",
    "TenantMeter",
    "TenantMeters",
    "TenantStated",
    "TenantTotals",
    "Tenants",
    "TokenBucket",
    "UsageStated",
    "check_acl",
    "check_count",
    "check_metadata",
    "check_text",
    "field_changes",
    "recorded_commands",
    "rule_of",
    "shown",
    "subject_of",
]
