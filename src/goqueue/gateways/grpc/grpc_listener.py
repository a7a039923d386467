"""The listener of the gRPC gateway: all services on one endpoint."""

from goqueue.gateways.forwarded import TrustedProxies
from goqueue.gateways.grpc.ack_service import ACK_METHODS
from goqueue.gateways.grpc.consume_service import consume, failure_payload
from goqueue.gateways.grpc.grpc_api import GrpcApi, GrpcLimits
from goqueue.gateways.grpc.health_service import HEALTH_METHODS
from goqueue.gateways.grpc.http2.http2_connection import Http2Connection
from goqueue.gateways.grpc.http2.streams import Http2Limits
from goqueue.gateways.grpc.offset_service import OFFSET_METHODS
from goqueue.gateways.grpc.publish_service import PUBLISH_METHODS
from goqueue.gateways.grpc.reflection_service import REFLECTION_METHODS
from goqueue.gateways.grpc.service_call import Method
from goqueue.gateways.grpc.subscription import subscribe
from goqueue.gateways.grpc.transaction_service import TRANSACTION_METHODS
from goqueue.gateways.listener import Endpoint, TcpListener
from goqueue.gateways.port import GatewayPort

__all__ = ["METHODS", "grpc_listener"]

METHODS: dict[bytes, Method] = {
    **PUBLISH_METHODS,
    b"/goqueue.v1.ConsumeService/Consume": Method(run=consume, waits=True, failure=failure_payload),
    b"/goqueue.v1.ConsumeService/Subscribe": Method(
        run=subscribe, waits=True, failure=failure_payload
    ),
    **ACK_METHODS,
    **OFFSET_METHODS,
    **TRANSACTION_METHODS,
    **HEALTH_METHODS,
}


def grpc_listener(  # what the runtime hands in
    port: GatewayPort,
    endpoint: Endpoint,
    *,
    limits: GrpcLimits | None = None,
    http2: Http2Limits | None = None,
    has_reflection: bool = False,
    allows_health: bool = True,
    proxies: TrustedProxies | None = None,
) -> TcpListener:
    """A listener that serves gRPC."""
    methods = METHODS | REFLECTION_METHODS if has_reflection else METHODS
    api = GrpcApi(port, methods, limits=limits, allows_health=allows_health, proxies=proxies)
    held = Http2Limits() if http2 is None else http2
    return TcpListener(
        "grpc", endpoint, lambda listener: Http2Connection(api, held, listener), port.capacity
    )
