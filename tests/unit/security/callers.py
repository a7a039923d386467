"""Keys, tenants and commands for tests of access."""

from typing import Any

import msgspec

from goqueue.model import (
    SECOND,
    Caller,
    Instant,
    KeyId,
    Level,
    LogId,
    Now,
    Offset,
    SchemaText,
    SchemaType,
    Timestamp,
)
from goqueue.model.requests import (
    AclEffect,
    AclSpec,
    KeyVerifiers,
    LeaseOffsets,
    Operation,
    Owner,
    Quotas,
    ResourceType,
    Role,
    ScheduledMessage,
    ScheduleSpec,
    ScramVerifier,
    Strategy,
    TenantStatus,
    WantedMove,
    Watch,
    secret_proof,
)
from goqueue.security import (
    Access,
    AclStated,
    KeyRevoked,
    KeyStated,
    SecurityRegistry,
    TenantStated,
)

NOW = Now(Instant(5 * SECOND), Timestamp(1_700_000_000 * SECOND))


class Known:
    """A registry of keys, ACLs and tenants, filled by the changes that a journal would have."""

    def __init__(self) -> None:
        self.registry = SecurityRegistry()

    def add_tenant(self, name: str, status: TenantStatus = TenantStatus.ACTIVE) -> None:
        self.registry.apply(
            TenantStated(
                id=name, name=name, created_at=1, updated_at=1, quotas=Quotas(), status=status
            )
        )

    def add_key(
        self, *roles: Role, tenant: str = "default", expires_at: Timestamp | None = None
    ) -> Caller:
        key = KeyId(f"key_{len(self.registry.keys):016x}")
        digest = key.encode().ljust(32)
        self.registry.apply(
            KeyStated(
                id=key,
                name=key,
                prefix="gq_",
                roles=roles,
                tenant=tenant,
                created_at=1,
                verifiers=KeyVerifiers(
                    digest=digest, scram_256=_SCRAM, scram_512=_SCRAM, sigv4=b""
                ),
                expires_at=expires_at,
            )
        )
        return Caller(key, proof=secret_proof(digest))

    def revoke(self, caller: Caller) -> None:
        self.registry.apply(KeyRevoked(id=caller.key))

    def add_acl(
        self,
        principal: str,
        name: str,
        operation: Operation = Operation.ALL,
        effect: AclEffect = AclEffect.ALLOW,
        kind: ResourceType = ResourceType.TOPIC,
    ) -> None:
        acl = AclSpec(
            principal=principal,
            resource_type=kind,
            resource_name=name,
            operation=operation,
            effect=effect,
        )
        self.registry.apply(AclStated(id=f"acl_{len(self.registry.acls)}", acl=acl))

    def access(self, *, acl_enabled: bool = False) -> Access:
        return Access(self.registry, acl_enabled=acl_enabled)


_SCRAM = ScramVerifier(salt=b"", iterations=1, stored_key=b"", server_key=b"")


def command_about(kind: type, name: str) -> Any:  # noqa: ANN401  # of whichever type was asked for
    """A command of this type, with one name wherever it has one."""
    by_field: dict[str, object] = {
        "acl": AclSpec(
            principal="*",
            resource_type=ResourceType.TOPIC,
            resource_name=name,
            operation=Operation.READ,
            effect=AclEffect.DENY,
        ),
        "batch": bytearray(),
        "client_id": "client",
        "epoch": 0,
        "generation": 1,
        "is_commit": True,
        "leases": (LeaseOffsets("handle", ()),),
        "level": Level.FULL,
        "log": LogId(name, 0),
        "moves": (WantedMove(name, 0, ("node",)),),
        "offset": Offset(0),
        "offsets": {LogId(name, 0): Offset(0), LogId(name, 1): Offset(0)},
        "owner": Owner(producer_id=1, epoch=0, transactional_id="id"),
        "partition": 0,
        "producer_id": 1,
        "receipt": "receipt",
        "roles": frozenset({Role.ADMIN}),
        "schema": SchemaText(type=SchemaType.AVRO, text='"string"'),
        "spec": ScheduleSpec(
            name=name, topic=name, message=ScheduledMessage(value=b""), every_ns=SECOND
        ),
        "status": TenantStatus.ACTIVE,
        "timeout_ns": SECOND,
        "strategy": Strategy.EARLIEST,
        "topics": (name,),
        "trace_id": b"",
        "transaction_ids": (),
        "value": None,
        "verifiers": KeyVerifiers(digest=b"", scram_256=_SCRAM, scram_512=_SCRAM, sigv4=b""),
        "wait_ns": 0,
    }
    fields = msgspec.structs.fields(kind)
    wanted = [each.name for each in fields if each.required or each.name == "offsets"]
    by_field["changes"] = next((each.type() for each in fields if each.name == "changes"), None)
    if kind is Watch:
        by_field["offsets"] = {0: Offset(0)}
    return kind(**{each: by_field.get(each, name) for each in wanted})
