"""ACLs over HTTP: bodies, handlers and routes."""

import enum
import secrets
from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import Count
from goqueue.gateways.http.keys import ADMIN_SECTION, AFTER, PAGE_LIMIT
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import identifier
from goqueue.gateways.http.routing.router import Route
from goqueue.model import Code
from goqueue.model.requests import (
    AclDeleted,
    AclDescription,
    AclEffect,
    AclList,
    AclSpec,
    CreateAcl,
    DeleteAcl,
    ListAcls,
    Operation,
    ResourceType,
)

__all__ = ["ACL_ROUTES", "Acl", "AclBody", "AclOperation", "Acls", "DeletedAcl"]


class AclOperation(enum.StrEnum):
    """What an ACL allows or denies; each implies to describe."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    ALTER = "alter"
    DELETE = "delete"
    ALL = "all"


class AclBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule to add."""

    principal: Annotated[
        str,
        Meta(
            description="A key id, `role:<role>` or `*`.",
            # Checked by the node, which says it in words.
            extra_json_schema={
                "pattern": r"^(key_[0-9a-f]{16}|role:(admin|producer|consumer|readonly)|\*)$"
            },
            examples=["role:producer"],
        ),
    ]
    resource_type: ResourceType
    resource_name: Annotated[
        str,
        Meta(
            description="A name, or a glob with `*` (at most eight) and `?`.",
            min_length=1,
            max_length=249,
            pattern=r"^[A-Za-z0-9._?*-]+$",
            # How many stars it has is checked by the node, which says it in words.
            extra_json_schema={"pattern": r"^([A-Za-z0-9._?-]*\*){0,8}[A-Za-z0-9._?-]*$"},
            examples=["orders*"],
        ),
    ]
    operation: AclOperation
    effect: AclEffect


class Acl(msgspec.Struct, frozen=True, kw_only=True):
    """A rule and its id. A deny wins over every allow."""

    id: str
    principal: str
    resource_type: ResourceType
    resource_name: str
    operation: AclOperation
    effect: AclEffect


class Acls(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of the ACLs by id; `next` is the `after` of the following page."""

    acls: list[Acl]
    count: Count
    next: str | None = None


class DeletedAcl(msgspec.Struct, frozen=True, kw_only=True):
    """The ACL was deleted."""

    deleted: bool
    id: str


_ACL = identifier("acl", "id of the ACL")


async def _create(call: Call) -> Acl:
    body = call.body(AclBody)
    spec = AclSpec(
        principal=body.principal,
        resource_type=body.resource_type,
        resource_name=body.resource_name,
        operation=Operation(body.operation),
        effect=body.effect,
    )
    command = CreateAcl(id=f"acl_{secrets.token_hex(8)}", acl=spec)
    return _acl(await call.ask(command, AclDescription))


async def _list(call: Call) -> Acls:
    listed = await call.ask(ListAcls(after=call[AFTER], limit=call[PAGE_LIMIT]), AclList)
    acls = [_acl(each) for each in listed.acls]
    return Acls(acls=acls, count=len(acls), next=listed.next)


async def _delete(call: Call) -> DeletedAcl:
    deleted = await call.ask(DeleteAcl(id=call[_ACL]), AclDeleted)
    return DeletedAcl(deleted=True, id=deleted.id)


def _acl(described: AclDescription) -> Acl:
    spec = described.acl
    return Acl(
        id=described.id,
        principal=spec.principal,
        resource_type=spec.resource_type,
        resource_name=spec.resource_name,
        operation=AclOperation(spec.operation),
        effect=spec.effect,
    )


ACL_ROUTES = (
    Route(
        method="POST",
        path="/admin/acls",
        section=ADMIN_SECTION,
        summary="Add an ACL; it takes effect while ACLs are enabled",
        run=_create,
        body=AclBody,
        answer=Acl,
        status=201,
        errors=(Code.QUOTA_EXCEEDED,),
        writes=True,
        example={
            "principal": "role:producer",
            "resource_type": "topic",
            "resource_name": "orders*",
            "operation": "write",
            "effect": "allow",
        },
    ),
    Route(
        method="GET",
        path="/admin/acls",
        section=ADMIN_SECTION,
        summary="List the ACLs by id",
        run=_list,
        parameters=(AFTER, PAGE_LIMIT),
        answer=Acls,
    ),
    Route(
        method="DELETE",
        path="/admin/acls/{acl}",
        section=ADMIN_SECTION,
        summary="Delete an ACL",
        run=_delete,
        parameters=(_ACL,),
        answer=DeletedAcl,
        errors=(Code.ACL_NOT_FOUND,),
        writes=True,
    ),
)
