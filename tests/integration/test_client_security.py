"""Keys, ACLs and tenants by the SDK, with and without await."""

import asyncio
import datetime as dt

import pytest

import goqueue
from tests.integration.server_process import ServerProcess


def test_keys_acls_and_tenants_by_the_async_client(node: ServerProcess) -> None:
    async def run() -> None:
        async with goqueue.connect(node.url) as q:
            tenant = await q.tenants.create("Soylent", max_topics=3)
            assert tenant.quotas.max_topics == 3
            key = await q.keys.create(
                "svc", ["consumer"], tenant="soylent", expires_in=dt.timedelta(hours=1)
            )
            assert key.key not in repr(key)
            rotated = await q.keys.rotate(key.id, grace="1m")
            assert rotated.key != key.key
            await q.keys.revoke(key.id)
            (found,) = [each for each in await q.keys.list() if each.id == key.id]
            assert found.revoked
            acl = await q.acls.create("*", "topic:soylent.*", "read", effect="deny")
            assert acl in await q.acls.list()
            await q.acls.delete(acl.id)
            quotas = await q.tenants.set_quotas("soylent", max_topics=4)
            assert quotas == await q.tenants.quotas("soylent")
            assert (await q.tenants.suspend("soylent", "green")).suspend_reason == "green"
            assert (await q.tenants.activate("soylent")).status == "active"
            assert (await q.tenants.disable("soylent")).status == "disabled"
            assert (await q.tenants.alter("soylent", description="d")).description == "d"
            assert (await q.tenants.describe("soylent")).description == "d"
            assert [each.id for each in await q.tenants.list(status="disabled")] == ["soylent"]
            await q.tenants.activate("soylent")
            await q.topics.create("soylent.orders")
            assert await q.tenants.topics("soylent") == ("soylent.orders",)
            assert await q.tenants.groups("soylent") == ()
            assert (await q.tenants.usage("soylent")).topic_count == 1
            assert (await q.tenants.reset_usage("soylent")).total_messages_published == 0
            assert (await q.tenants.stats("soylent")).topic_usage_percent == 25.0
            with pytest.raises(goqueue.GoQueueError) as refused:
                await q.tenants.delete("soylent")
            assert refused.value.code == "tenant_not_empty"
            await q.tenants.delete("soylent", force=True)
            with pytest.raises(goqueue.NotFound):
                await q.tenants.describe("soylent")
            assert (await q.whoami()).roles == ("admin",)

    asyncio.run(run())


def test_the_sync_client_has_the_same_methods(node: ServerProcess) -> None:
    with goqueue.connect_sync(node.url) as q:
        q.tenants.create("Tyrell", max_messages_per_second=5)
        key = q.keys.create("svc", ["admin"], tenant="tyrell")
        assert key.tenant == "tyrell"
        acl = q.acls.create(key.id, "topic:*", "all")
        q.acls.delete(acl.id)
        q.topics.create("tyrell.orders", partitions=1)
        for _ in range(2):
            q.publish("tyrell.orders", b"x")
        q.tenants.delete("tyrell", force=True)
        assert key.id not in [each.id for each in q.keys.list()]
        assert q.whoami().tenant == "default"


def test_a_misspelt_quota_is_told_before_anything_is_sent(node: ServerProcess) -> None:
    with goqueue.connect_sync(node.url) as q:
        with pytest.raises(TypeError, match="max_topics"):
            q.tenants.set_quotas("default", max_topic=1)  # type: ignore[call-arg]  # the mistake
        with pytest.raises(ValueError, match="topic:NAME"):
            q.acls.create("*", "orders", "read")
