"""HealthService, and the same as grpc.health.v1.Health: whether the node serves."""

import asyncio

from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.service_call import Method, ServiceCall
from goqueue.model import Refused
from goqueue.model.requests import CheckHealth, NodeHealth

__all__ = ["HEALTH_METHODS"]

_WATCH_S = 1.0
_SERVICES = frozenset(
    {
        "",
        "goqueue",
        *(
            f"goqueue.v1.{name}Service"
            for name in ("Ack", "Consume", "Health", "Offset", "Publish", "Transaction")
        ),
    }
)


async def _status(call: ServiceCall, service: str) -> int:
    if service not in _SERVICES:
        return protocol.SERVING_STATUS_SERVICE_UNKNOWN
    if call.is_stopping:
        return protocol.SERVING_STATUS_NOT_SERVING
    try:
        health = await call.ask(CheckHealth(), NodeHealth)
    except Refused:
        return protocol.SERVING_STATUS_NOT_SERVING
    if health.not_ready is None:
        return protocol.SERVING_STATUS_SERVING
    return protocol.SERVING_STATUS_NOT_SERVING


async def _check(call: ServiceCall) -> None:
    request = call.request(protocol.HealthCheckRequest)
    status = await _status(call, request.service)
    await call.send(protocol.HealthCheckResponse(status=status).SerializeToString())


async def _watch(call: ServiceCall) -> None:
    request = call.request(protocol.HealthCheckRequest)
    told: int | None = None
    while True:
        status = await _status(call, request.service)
        if status != told:
            told = status
            await call.send(protocol.HealthCheckResponse(status=status).SerializeToString())
        await asyncio.sleep(_WATCH_S)


_CHECK = Method(run=_check, is_open=True)
_WATCH = Method(run=_watch, waits=True, is_open=True)
HEALTH_METHODS = {
    b"/goqueue.v1.HealthService/Check": _CHECK,
    b"/goqueue.v1.HealthService/Watch": _WATCH,
    b"/grpc.health.v1.Health/Check": _CHECK,
    b"/grpc.health.v1.Health/Watch": _WATCH,
}
