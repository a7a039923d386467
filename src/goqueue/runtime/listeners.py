"""The listeners of a node: which gateways there are, and how they start and stop together.

All addresses are taken before anything is accepted, so a node with one unusable address does not
start at all. Listeners that can say "not ready" accept at once; those that cannot wait until the
node has recovered. All stop at the same time, within one grace period.
"""

import asyncio
from collections.abc import Iterator, Sequence

from goqueue.gateways import (
    Address,
    Endpoint,
    Gateway,
    GatewayPort,
    Listener,
    TrustedProxies,
)
from goqueue.gateways.http import (
    ApiLimits,
    CorsPolicy,
    HttpApi,
    HttpAuthentication,
    http_listener,
)
from goqueue.runtime.settings import Settings
from goqueue.schemas import encode_descriptor

__all__ = ["Listeners", "configured_gateways"]


def configured_gateways(settings: Settings) -> tuple[Gateway, ...]:
    """The gateways that the settings name, in the order in which they are started."""
    gateways: list[Gateway] = []
    if settings.listeners.http is not None:
        gateways.append(_http_gateway(settings))
    if settings.listeners.grpc is not None:
        gateways.append(_grpc_gateway(settings))
    return tuple(gateways)


def _grpc_gateway(settings: Settings) -> Gateway:
    # Only here: a node without gRPC needs no protobuf, and starts without importing it.
    from goqueue.gateways.grpc import GrpcLimits, grpc_listener

    listener = settings.listeners.grpc
    assert listener is not None

    def create(port: GatewayPort) -> Listener:
        tls = None if port.tls is None else port.tls("grpc", ("h2",))
        return grpc_listener(
            port,
            Endpoint(listener.host, listener.port, tls),
            limits=GrpcLimits(
                message_bytes_max=settings.http.publish_body_limit,
                delay_ns_max=settings.limits.max_delay_ns,
            ),
            has_reflection=settings.grpc.has_reflection,
            allows_health=settings.auth.allows_health,
            proxies=TrustedProxies(settings.trusted_proxies),
        )

    return create


def _http_gateway(settings: Settings) -> Gateway:
    http, listener = settings.http, settings.listeners.http
    assert listener is not None
    limits = ApiLimits(
        body_bytes_max=http.body_limit,
        publish_body_bytes_max=http.publish_body_limit,
        delay_ns_max=settings.limits.max_delay_ns,
    )
    auth, is_loopback = settings.auth, listener.is_loopback
    # With a key in each request no page can act for a user whom it does not know.
    is_local = is_loopback and not auth.is_enabled
    # Whom a proxy on this machine forwards is somewhere else.
    is_private = is_loopback and not settings.trusted_proxies
    cors = CorsPolicy(origins=http.cors_origins, is_local=is_local, is_tls=settings.tls.is_enabled)

    def create(port: GatewayPort) -> Listener:
        api = HttpApi(
            port.broker,
            port.facts,
            cors=cors,
            limits=limits,
            metrics=port.scrape,
            requests=port.requests,
            authentication=HttpAuthentication(
                port.authenticator,
                allows_health=auth.allows_health,
                allows_metrics=auth.allows_metrics or is_private,
                is_loopback=is_private,
            ),
            key_maker=port.key_maker,
            tenants=port.tenants,
            proxies=TrustedProxies(settings.trusted_proxies),
            encode_descriptor=encode_descriptor,
        )
        tls = None if port.tls is None else port.tls("http", ("http/1.1",))
        endpoint = Endpoint(listener.host, listener.port, tls)
        return http_listener(api, endpoint, capacity=port.capacity)

    return create


class Listeners:
    """All listeners of one node, in order."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = tuple(listeners)

    def __iter__(self) -> Iterator[Listener]:
        return iter(self._listeners)

    async def start(self) -> dict[str, Address]:
        """Bind every address, then accept on listeners that need not wait; the addresses by name.

        Raises OSError if an address cannot be bound; then none is held.
        """
        try:
            addresses = {each.name: await each.open() for each in self._listeners}
            for listener in self._listeners:
                if not listener.waits_for_node:
                    await listener.serve()
        except BaseException:
            await self.stop(0)
            raise
        return addresses

    async def serve_when_ready(self) -> None:
        """Accept on the listeners that waited for the node; raises OSError."""
        for listener in self._listeners:
            if listener.waits_for_node:
                await listener.serve()

    async def stop(self, grace_s: float) -> None:
        """Stop all of them at the same time; each has the whole grace."""
        async with asyncio.TaskGroup() as tasks:
            for listener in self._listeners:
                tasks.create_task(listener.stop(grace_s))
