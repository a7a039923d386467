"""What `goqueue key bootstrap` does: the first key, made without a server."""

import datetime as dt

import msgspec
import uvloop

from goqueue.cli.errors import Failure
from goqueue.cli.output import Reply
from goqueue.client.security import NewApiKey
from goqueue.model import SECOND, Refused, Timestamp
from goqueue.runtime import (
    DataDirectoryUnusable,
    FirstKey,
    NodeHalted,
    create_first_key,
    forbid_memory_dumps,
)

__all__ = ["bootstrap_key"]


def bootstrap_key(data_dir: str, name: str) -> Reply[NewApiKey]:
    """Create an admin key in a data directory whose node is stopped."""
    forbid_memory_dumps()
    try:
        first = uvloop.run(create_first_key(data_dir, name))
    except (DataDirectoryUnusable, NodeHalted, Refused) as error:
        raise Failure(str(error), code="data_directory") from error
    created = _new_key(first)
    fields = {
        field: value
        for field, value in msgspec.to_builtins(created).items()
        if value is not None and value != {}
    }
    return Reply(created, msgspec.json.encode(fields))


def _new_key(first: FirstKey) -> NewApiKey:
    described = first.described
    return NewApiKey(
        id=described.id,
        key=first.secret,
        prefix=described.prefix,
        name=described.name,
        roles=tuple(role.value for role in described.roles),
        tenant=described.tenant,
        expires_at=_time(described.expires_at),
    )


def _time(at: Timestamp | None) -> dt.datetime | None:
    return None if at is None else dt.datetime.fromtimestamp(at / SECOND, dt.UTC)
