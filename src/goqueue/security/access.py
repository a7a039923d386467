"""Whether a caller may do what it asks for, decided at the moment of the command.

The order of the checks: the key is usable, its tenant is active, a role may send the command, the
names belong to the tenant, they are not internal, and with ACLs on a rule allows it. Names are
checked before objects: a refused caller gets the same answer whether the object exists or not.

| refused because | answer |
|---|---|
| the key is unknown, revoked or expired | `unauthenticated` |
| the node joins its cluster and does not know its keys yet | `leader_unavailable` |
| the tenant is suspended or disabled | `tenant_inactive` |
| no role may, no ACL allows, or a name is created outside the own tenant | `permission_denied` |
| the name belongs to another tenant | as if it did not exist |
| the name is internal | `topic_internal`, to other tenants as if it did not exist |

Invariant: a decision is remembered only as long as no key, ACL or tenant changes (`version`).
Cost: a command that was admitted before for the same key and name costs one dictionary lookup, and
whether its key is still in force; per message nothing. At most `_DECISIONS_MAX` decisions about
names and as many commands are remembered, and all are forgotten when they are as many.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from goqueue.model import (
    ANONYMOUS,
    ROOT_KEY,
    Caller,
    Code,
    KeyId,
    Now,
    Refused,
    Timestamp,
    is_internal,
)
from goqueue.model.requests import (
    AclEffect,
    KeyVerifiers,
    Operation,
    ResourceType,
    Role,
    TenantStatus,
    secret_proof,
)
from goqueue.security.api_keys import DEFAULT_TENANT
from goqueue.security.registry import SecurityRegistry
from goqueue.security.rules import RULES, AnyCommand, Rule, Scope

__all__ = ["UNLIMITED", "Access", "Admitted", "NameFilter", "Principal"]

# The one resource of the type `cluster`.
_CLUSTER = "cluster"
_DECISIONS_MAX = 65_536
# A unit of a turn is some microseconds.
_COMPARED_PER_UNIT = 4
_NEVER = Timestamp(2**63 - 1)
# Compared one by one: the hash of an enum is computed in Python.
_DEFERRED, _PROBE, _OF_CLUSTER = Scope.DEFERRED, Scope.PROBE, Scope.CLUSTER
_ACTIVE = TenantStatus.ACTIVE
_DENIED = "no role of the key may do this"


# Tells which names a caller may see; None: all of them.
NameFilter = Callable[[str], bool] | None


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """A proven key with its tenant and roles, which never change."""

    key: KeyId
    tenant: str
    roles: frozenset[Role]
    # Whom ACLs may mean by it.
    names: tuple[str, ...]
    # Admin of its tenant.
    is_admin: bool
    # Admin of `default`: nothing is refused to it, and it sees everything.
    is_unlimited: bool


def _principal(key: KeyId, tenant: str, roles: frozenset[Role]) -> Principal:
    is_admin = Role.ADMIN in roles
    return Principal(
        key=key,
        tenant=tenant,
        roles=roles,
        names=(key, *(f"role:{role.value}" for role in Role if role in roles), "*"),
        is_admin=is_admin,
        is_unlimited=is_admin and tenant == DEFAULT_TENANT,
    )


class Admitted(msgspec.Struct, frozen=True):
    """A command that was admitted, to go on with in a later turn: see `Access.resuming`."""

    caller: Caller
    command: AnyCommand


# Every caller of a node without authentication, and the broker itself.
UNLIMITED = _principal(KeyId("local"), DEFAULT_TENANT, frozenset({Role.ADMIN}))
_NOBODY = _principal(ANONYMOUS.key, DEFAULT_TENANT, frozenset())


class _KeyState(msgspec.Struct, frozen=True):
    """What holds for a key until the next change of keys or tenants."""

    principal: Principal
    expires_at: Timestamp
    status: TenantStatus
    # What its secrets prove it by: the newest, and the one before until its grace is over.
    proof: bytes
    previous: bytes
    previous_until: Timestamp
    has_certificate: bool

    def end_of(self, caller: Caller) -> Timestamp:
        """When what has proven the key proves nothing any more; in the past: it does not now."""
        end = self.expires_at
        if caller.until is None and caller.proof in (b"", self.proof):
            return end
        if caller.proof and caller.proof != self.proof:
            is_previous = caller.proof == self.previous
            end = min(end, self.previous_until) if is_previous else Timestamp(0)
        if caller.until is not None and self.has_certificate:
            end = min(end, Timestamp(caller.until))
        return end


def _proof_of(verifiers: KeyVerifiers | None) -> bytes:
    return b"" if verifiers is None else secret_proof(verifiers.digest)


class Access:
    """Decides about commands, and about the names that handlers find later."""

    def __init__(self, registry: SecurityRegistry, *, acl_enabled: bool = False) -> None:
        self._registry = registry
        self._acl_enabled = acl_enabled
        self._version = registry.version
        self._states: dict[KeyId, _KeyState] = {}
        self._decisions: dict[tuple[KeyId, ResourceType, str, Operation], bool] = {}
        # Commands that passed every check but those of time: of a key, by their kind and name.
        self._passed: dict[tuple[KeyId, type, str | None], _KeyState] = {}
        # Of the command at hand; between commands, and without authentication, UNLIMITED.
        self.principal = UNLIMITED
        # What was admitted: kept apart, so that a value is only made for what goes on later.
        self._caller = ANONYMOUS
        self._command: AnyCommand | None = None
        # Whether the command at hand was refused here, and not for what it asked for.
        self.has_denied = False
        # A handler has yet to ask about the names that it finds.
        self._is_owed = False

    @property
    def tenant(self) -> str:
        """The tenant of the command at hand: whose producers and commit keys it means.

        To know it is to keep to it, so nothing else has to be checked.
        """
        self._is_owed = False
        return self.principal.tenant

    @property
    def own_tenant(self) -> str | None:
        """The only tenant whose things the command at hand may see; None: it sees all."""
        self._is_owed = False
        return None if self.principal.is_unlimited else self.principal.tenant

    @property
    def is_probe(self) -> bool:
        """Whether the command at hand is of a caller without a key."""
        return self.principal is _NOBODY

    @property
    def decision_count(self) -> int:
        """How many decisions are remembered, about names and about commands."""
        return len(self._decisions) + len(self._passed)

    # One command

    def admit(self, caller: Caller, command: AnyCommand, now: Now) -> Principal:
        """Check a command before its handler runs; `leave` must follow. Raises Refused."""
        kind = type(command)
        rule = RULES[kind]
        if self._version != self._registry.version:
            self._forget()
        asked = (caller.key, kind, None if rule.name is None else rule.name(command))
        state = self._passed.get(asked)
        # Whatever is not this plain takes the long way, and is decided there.
        if (
            state is not None
            and caller.proof == state.proof
            and caller.until is None
            and now.wall < state.expires_at
        ):
            principal = state.principal
        else:
            # Unless all of it is passed.
            self.has_denied = True
            principal = self._check_all(caller, rule, command, now)
            if rule.others is None and principal is not _NOBODY:
                self._remember(asked)
        self.has_denied = False
        scope = rule.scope
        self._is_owed = scope is _DEFERRED or scope is _PROBE
        self.principal, self._caller, self._command = principal, caller, command
        return principal

    def leave(self, *, is_refused: bool = False) -> None:
        """The handler is done. One that asked about nothing has a bug that must not be served."""
        self.principal, self._command = UNLIMITED, None
        assert is_refused or not self._is_owed, "a command was carried out unchecked"
        self._is_owed = False

    def check_again(self, caller: Caller, command: AnyCommand, now: Now) -> None:
        """Refuse a command that waits, if it would be refused now."""
        self._check(caller, RULES[type(command)], command, now)

    def expiry(self, caller: Caller) -> Timestamp | None:
        """When a usable key expires, or what has proven it."""
        state = self._states.get(caller.key)
        end = _NEVER if state is None else state.end_of(caller)
        return None if end == _NEVER else end

    def _check_all(self, caller: Caller, rule: Rule, command: AnyCommand, now: Now) -> Principal:
        if caller.key != _NOBODY.key:
            return self._check(caller, rule, command, now)
        if rule.scope is not _PROBE:
            raise Refused(Code.UNAUTHENTICATED)
        return _NOBODY

    def _remember(self, asked: tuple[KeyId, type, str | None]) -> None:
        if len(self._passed) >= _DECISIONS_MAX:
            self._passed.clear()
        self._passed[asked] = self._states[asked[0]]

    def _check(self, caller: Caller, rule: Rule, command: AnyCommand, now: Now) -> Principal:
        if self._version != self._registry.version:
            self._forget()
        state = self._states.get(caller.key)
        if state is None:
            state = self._look_up(caller.key)
        if state.end_of(caller) <= now.wall:
            raise Refused(Code.UNAUTHENTICATED)
        principal = state.principal
        if state.status is not _ACTIVE:
            self._check_status(state, rule)
        if principal.is_unlimited:
            return principal
        if rule.scope is _OF_CLUSTER:
            self._check_cluster(principal, rule)
            return principal
        if not principal.is_admin and principal.roles.isdisjoint(rule.roles):
            # An ACL that allows it is looked for below.
            if not (rule.is_granted_by_acl and self._acl_enabled):
                raise Refused(Code.PERMISSION_DENIED, reason=_DENIED)
        if rule.name is not None:
            self._require(principal, rule.kind, rule.name(command), rule.operation)
        if rule.others is not None:
            for need in rule.others(command):
                self._require(principal, *need)
        return principal

    def _look_up(self, key: KeyId) -> _KeyState:
        found = self._registry.keys.get(key)
        if not self._registry.keys.is_current and key != ROOT_KEY:
            raise Refused(Code.LEADER_UNAVAILABLE, reason="the node is joining its cluster")
        if found is None or found.is_revoked:
            raise Refused(Code.UNAUTHENTICATED)
        tenant = self._registry.tenants.get(found.tenant)
        if tenant is None:
            raise Refused(Code.UNAUTHENTICATED)
        state = self._states[key] = _KeyState(
            _principal(key, found.tenant, found.roles),
            _NEVER if found.expires_at is None else found.expires_at,
            tenant.status,
            _proof_of(found.verifiers),
            _proof_of(found.previous),
            found.previous_until,
            bool(found.certificate),
        )
        return state

    def _check_status(self, state: _KeyState, rule: Rule) -> None:
        if state.status is not TenantStatus.SUSPENDED or rule.stores:
            raise Refused(Code.TENANT_INACTIVE, state=state.status.value)

    def _check_cluster(self, principal: Principal, rule: Rule) -> None:
        if principal.tenant != DEFAULT_TENANT:
            raise Refused(Code.PERMISSION_DENIED, reason="only keys of the default tenant may")
        if principal.roles.isdisjoint(rule.roles):
            raise Refused(Code.PERMISSION_DENIED, reason="only an admin may")
        self._require(principal, ResourceType.CLUSTER, _CLUSTER, rule.operation)

    def _forget(self) -> None:
        self._version = self._registry.version
        self._states.clear()
        self._decisions.clear()
        self._passed.clear()

    # Names that handlers find

    def require(self, kind: ResourceType, name: str, operation: Operation) -> None:
        """Refuse an operation of the command at hand on a name."""
        self._is_owed = False
        principal = self.principal
        if not principal.is_unlimited:
            self._require(principal, kind, name, operation)

    def may(
        self, principal: Principal, kind: ResourceType, name: str, operation: Operation
    ) -> bool:
        """Whether an operation on a name is permitted now."""
        self._is_owed = False
        return principal.is_unlimited or self._decide(principal, kind, name, operation)

    def note_principal(self) -> Principal:
        """Whom the command at hand is for, to check later what it waits for."""
        self._is_owed = False
        return self.principal

    def note_command(self) -> Admitted | None:
        """The command at hand, to go on with it in a later turn; None: that of no key."""
        self._is_owed = False
        command = self._command
        return None if command is None else Admitted(self._caller, command)

    @contextmanager
    def resuming(self, admitted: Admitted | None, now: Now) -> Iterator[None]:
        """Go on with a command of an earlier turn, if it would be admitted now. Raises Refused.

        Whatever a handler leaves for later is done in here: without it nobody would have to allow
        it, whatever became of the key, its tenant or the ACLs since. None is of no key: of a node
        without authentication, or of the broker itself.
        """
        before = self.principal, self._caller, self._command
        if admitted is None:
            self.principal, self._command = UNLIMITED, None
        else:
            caller, command = admitted.caller, admitted.command
            principal = self._check(caller, RULES[type(command)], command, now)
            self.principal, self._caller, self._command = principal, caller, command
        try:
            yield
        finally:
            self.principal, self._caller, self._command = before

    def visible_topics(self) -> NameFilter:
        """Which topics the command at hand shows; it may be used in later turns, too."""
        return self._filter(ResourceType.TOPIC, Operation.DESCRIBE)

    def readable_topics(self) -> NameFilter:
        """The topics whose messages the command at hand shows."""
        return self._filter(ResourceType.TOPIC, Operation.READ)

    def visible_groups(self) -> NameFilter:
        """Which groups the command at hand shows."""
        return self._filter(ResourceType.GROUP, Operation.READ)

    def _filter(self, kind: ResourceType, operation: Operation) -> NameFilter:
        self._is_owed = False
        principal = self.principal
        if principal.is_unlimited:
            return None
        tenant = principal.tenant

        def sees(name: str) -> bool:
            # Names of others are without number: what was decided about own ones is remembered.
            return self.owner(name) == tenant and self._decide(principal, kind, name, operation)

        return sees

    def select(self, names: Iterable[str], sees: NameFilter) -> Generator[int, None, list[str]]:
        """The names that a filter lets pass; a step for each, as large as its decision was."""
        found = []
        acls = self._registry.acls
        for name in names:
            before = acls.compared
            if sees is None or sees(name):
                found.append(name)
            yield 1 + (acls.compared - before) // _COMPARED_PER_UNIT
        return found

    def require_owner(self, name: str, absent: Refused) -> None:
        """Refuse a name of another tenant, as if there were no such thing."""
        self._is_owed = False
        principal = self.principal
        if not principal.is_unlimited and self._registry.tenants.owner(name) != principal.tenant:
            self.has_denied = True
            raise absent

    def require_tenant(self, tenant: str, absent: Refused) -> None:
        """Refuse what belongs to another tenant, as if there were no such thing."""
        self._is_owed = False
        principal = self.principal
        if not principal.is_unlimited and tenant != principal.tenant:
            self.has_denied = True
            raise absent

    def require_same_tenant(self, topic: str, other: str) -> None:
        """Refuse to let messages of a topic go to one of another tenant, whoever wants it."""
        if self.owner(topic) != self.owner(other):
            if not self.principal.is_unlimited:
                raise Refused(Code.TOPIC_NOT_FOUND, topic=other)
            reason = f"{other} belongs to another tenant than {topic}"
            raise Refused(Code.PERMISSION_DENIED, reason=reason)

    def owner(self, name: str) -> str:
        """The tenant that a topic or a group belongs to, by its name."""
        return self._registry.tenants.owner(name)

    def _require(
        self, principal: Principal, kind: ResourceType, name: str, operation: Operation
    ) -> None:
        if not self._decide(principal, kind, name, operation):
            self.has_denied = True
            raise self._refusal(principal, kind, name, operation)

    def _decide(
        self, principal: Principal, kind: ResourceType, name: str, operation: Operation
    ) -> bool:
        if self._version != self._registry.version:
            self._forget()
        asked = (principal.key, kind, name, operation)
        decision = self._decisions.get(asked)
        if decision is None:
            decision = self._is_permitted(principal, kind, name, operation)
            if len(self._decisions) >= _DECISIONS_MAX:
                self._decisions.clear()
            self._decisions[asked] = decision
        return decision

    def _is_permitted(
        self, principal: Principal, kind: ResourceType, name: str, operation: Operation
    ) -> bool:
        if not principal.roles:
            return False
        if kind is not ResourceType.CLUSTER and self.owner(name) != principal.tenant:
            return False
        if kind is ResourceType.TOPIC and is_internal(name):
            return False
        if principal.is_admin or not self._acl_enabled:
            return True
        found = self._registry.acls.decide(principal.names, kind, name, operation)
        return found is AclEffect.ALLOW

    def _refusal(
        self, principal: Principal, kind: ResourceType, name: str, operation: Operation
    ) -> Refused:
        """Why an operation is not permitted, in words that tell nothing about other tenants."""
        is_foreign = kind is not ResourceType.CLUSTER and self.owner(name) != principal.tenant
        if is_foreign and operation is Operation.CREATE:
            reason = f"names of the tenant begin with `{principal.tenant}.`"
            return Refused(Code.PERMISSION_DENIED, reason=reason)
        if kind is ResourceType.TOPIC:
            if is_foreign:
                return Refused(Code.TOPIC_NOT_FOUND, topic=name)
            if is_internal(name):
                return Refused(Code.TOPIC_INTERNAL, topic=name)
        elif is_foreign:
            return Refused(Code.GROUP_NOT_FOUND, group=name)
        about = kind.value if kind is ResourceType.CLUSTER else f"{kind.value} {name}"
        reason = f"ACLs do not allow the key to {operation.value} {about}"
        return Refused(Code.PERMISSION_DENIED, operation=operation.value, reason=reason)
