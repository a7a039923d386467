"""The first admin key of a data directory, made by a node that listens nowhere.

Takes the lock of the directory, so it never runs beside a node, and goes the way of every change:
the key is in the journal and in the audit log when the secret is returned.
"""

import msgspec

from goqueue.broker import Node
from goqueue.gateways import KeyMaker, ask
from goqueue.model import LOCAL
from goqueue.model.requests import CreateKey, KeyDescription, Role
from goqueue.runtime.data_directory import DataDirectory
from goqueue.runtime.offline_node import run_offline
from goqueue.runtime.pump import Pump

__all__ = ["FirstKey", "create_first_key"]


class FirstKey(msgspec.Struct, frozen=True):
    """A new key and its secret."""

    described: KeyDescription
    secret: str

    def __repr__(self) -> str:
        return f"FirstKey({self.described.id})"


async def create_first_key(data_dir: str, name: str) -> FirstKey:
    """Create an admin key of the tenant `default`; raises DataDirectoryUnusable, NodeHalted."""
    directory = DataDirectory(data_dir)
    try:
        maker = KeyMaker(directory.node_secret())

        async def create(_: Node, pump: Pump) -> FirstKey:
            return await _create(pump, maker, name)

        _, created = await run_offline(directory, create)
    finally:
        directory.close()
    return created


async def _create(pump: Pump, maker: KeyMaker, name: str) -> FirstKey:
    id_ = maker.new_id()
    secret = await maker.draw(id_)
    command = CreateKey(
        id=id_,
        prefix=secret.prefix,
        verifiers=secret.verifiers,
        name=name,
        roles=frozenset((Role.ADMIN,)),
    )
    return FirstKey(await ask(pump, command, KeyDescription, LOCAL), secret.key)
