"""One tenant holds at most a quarter of what all connections may hold, `default` three quarters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.gateways import Capacity, ConnectionLimits
from goqueue.gateways.connection_limits import ConnectionBytes
from tests.unit.gateways.loopback import LOOPS, Reply, Served, post, run, serving
from tests.unit.gateways.test_http_guard import guard

LIMITS = ConnectionLimits(request_bytes_max=4000, unsent_bytes_max=4000)


async def send(served: Served, tenant: str, size: int) -> Reply:
    served.echo.tenant = tenant
    return await served.ask(post(b"x" * size, "/", "X-API-Key: right"))


@pytest.mark.parametrize("loop", LOOPS)
def test_bodies_of_one_tenant_refuse_only_its_own(loop: str) -> None:
    async def main() -> None:
        async with serving(together=LIMITS) as served:
            guard(served)
            served.echo.tenant = "acme"
            holder = await served.open()
            await holder.send(post(b"x" * 900, "/wait", "X-API-Key: right"))
            await served.echo.waiting.wait()

            refused = await send(served, "acme", 200)
            assert (refused.status, refused.code) == (503, "broker_unavailable")
            assert (await send(served, "globex", 900)).status == 200
            # Most nodes have no other tenant: it may hold more.
            assert (await send(served, "default", 1020)).status == 200
            served.echo.go.set()
            assert (await holder.reply()).status == 200
            assert (await send(served, "acme", 900)).status == 200
            assert served.server.capacity.requests.bytes_held == 0

    run(main(), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_body_that_is_never_finished_counts_for_its_tenant_until_its_sender_leaves(
    loop: str,
) -> None:
    async def main() -> None:
        async with serving(together=LIMITS) as served:
            guard(served)
            served.echo.tenant = "acme"
            slow = await served.open()
            await slow.send(post(b"x" * 950, "/", "X-API-Key: right")[:-1])
            await served.wait_for(lambda: served.server.capacity.requests.bytes_held == 949)
            assert (await send(served, "acme", 100)).status == 503
            slow.reset()
            await served.wait_for_connections(0)
            assert (await send(served, "acme", 100)).status == 200

    run(main(), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_keys_of_default_leave_a_quarter_of_the_bytes_to_other_tenants(loop: str) -> None:
    async def main() -> None:
        async with serving(together=LIMITS) as served:
            guard(served)
            served.echo.tenant = "default"
            for _ in range(3):
                slow = await served.open()
                await slow.send(post(b"x" * 950, "/", "X-API-Key: right")[:-1])
            await served.wait_for(lambda: served.server.capacity.requests.bytes_held == 3 * 949)

            refused = await send(served, "default", 200)
            assert (refused.status, refused.code) == (503, "broker_unavailable")
            assert (await send(served, "acme", 900)).status == 200

    run(main(), loop)


def test_answers_that_one_tenant_does_not_read_refuse_only_its_own() -> None:
    capacity = Capacity(LIMITS)
    slow, other, stranger = (ConnectionBytes(capacity) for _ in range(3))
    slow.assign("acme")
    other.assign("acme")
    stranger.assign("globex")
    # It is in the buffer already, so it is counted above the share, too.
    slow.unsent.replace(0, 1500)
    assert [each.unsent.is_spent for each in (slow, other, stranger)] == [True, True, False]
    slow.unsent.replace(1500, 0)
    assert not other.unsent.is_spent


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "take", "give", "assign", "leave"]),
        st.integers(0, 3),
        st.integers(0, 900),
    ),
    max_size=60,
)


@given(STEPS)
def test_what_is_held_is_the_sum_over_connections_of_all_and_of_each_tenant(
    steps: list[tuple[str, int, int]],
) -> None:
    capacity = Capacity(LIMITS)
    connections = [ConnectionBytes(capacity) for _ in range(4)]
    tenants = [""] * 4
    held: list[list[int]] = [[] for _ in range(4)]
    for kind, who, size in steps:
        connection, tenant = connections[who], tenants[who]
        together = sum(map(sum, held))
        own = sum(sum(held[each]) for each in range(4) if tenants[each] == tenant)
        if kind == "take":
            most = {"": 4000, "default": 3000}.get(tenant, 1000)
            fits = together + size <= 4000 and (not tenant or own + size <= most)
            assert connection.requests.take(size) == fits
            held[who] += [size] if fits else []
        elif kind == "give" and held[who]:
            connection.requests.give_back(held[who].pop())
        elif kind == "assign" and not tenant:
            tenants[who] = ("acme", "globex", "default")[size % 3]
            connection.assign(tenants[who])
        elif kind == "leave":
            connection.requests.give_back(sum(held[who]))
            connection.close()
            connections[who], tenants[who], held[who] = ConnectionBytes(capacity), "", []
        assert capacity.requests.bytes_held == sum(map(sum, held))
    assert capacity.shares_count == len({*tenants} - {""})
