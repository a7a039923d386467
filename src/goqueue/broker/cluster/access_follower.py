"""Follows keys, ACLs and tenants of the committed image: the registry of this node decides by them.

The only way by which the registry of a member changes. Change by change, as the records say; or all
at once, when this node has read an image that another one stated: at a start, or because it was far
behind. Until the last piece of such a statement is there the registry stays as it was: half of the
ACLs would allow what the other half denies.

Invariant: after a record was followed, the registry holds the keys, ACLs and tenants of the image;
or those of an earlier image while a statement is being read.
Cost: by what a record names; a whole image by all that differs, in one turn: nobody is ever judged
by a part of it.
"""

from goqueue.broker.state import NodeState
from goqueue.cluster import AccessChange, AccessTable
from goqueue.security import AclDeleted, AclStated, KeyDeleted, TenantDeleted

__all__ = ["AccessFollower"]


class AccessFollower:
    """Keeps the registry of this node equal to the table of its image."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        # What the registry was made equal to; nothing yet, or the table of an earlier image.
        self._followed: AccessTable | None = None
        self._has_changed = False

    def is_current(self, table: AccessTable) -> bool:
        """Whether the registry says what this table says."""
        return self._followed is table

    def apply(self, change: AccessChange, table: AccessTable) -> None:
        """A record has a change; of a table that is not followed yet all is taken later."""
        if self._followed is table:
            self._state.security.apply(change)
            self._has_changed = True

    def follow(self, table: AccessTable) -> None:
        """All records were followed."""
        if self._followed is not table and table.is_whole:
            self._adopt(table)
            self._followed = table
            self._has_changed = True

    def take_changed(self) -> bool:
        """Whether the registry has changed since the last call."""
        has_changed, self._has_changed = self._has_changed, False
        return has_changed

    def _adopt(self, table: AccessTable) -> None:
        registry = self._state.security
        for id_ in [each for each in registry.acls.ids if each not in table.acls]:
            registry.apply(AclDeleted(id=id_))
        for key in [each.id for each in registry.keys if each.id not in table.keys]:
            registry.apply(KeyDeleted(id=key))
        for name in [each.id for each in registry.tenants if not each.is_default]:
            if name not in table.tenants:
                registry.apply(TenantDeleted(id=name))
        for tenant in table.tenants.values():
            known = registry.tenants.get(tenant.id)
            if known is None or known.stated != tenant:
                registry.apply(tenant)
        for stated in table.keys.values():
            if registry.keys.state(stated.id) != stated:
                registry.apply(stated)
        for acl in table.acls.values():
            if registry.acls.get(acl.id) != acl.acl:
                registry.apply(AclStated(id=acl.id, acl=acl.acl))
        registry.claim_usage()
