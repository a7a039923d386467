"""Callers of three tenants: they do what they may, and try what they may not.

Each tenant has a topic of its own, which nobody else uses. Keys are created and revoked, tenants
are suspended, disabled and activated, ACLs come and go, at random. What the node was asked to
change and did not answer is in doubt until it was asked again.

What must hold
- Nothing is done for a key that was revoked, a tenant that is disabled, a role that may not, a name
  of another tenant, or against the ACLs, once the change that forbids it was answered.
- Nobody is refused for want of a right that is beyond doubt.
- What is served or listed is of the caller's tenant.
- When the revocation of a key is answered, nothing of that key waits any longer.
- The audit log has a record of every change, once, and of nothing else that was asked for.

While there are tenants, all other clients are callers too: of a key of `default` with an ACL for
everything, or of an admin key where a role would not do.
"""

from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from goqueue.model import LOCAL, SECOND, Caller, Code, KeyId, LogId, Message, Offset, Refused
from goqueue.model.requests import (
    Ack,
    Acked,
    AclDeleted,
    AclDescription,
    AclEffect,
    AclSpec,
    Command,
    CommitOffsets,
    CreateAcl,
    CreateKey,
    CreateTenant,
    CreateTopic,
    DeleteAcl,
    DescribeGroup,
    DescribeTopic,
    KeyDescription,
    KeyVerifiers,
    Leased,
    ListDelayed,
    ListTopics,
    Operation,
    Publish,
    Read,
    Receive,
    Records,
    Reply,
    ResourceType,
    RevokeKey,
    Role,
    ScramVerifier,
    SetTenantStatus,
    TenantDescription,
    TenantStatus,
    TopicDescription,
    TopicList,
    lease_of,
)
from goqueue.records import build
from goqueue.security import RULES, Scope
from goqueue.sim.clients.tenant_lives import LIVES_TOPIC, TenantLives
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.audit import AuditTruth

__all__ = ["TenantClients", "is_box"]

_TENANTS = ("acme", "globex")
_BOXES = {"default": "box", "acme": "acme.box", "globex": "globex.box"}
_BEYOND = Offset(1 << 40)
_WAIT_NS = 20 * SECOND
_ACCESS = frozenset((Code.UNAUTHENTICATED, Code.PERMISSION_DENIED, Code.TENANT_INACTIVE))
# How a name of another tenant is refused, and everything by a node that does not serve.
_ABSENT = frozenset((Code.TOPIC_NOT_FOUND, Code.GROUP_NOT_FOUND, Code.BROKER_UNAVAILABLE))
_KEYS_MAX = 12
# How much of a run is theirs.
_SHARE = 6
_LIVES_SHARE = 5
_ACLS_MAX = 8
_SCRAM = ScramVerifier(salt=b"", iterations=1, stored_key=b"", server_key=b"")


def is_box(name: str) -> bool:
    """Whether only callers of tenants use a topic."""
    return name.removesuffix(".dlq") in (*_BOXES.values(), LIVES_TOPIC)


class _KeyTruth(msgspec.Struct):
    """One key; None is in doubt."""

    id: KeyId
    tenant: str
    role: Role
    is_created: bool | None = None
    is_revoked: bool | None = False


class _AclTruth(msgspec.Struct):
    """One ACL; None is in doubt."""

    id: str
    acl: AclSpec
    is_there: bool | None = None


class _Try(msgspec.Struct, frozen=True):
    """A command of a key: what it does to the topic of which tenant."""

    command: Command
    owner: str
    operation: Operation
    roles: tuple[Role, ...]


class TenantClients:
    """Those who have keys, and those who administer them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random: Random = world.random
        self.audit = AuditTruth()
        self._lives = TenantLives(world, self.audit)
        self._statuses: dict[str, TenantStatus | None] = {"default": TenantStatus.ACTIVE}
        self._boxes: dict[str, None] = {}
        self._keys: list[_KeyTruth] = []
        self._acls: list[_AclTruth] = []
        self._receipts: dict[str, list[str]] = {tenant: [] for tenant in _BOXES}
        # Requests of keys that wait, with the life of the node in which they began.
        self._waiting: dict[KeyId, dict[int, int]] = {}
        self._next_wait = 0
        self._count = 0
        # How many changes were asked for, and of what, while they are not answered.
        self._changes = 0
        self._asking: dict[str, None] = {}
        self._client = _KeyTruth(KeyId("key_c11e000000000000"), "default", Role.CONSUMER)
        self._admin = _KeyTruth(KeyId("key_ad00000000000000"), "default", Role.ADMIN)
        self._open = [
            _AclTruth(f"acl_open_{kind.value}", _acl(self._client.id, "*", AclEffect.ALLOW, kind))
            for kind in (ResourceType.TOPIC, ResourceType.GROUP)
        ]
        world.caller_of = self._caller_of

    def actions(self) -> list[Callable[[], None]]:
        """What they do, as often as it is named."""
        often = [self._try] * 20 + [self._wait] * 4 + [self._settle_foreign] * 3
        seldom = [self._prepare] * 4 + [self._change] * 4 + [self._revoke]
        return (often + seldom) * _SHARE + self._lives.actions() * _LIVES_SHARE

    def _caller_of(self, command: Command) -> Caller:
        """Whom other clients are for the node."""
        rule = RULES[type(command)]
        if rule.scope is Scope.PROBE:
            # A node that starts does not know its keys yet.
            return LOCAL
        is_client = {Role.PRODUCER, Role.CONSUMER} & rule.roles
        if is_client and self._client.is_created and all(each.is_there for each in self._open):
            return Caller(self._client.id)
        return Caller(self._admin.id) if self._admin.is_created else LOCAL

    # What there is

    def _administer(
        self, subject: str, command: Command, done: Callable[[Reply | Refused | None], None]
    ) -> None:
        """Ask for a change; while it is not answered, nothing else is asked of its subject."""

        def answered(reply: Reply | Refused | None) -> None:
            del self._asking[subject]
            if reply is not None and not isinstance(reply, Refused):
                self.audit.happened(command)
            done(reply)

        self.audit.asked(command)
        self._changes += 1
        self._asking[subject] = None
        self._world.ask(command, answered, caller=LOCAL)

    def _prepare(self) -> None:
        """Make what is missing, and ask again for what is in doubt."""
        for make in self._missing():
            make()
        while len(self._keys) < _KEYS_MAX:
            self._count += 1
            role = self._random.choice([Role.PRODUCER, Role.CONSUMER, Role.READONLY, Role.ADMIN])
            tenant = self._random.choice(list(_BOXES))
            if role is Role.ADMIN and tenant == "default":
                role = Role.READONLY
            key = _KeyTruth(KeyId(f"key_{self._count:016x}"), tenant, role)
            self._keys.append(key)
            self._make_key(key)

    def _missing(self) -> list[Callable[[], None]]:
        def idle(subject: str) -> bool:
            return subject not in self._asking

        keys = [each for each in (self._admin, self._client, *self._keys) if idle(each.id)]
        acls = [each for each in (*self._open, *self._acls) if idle(each.id)]
        known = [each for each in _TENANTS if each in self._statuses and idle(each)]
        unknown = [each for each in _TENANTS if each not in self._statuses and idle(each)]
        boxes = [each for each in _BOXES.values() if each not in self._boxes and idle(each)]
        return [
            *(partial(self._make_tenant, each) for each in unknown),
            *(partial(self._make_box, each) for each in boxes),
            *(partial(self._make_key, each) for each in keys if each.is_created is None),
            *(partial(self._revoke_key, each) for each in keys if each.is_revoked is None),
            *(partial(self._make_acl, each) for each in acls if each.is_there is None),
            *(
                partial(self._set_status, each, TenantStatus.ACTIVE)
                for each in known
                if self._statuses[each] is None
            ),
        ]

    def _make_tenant(self, tenant: str) -> None:
        def done(reply: Reply | Refused | None) -> None:
            exists = isinstance(reply, Refused) and reply.code is Code.TENANT_EXISTS
            if exists or isinstance(reply, TenantDescription):
                self._statuses.setdefault(tenant, TenantStatus.ACTIVE)
                self.audit.is_there(command)

        command = CreateTenant(id=tenant, name=tenant)
        self._administer(tenant, command, done)

    def _make_box(self, box: str) -> None:
        def done(reply: Reply | Refused | None) -> None:
            exists = isinstance(reply, Refused) and reply.code is Code.TOPIC_EXISTS
            if exists or isinstance(reply, TopicDescription):
                self._boxes[box] = None
                self.audit.is_there(command)

        command = CreateTopic(name=box, partitions=1)
        self._administer(box, command, done)

    def _make_key(self, key: _KeyTruth) -> None:
        def done(reply: Reply | Refused | None) -> None:
            # A key of this id is there already.
            exists = isinstance(reply, Refused) and reply.code is Code.REQUEST_INVALID
            if exists or isinstance(reply, KeyDescription):
                key.is_created = True
                self.audit.is_there(command)

        is_client = key is self._client
        roles = {Role.PRODUCER, Role.CONSUMER} if is_client else {key.role}
        digest = key.id.encode().ljust(32)
        verifiers = KeyVerifiers(digest=digest, scram_256=_SCRAM, scram_512=_SCRAM, sigv4=b"")
        command = CreateKey(
            id=key.id,
            prefix="gq_",
            verifiers=verifiers,
            name=key.id,
            roles=frozenset(roles),
            tenant=key.tenant,
        )
        self._administer(key.id, command, done)

    def _make_acl(self, acl: _AclTruth) -> None:
        def done(reply: Reply | Refused | None) -> None:
            exists = isinstance(reply, Refused) and reply.code is Code.REQUEST_INVALID
            if exists or isinstance(reply, AclDescription):
                acl.is_there = True
                self.audit.is_there(command)

        command = CreateAcl(id=acl.id, acl=acl.acl)
        self._administer(acl.id, command, done)

    # What changes

    def _change(self) -> None:
        self._random.choice([self._change_status, self._change_acl, self._change_acl])()

    def _change_status(self) -> None:
        tenant = self._random.choice(_TENANTS)
        if self._statuses.get(tenant) is not None and tenant not in self._asking:
            states = [TenantStatus.ACTIVE] * 2 + [TenantStatus.SUSPENDED, TenantStatus.DISABLED]
            self._set_status(tenant, self._random.choice(states))

    def _set_status(self, tenant: str, status: TenantStatus) -> None:
        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, TenantDescription):
                self._statuses[tenant] = reply.status

        self._statuses[tenant] = None
        self._administer(tenant, SetTenantStatus(id=tenant, status=status, reason="sim"), done)

    def _change_acl(self) -> None:
        there = [each for each in self._acls if each.is_there and each.id not in self._asking]
        if len(there) >= _ACLS_MAX or (there and self._random.random() < 0.4):
            self._delete_acl(self._random.choice(there))
            return
        keys = [key.id for key in self._keys if key.is_created]
        if not keys:
            return
        self._count += 1
        effect = AclEffect.DENY if self._random.random() < 0.3 else AclEffect.ALLOW
        glob = self._random.choice(["*", "*box", "acme.*", "globex.b?x", "box"])
        kind = self._random.choice([ResourceType.TOPIC] * 2 + [ResourceType.GROUP])
        acl = _AclTruth(
            f"acl_{self._count:06}", _acl(self._random.choice(keys), glob, effect, kind)
        )
        self._acls.append(acl)
        self._make_acl(acl)

    def _delete_acl(self, acl: _AclTruth) -> None:
        def done(reply: Reply | Refused | None) -> None:
            gone = isinstance(reply, Refused) and reply.code is Code.ACL_NOT_FOUND
            if gone or isinstance(reply, AclDeleted):
                self._acls.remove(acl)

        acl.is_there = None
        self._administer(acl.id, DeleteAcl(id=acl.id), done)

    def _revoke(self) -> None:
        keys = [
            key
            for key in self._keys
            if key.is_created and key.is_revoked is False and key.id not in self._asking
        ]
        if keys and self._random.random() < 0.5:
            self._revoke_key(self._random.choice(keys))

    def _revoke_key(self, key: _KeyTruth) -> None:
        life = self._world.life

        def done(reply: Reply | Refused | None) -> None:
            if not isinstance(reply, KeyDescription):
                return
            key.is_revoked = True
            waiting = [each for each in self._waiting.get(key.id, {}).values() if each == life]
            if waiting and self._world.life == life:
                raise Violation("wait-survives-revocation", f"{key.id}: {len(waiting)}")

        key.is_revoked = None
        self._administer(key.id, RevokeKey(id=key.id), done)

    # What may be done

    def _choose_key(self) -> _KeyTruth | None:
        keys = [key for key in self._keys if key.is_created]
        return self._random.choice(keys) if keys and len(self._boxes) == len(_BOXES) else None

    def _try(self) -> None:
        key = self._choose_key()
        if key is None:
            return
        owner = self._random.choice([key.tenant] * 3 + list(_BOXES))
        attempt = self._random.choice(self._attempts(key, owner))
        self._send(key, attempt)

    def _attempts(self, key: _KeyTruth, owner: str) -> list[_Try]:
        """What a key may try with a topic; a group is that of the topic, or the key's own."""
        box = _BOXES[owner]
        group = self._random.choice([box, _BOXES[key.tenant]])
        batch = build([Message(value=owner.encode())])
        commit = CommitOffsets(group=group, offsets={LogId(box, 0): Offset(0)})
        consumer = (Role.CONSUMER,)
        readers = (Role.CONSUMER, Role.READONLY)
        read = Operation.READ
        return [
            _Try(Publish(topic=box, batch=batch), owner, Operation.WRITE, (Role.PRODUCER,)),
            _Try(Read(topic=box, partition=0), owner, read, readers),
            _Try(DescribeTopic(name=box), owner, Operation.DESCRIBE, (Role.PRODUCER, *readers)),
            _Try(Receive(group=group, topics=(box,), messages_max=2), owner, read, consumer),
            _Try(commit, owner, read, consumer),
            _Try(ListDelayed(topic=box), owner, read, readers),
            _Try(DescribeGroup(group=box), owner, read, readers),
        ]

    def _send(self, key: _KeyTruth, attempt: _Try) -> None:
        forbidden = self._is_forbidden(key, attempt)
        allowed = self._is_allowed(key, attempt)
        changes, life = self._changes, self._world.life

        def done(reply: Reply | Refused | None) -> None:
            if reply is None:
                return
            is_refused = isinstance(reply, Refused) and reply.code in _ACCESS | _ABSENT
            if forbidden is not None and not is_refused:
                raise Violation("done-without-permission", f"{forbidden}: {key} {attempt.command}")
            unchanged = changes == self._changes and life == self._world.life
            if allowed and unchanged and isinstance(reply, Refused) and reply.code in _ACCESS:
                raise Violation("refused-with-permission", f"{key} {attempt.command}: {reply}")
            self._check_content(key, reply)

        self._world.ask(attempt.command, done, caller=Caller(key.id))

    def _check_content(self, key: _KeyTruth, reply: Reply | Refused) -> None:
        """What is served is of the caller's tenant."""
        logs = []
        if isinstance(reply, Records):
            logs = [reply.log]
        elif isinstance(reply, Leased):
            logs = [share.log for share in reply.partitions]
            for share in reply.partitions:
                self._receipts[key.tenant] += [receipt for _, _, receipt in share]
        for log in logs:
            if log.topic != _BOXES[key.tenant]:
                raise Violation("served-to-another-tenant", f"{key}: {log}")
        if isinstance(reply, TopicList):
            self._check_names(key, reply.topics)

    def _check_names(self, key: _KeyTruth, names: tuple[str, ...]) -> None:
        for name in names:
            owner = name.partition(".")[0] if name.partition(".")[0] in _TENANTS else "default"
            if owner != key.tenant:
                raise Violation("shown-to-another-tenant", f"{key}: {name}")

    def _wait(self) -> None:
        """Wait for a message that never comes; or list what there is."""
        key = self._choose_key()
        if key is None:
            return
        if self._random.random() < 0.3:

            def done_listing(reply: Reply | Refused | None) -> None:
                if reply is not None:
                    self._check_content(key, reply)

            self._world.ask(ListTopics(), done_listing, caller=Caller(key.id))
            return
        number = self._next_wait
        self._next_wait += 1
        waiting = self._waiting.setdefault(key.id, {})

        def done(_: Reply | Refused | None) -> None:
            waiting.pop(number, None)

        waiting[number] = self._world.life
        read = Read(topic=_BOXES[key.tenant], partition=0, offset=_BEYOND, wait_ns=_WAIT_NS)
        self._world.ask(read, done, _WAIT_NS, caller=Caller(key.id))

    def _settle_foreign(self) -> None:
        """Settle a message with a receipt of some tenant."""
        key = self._choose_key()
        owners = [tenant for tenant, receipts in self._receipts.items() if receipts]
        if key is None or not owners:
            return
        owner = self._random.choice(owners)
        receipt = self._random.choice(self._receipts[owner])

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Acked) and owner != key.tenant:
                refused = reply.settlements[0].refused
                if not refused or refused[0].code is not Code.RECEIPT_INVALID:
                    raise Violation("foreign-receipt-taken", f"{key}: {reply}")

        self._world.ask(Ack(leases=(lease_of(receipt),)), done, caller=Caller(key.id))

    # What is certain

    def _is_forbidden(self, key: _KeyTruth, attempt: _Try) -> str | None:
        """Why an attempt must be refused, whatever is in doubt."""
        status = self._statuses.get(key.tenant)
        stores = attempt.operation is Operation.WRITE
        if key.is_revoked:
            return "revoked"
        if status is TenantStatus.DISABLED or (status is TenantStatus.SUSPENDED and stores):
            return "inactive"
        if attempt.owner != key.tenant:
            return "foreign"
        if key.role is Role.ADMIN:
            return None
        if key.role not in attempt.roles:
            return "role"
        # An ACL that is in doubt may allow; only one that is certain denies.
        kinds = self._kinds(attempt)
        if not all(self._may(key, attempt, kind, doubtful=True) for kind in kinds):
            return "acl"
        return None

    def _is_allowed(self, key: _KeyTruth, attempt: _Try) -> bool:
        """Whether an attempt has every right, whatever is in doubt."""
        status = self._statuses.get(key.tenant)
        is_sure = status is TenantStatus.ACTIVE and key.is_revoked is False
        if not is_sure or attempt.owner != key.tenant:
            return False
        if key.role is Role.ADMIN:
            return True
        kinds = self._kinds(attempt)
        return key.role in attempt.roles and all(
            self._may(key, attempt, kind, doubtful=False) for kind in kinds
        )

    def _kinds(self, attempt: _Try) -> tuple[ResourceType, ...]:
        if isinstance(attempt.command, Receive | CommitOffsets):
            return (ResourceType.TOPIC, ResourceType.GROUP)
        if isinstance(attempt.command, DescribeGroup):
            return (ResourceType.GROUP,)
        return (ResourceType.TOPIC,)

    def _may(self, key: _KeyTruth, attempt: _Try, kind: ResourceType, *, doubtful: bool) -> bool:
        """What the ACLs say; in doubt in favour of the key, or against it."""
        box = _BOXES[attempt.owner]
        about = [
            each
            for each in self._acls
            if each.acl.principal == key.id
            and each.acl.resource_type is kind
            and _matches(each.acl.resource_name, box)
        ]
        allows = [each for each in about if each.acl.effect is AclEffect.ALLOW]
        denies = [each for each in about if each.acl.effect is AclEffect.DENY]
        if doubtful:
            return bool(allows) and not any(each.is_there for each in denies)
        return any(each.is_there for each in allows) and not denies


def _acl(principal: str, glob: str, effect: AclEffect, kind: ResourceType) -> AclSpec:
    return AclSpec(
        principal=principal,
        resource_type=kind,
        resource_name=glob,
        operation=Operation.ALL,
        effect=effect,
    )


# The globs of this module, spelled out: the node has its own way to read them.
_MATCHES = {
    "*": ("box", "acme.box", "globex.box"),
    "*box": ("box", "acme.box", "globex.box"),
    "acme.*": ("acme.box",),
    "globex.b?x": ("globex.box",),
    "box": ("box",),
}


def _matches(glob: str, name: str) -> bool:
    return name in _MATCHES[glob]
