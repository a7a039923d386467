"""Tenants and ACLs of a backup: checked first, and in force with the decision of the restore.

They are journaled in the turn of the decision, before it, so that a topic never exists without the
tenant that it belongs to. What the node has already stays as it is. ACLs of keys that the node does
not know are kept and have no effect; a backup has no keys.

A rule that allows something and is not here is left out and counted if a key that it is about was
here at the moment of the backup: somebody deleted the rule since, and a restore must not give back
what was taken from a key. Rules that deny come back in any case. No ACL of a backup is lost
unseen: their number and their sum are compared with what the backup says.

Bound: `ACCESS_ITEMS_MAX` tenants and ACLs, which fit into one turn.
"""

from collections.abc import Callable, Sequence

import msgspec

from goqueue.broker.backup_state import AclsSaved, acls_digest
from goqueue.model import Code, KeyId, Refused, Timestamp
from goqueue.model.requests import (
    AclEffect,
    AclSpec,
    CreateAcl,
    CreateTenant,
    QuotaChanges,
    TenantStatus,
)
from goqueue.security import AclStated, SecurityRegistry, TenantStated

__all__ = ["ACCESS_ITEMS_MAX", "RestoredAccess"]

ACCESS_ITEMS_MAX = 2_000
_KEY_PREFIX = "key_"


class RestoredAccess:
    """What one restore brings."""

    def __init__(self, security: SecurityRegistry, count_names: Callable[[str], int]) -> None:
        """`count_names` tells how many names of the node begin with the prefix of a tenant."""
        self._security = security
        self._count_names = count_names
        self._told: AclsSaved | None = None
        self._seen: dict[str, AclSpec] = {}
        self.acls_skipped = 0
        self.tenants_restored = 0
        self.acls_restored = 0
        self._acls_expected = 0
        self._tenants: list[TenantStated] = []
        self._acls: list[AclStated] = []

    def check(
        self, item: TenantStated | AclStated | AclsSaved, moment: Timestamp, *, skips: bool
    ) -> None:
        """Take in an item, or leave it out if the node has it; refuses what could not be made.

        `moment` is that of the backup.
        """
        if isinstance(item, AclsSaved):
            self._told = item
            return
        if isinstance(item, TenantStated):
            self._check_tenant(item, skips=skips)
        else:
            self._seen[item.id] = item.acl
            if self._security.acls.get(item.id) is None:
                stated = self._security.acls.create(CreateAcl(id=item.id, acl=item.acl))
                if self._was_deleted(item.acl, moment):
                    self.acls_skipped += 1
                else:
                    self._acls.append(stated)
        if len(self._tenants) + len(self._acls) > ACCESS_ITEMS_MAX:
            reason = f"it has more than {ACCESS_ITEMS_MAX} tenants and ACLs"
            raise Refused(Code.REQUEST_INVALID, reason=reason)

    def check_whole(self) -> None:
        """Refuse a backup that has lost an ACL, or got another; older ones do not tell."""
        told = self._told
        if told is None:
            return
        if told != AclsSaved(count=len(self._seen), digest=acls_digest(self._seen)):
            reason = f"it has {len(self._seen)} ACLs, which are not the {told.count} that it names"
            raise Refused(Code.REQUEST_INVALID, reason=reason)

    def _was_deleted(self, acl: AclSpec, moment: Timestamp) -> bool:
        """Whether a rule would give something to a key that had it at the moment of the backup."""
        if acl.effect is not AclEffect.ALLOW:
            return False
        keys = self._security.keys
        if acl.principal.startswith(_KEY_PREFIX):
            key = keys.get(KeyId(acl.principal))
            return key is not None and key.created_at <= moment
        return any(key.created_at <= moment for key in keys)

    def _check_tenant(self, saved: TenantStated, *, skips: bool) -> None:
        tenants = self._security.tenants
        if tenants.get(saved.id) is not None:
            return
        if saved.status is TenantStatus.DELETING:
            raise Refused(Code.REQUEST_INVALID, field="status", reason="is not that of a tenant")
        command = CreateTenant(
            id=saved.id,
            name=saved.name,
            display_name=saved.display_name,
            description=saved.description,
            quotas=QuotaChanges(**msgspec.structs.asdict(saved.quotas)),
            metadata=saved.metadata,
        )
        created = tenants.create(command, Timestamp(saved.created_at))
        used = self._count_names(saved.id)
        if used and skips:
            # Names that are there belong to somebody else.
            return
        if used:
            raise Refused(
                Code.TENANT_NOT_EMPTY,
                tenant=saved.id,
                used=used,
                reason="names of the node have its prefix",
            )
        self._tenants.append(
            msgspec.structs.replace(
                created,
                status=saved.status,
                suspended_at=saved.suspended_at,
                suspend_reason=saved.suspend_reason,
            )
        )

    def brings(self, tenant: str) -> bool:
        """Whether a tenant comes with this restore."""
        return any(each.id == tenant for each in self._tenants)

    def changes(self) -> Sequence[TenantStated | AclStated]:
        """What puts it in force. What came into being meanwhile stays."""
        security = self._security
        tenants = [each for each in self._tenants if security.tenants.get(each.id) is None]
        acls = [each for each in self._acls if security.acls.get(each.id) is None]
        self.tenants_restored, self.acls_restored = len(tenants), len(acls)
        self._acls_expected = len(security.acls) + len(acls)
        return [*tenants, *acls]

    def verify(self) -> None:
        """The changes are applied: every rule is there, and nothing else went."""
        acls = self._security.acls
        assert len(acls) == self._acls_expected, "a restore changed the number of ACLs"
        assert all(acls.get(each.id) is not None for each in self._acls), "a restore lost an ACL"
