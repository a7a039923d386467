"""What commands about keys, ACLs, tenants and quotas change: decided, and nothing else.

A single node carries a decision out at once; the controller of a cluster writes it into a record of
the metadata log, and every node carries it out when that is committed.

Invariant: to decide changes nothing. A decision holds as long as no other change is applied.
"""

from collections.abc import Callable, Sequence

import msgspec

from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.model import Code, Now, Refused
from goqueue.model.requests import (
    AclDeleted,
    AclDescription,
    AlterQuotas,
    AlterTenant,
    Command,
    CreateAcl,
    CreateKey,
    CreateTenant,
    DeleteAcl,
    KeyDescription,
    Reply,
    RevokeKey,
    RotateKey,
    SetTenantStatus,
)
from goqueue.security import (
    AclDeleted as AclDeletion,
)
from goqueue.security import (
    AclStated,
    FieldChange,
    KeyRevoked,
    KeyStated,
    SecurityRegistry,
    TenantStated,
    field_changes,
)

__all__ = ["ACCESS_COMMANDS", "AccessChanges", "AccessCommand", "AccessDecision", "DecidedChange"]

AccessCommand = (
    CreateKey
    | RevokeKey
    | RotateKey
    | CreateAcl
    | DeleteAcl
    | CreateTenant
    | AlterTenant
    | SetTenantStatus
    | AlterQuotas
)
ACCESS_COMMANDS: tuple[type[Command], ...] = (
    CreateKey,
    RevokeKey,
    RotateKey,
    CreateAcl,
    DeleteAcl,
    CreateTenant,
    AlterTenant,
    SetTenantStatus,
    AlterQuotas,
)
DecidedChange = KeyStated | KeyRevoked | AclStated | AclDeletion | TenantStated


class AccessDecision(msgspec.Struct, frozen=True):
    """A change, what the audit log says of it, and the answer once it was applied."""

    change: DecidedChange
    changes: Sequence[FieldChange]
    reply: Callable[[], Reply]


class AccessChanges:
    """Decides by what the registry of a node says."""

    def __init__(self, registry: SecurityRegistry, quotas: TenantQuotas) -> None:
        self._registry = registry
        self._quotas = quotas

    def decide(self, command: AccessCommand, now: Now) -> AccessDecision:
        """What a command changes; raises Refused."""
        match command:
            case CreateKey():
                created = self._registry.create_key(command, now.wall)
                return self._of_key(created, field_changes(None, created))
            case RevokeKey():
                revoked = self._registry.keys.revoke(command.id)
                return self._of_key(revoked, [FieldChange("is_revoked", new="true")])
            case RotateKey():
                before = self._registry.keys.state(command.id)
                rotated = self._registry.keys.rotate(command, now.wall)
                return self._of_key(rotated, field_changes(before, rotated))
            case CreateAcl():
                stated = self._registry.acls.create(command)
                described = AclDescription(id=stated.id, acl=stated.acl)
                return AccessDecision(stated, field_changes(None, stated.acl), lambda: described)
            case DeleteAcl():
                deleted = self._registry.acls.delete(command)
                changes = field_changes(self._registry.acls.get(command.id), None)
                return AccessDecision(deleted, changes, lambda: AclDeleted(id=command.id))
            case _:
                return self._decide_tenant(command, now)

    def _of_key(
        self, change: KeyStated | KeyRevoked, changes: Sequence[FieldChange]
    ) -> AccessDecision:
        keys = self._registry.keys

        def describe() -> KeyDescription:
            return keys.describe(keys.find(change.id))

        return AccessDecision(change, changes, describe)

    def _decide_tenant(
        self, command: CreateTenant | AlterTenant | SetTenantStatus | AlterQuotas, now: Now
    ) -> AccessDecision:
        tenants = self._registry.tenants
        match command:
            case CreateTenant():
                created = tenants.create(command, now.wall)
                self._check_prefix(command)
                return self._of_tenant(created, field_changes(None, created))
            case AlterTenant():
                altered = tenants.alter(command, now.wall)
                before = tenants.find(command.id).stated
                return self._of_tenant(altered, field_changes(before, altered))
            case SetTenantStatus():
                altered = tenants.set_status(command, now.wall)
                before = tenants.find(command.id).stated
                return self._of_tenant(altered, field_changes(before, altered))
            case AlterQuotas():
                altered = tenants.alter_quotas(command, now.wall)
                quotas = tenants.find(command.tenant).quotas
                changes = field_changes(quotas, altered.quotas)
                return AccessDecision(altered, changes, lambda: altered.quotas)

    def _check_prefix(self, command: CreateTenant) -> None:
        taken = self._quotas.names_with_prefix(command.id)
        if taken and not command.adopts:
            raise Refused(
                Code.TENANT_NOT_EMPTY,
                tenant=command.id,
                used=taken,
                reason="topics, groups or other things have its prefix: `adopt` makes them its own",
            )

    def _of_tenant(self, stated: TenantStated, changes: Sequence[FieldChange]) -> AccessDecision:
        tenants = self._registry.tenants
        return AccessDecision(stated, changes, lambda: tenants.find(stated.id).describe())
