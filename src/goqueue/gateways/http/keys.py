"""API keys over HTTP: bodies, handlers and routes."""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import Count, Duration, TimeText, duration_limits
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import cursor, identifier, integer
from goqueue.gateways.http.routing.router import Route
from goqueue.model import Code, KeyId, Timestamp, format_time
from goqueue.model.requests import (
    GRACE_NS_KEY_MAX,
    KEY_EXPIRES_NS_MAX,
    METADATA_CHARACTERS_MAX,
    METADATA_MAX,
    CallerDescription,
    CreateKey,
    DescribeCaller,
    KeyDescription,
    KeyList,
    ListKeys,
    RevokeKey,
    Role,
    RotateKey,
)

__all__ = [
    "ADMIN_SECTION",
    "AFTER",
    "KEY_ROUTES",
    "PAGE_LIMIT",
    "PLAIN",
    "CreateKeyBody",
    "CreatedKey",
    "Key",
    "Keys",
    "Metadata",
    "RevokedKey",
    "RotateKeyBody",
    "Whoami",
]

ADMIN_SECTION = "Keys, ACLs and tenants"

# As `check_text` of the node has it.
PLAIN = "^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$"
Metadata = Annotated[
    dict[
        Annotated[str, Meta(min_length=1, max_length=METADATA_CHARACTERS_MAX, pattern=PLAIN)],
        Annotated[str, Meta(max_length=METADATA_CHARACTERS_MAX, pattern=PLAIN)],
    ],
    Meta(
        max_length=METADATA_MAX,
        description=(
            f"At most {METADATA_MAX} names and values of at most {METADATA_CHARACTERS_MAX} "
            "characters each."
        ),
    ),
]
_ExpiresIn = Annotated[
    Duration,
    duration_limits(1, KEY_EXPIRES_NS_MAX, "When the key expires, from now; absent: never."),
]
_Grace = Annotated[
    Duration,
    duration_limits(0, GRACE_NS_KEY_MAX, "How long the present secret stays valid; at most 168h."),
]
_Certificate = Annotated[
    str,
    Meta(
        description=(
            "The client certificate that proves this key: `uri:…` or `dns:…`, exactly one of its "
            "names, or `sha256:…`, its fingerprint. The secret then works only over it."
        ),
        min_length=1,
        # Checked by the node, which says it in words.
        extra_json_schema={"pattern": r"^((uri|dns):[!-~]{1,1024}|sha256:[0-9a-f]{64})$"},
    ),
]
_KeyName = Annotated[
    str,
    Meta(
        description="What people call it.",
        min_length=1,
        max_length=256,
        pattern=PLAIN,
        examples=["order service"],
    ),
]


class CreateKeyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to create."""

    name: _KeyName
    roles: Annotated[list[Role], Meta(min_length=1)]
    tenant: str | None = None
    expires_in: _ExpiresIn | None = None
    metadata: Metadata | None = None
    certificate: _Certificate | None = None


class RotateKeyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the present secret stays valid; absent, it ends at once."""

    grace: _Grace | None = None


class CreatedKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key with its secret, which is shown this once."""

    id: str
    key: Annotated[str, Meta(description="The secret. Nobody can show it again.")]
    prefix: str
    name: str
    roles: list[Role]
    tenant: str
    expires_at: TimeText | None = None
    metadata: dict[str, str] | None = None
    certificate: str | None = None


class Key(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key without its secret; `last_used_at` to the minute."""

    id: str
    name: str
    prefix: str
    roles: list[Role]
    tenant: str
    created_at: TimeText
    revoked: bool
    expires_at: TimeText | None = None
    last_used_at: TimeText | None = None
    metadata: dict[str, str] | None = None
    certificate: str | None = None


class Keys(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of the keys by id; `next` is the `after` of the following page."""

    keys: list[Key]
    count: Count
    next: str | None = None


class RevokedKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The key was revoked: it is refused from now on."""

    revoked: bool
    id: str
    pending_nodes: Annotated[
        list[str] | None,
        Meta(
            description=(
                "The nodes of the cluster that did not confirm within three seconds that they "
                "refuse the key; absent where all did. One that is cut off goes on with the keys "
                "that it knows until it is reached."
            ),
        ),
    ] = None


class Whoami(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The key of this request."""

    key_id: str
    name: str
    roles: list[Role]
    tenant: str
    expires_at: TimeText | None = None


_KEY = identifier("key", "id of the key")
AFTER = cursor("after", "`next` of the page before")
PAGE_LIMIT = integer(
    "limit", "how many at most", default=1000, minimum=1, maximum=1000, is_cut=True
)


async def _create(call: Call) -> CreatedKey:
    body = call.body(CreateKeyBody)
    maker = call.context.key_maker
    id_ = maker.new_id()
    secret = await maker.draw(id_)
    command = CreateKey(
        id=id_,
        prefix=secret.prefix,
        verifiers=secret.verifiers,
        name=body.name,
        roles=frozenset(body.roles),
        tenant="default" if body.tenant is None else body.tenant,
        expires_in_ns=None if body.expires_in is None else body.expires_in.ns,
        metadata=body.metadata or {},
        certificate=body.certificate or "",
    )
    return _created(await call.ask(command, KeyDescription), secret.key)


async def _rotate(call: Call) -> CreatedKey:
    body = call.body(RotateKeyBody)
    id_ = KeyId(call[_KEY])
    secret = await call.context.key_maker.draw(id_)
    command = RotateKey(
        id=id_,
        prefix=secret.prefix,
        verifiers=secret.verifiers,
        grace_ns=0 if body.grace is None else body.grace.ns,
    )
    return _created(await call.ask(command, KeyDescription), secret.key)


async def _revoke(call: Call) -> RevokedKey:
    described = await call.ask(RevokeKey(id=KeyId(call[_KEY])), KeyDescription)
    return RevokedKey(
        revoked=described.is_revoked,
        id=described.id,
        pending_nodes=list(described.pending_nodes) or None,
    )


async def _list(call: Call) -> Keys:
    listed = await call.ask(ListKeys(after=call[AFTER], limit=call[PAGE_LIMIT]), KeyList)
    keys = [_key(each) for each in listed.keys]
    return Keys(keys=keys, count=len(keys), next=listed.next)


async def _whoami(call: Call) -> Whoami:
    described = await call.ask(DescribeCaller(), CallerDescription)
    return Whoami(
        key_id=described.key_id,
        name=described.name,
        roles=list(described.roles),
        tenant=described.tenant,
        expires_at=_time(described.expires_at),
    )


def _created(described: KeyDescription, secret: str) -> CreatedKey:
    return CreatedKey(
        id=described.id,
        key=secret,
        prefix=described.prefix,
        name=described.name,
        roles=list(described.roles),
        tenant=described.tenant,
        expires_at=_time(described.expires_at),
        metadata=described.metadata or None,
        certificate=described.certificate or None,
    )


def _key(described: KeyDescription) -> Key:
    return Key(
        id=described.id,
        name=described.name,
        prefix=described.prefix,
        roles=list(described.roles),
        tenant=described.tenant,
        created_at=format_time(described.created_at),
        revoked=described.is_revoked,
        expires_at=_time(described.expires_at),
        last_used_at=_time(described.last_used_at),
        metadata=described.metadata or None,
        certificate=described.certificate or None,
    )


def _time(at: Timestamp | None) -> str | None:
    return None if at is None else format_time(at)


KEY_ROUTES = (
    Route(
        method="POST",
        path="/admin/keys",
        section=ADMIN_SECTION,
        summary="Create an API key; its secret is in the answer, and nowhere else",
        run=_create,
        body=CreateKeyBody,
        answer=CreatedKey,
        status=201,
        errors=(Code.TENANT_NOT_FOUND, Code.QUOTA_EXCEEDED, Code.CERTIFICATE_IN_USE),
        writes=True,
        example={"name": "order service", "roles": ["producer"], "expires_in": "2160h"},
    ),
    Route(
        method="GET",
        path="/admin/keys",
        section=ADMIN_SECTION,
        summary="List the keys by id, also those that are revoked",
        run=_list,
        parameters=(AFTER, PAGE_LIMIT),
        answer=Keys,
    ),
    Route(
        method="DELETE",
        path="/admin/keys/{key}",
        section=ADMIN_SECTION,
        summary="Revoke a key at once; it stays in the list",
        run=_revoke,
        parameters=(_KEY,),
        answer=RevokedKey,
        errors=(Code.KEY_NOT_FOUND,),
        writes=True,
    ),
    Route(
        method="POST",
        path="/admin/keys/{key}/rotate",
        section=ADMIN_SECTION,
        summary="Give a key a new secret; its id, roles and ACLs stay",
        run=_rotate,
        parameters=(_KEY,),
        body=RotateKeyBody,
        answer=CreatedKey,
        errors=(Code.KEY_NOT_FOUND,),
        writes=True,
        example={"grace": "1h"},
    ),
    Route(
        method="GET",
        path="/whoami",
        section=ADMIN_SECTION,
        summary="Say which key this request has proved",
        run=_whoami,
        answer=Whoami,
    ),
)
