"""A gRPC client for tests: the library of the gRPC project, and the messages of the node."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc

from goqueue.gateways.grpc import protocol
from tests.integration.cluster_nodes import wait_until
from tests.integration.server_process import ServerProcess

__all__ = ["CallFailed", "GrpcClient", "grpc_address", "grpc_client"]

CALL_S = 30.0
_ADDRESS = re.compile(r"grpcs?://([0-9.]+:\d+)")


class CallFailed(Exception):
    """A call that ended with a status other than OK."""

    def __init__(self, error: grpc.RpcError) -> None:
        super().__init__(error.code(), error.details())
        self.status: str = error.code().name
        found = dict(error.trailing_metadata() or ()).get("goqueue-error-bin", b"")
        self.error = protocol.Error.FromString(found)


def grpc_address(node: ServerProcess) -> str:
    """Where the node serves gRPC in its present life; the log that says so may come late."""
    wait_until(
        lambda: _ADDRESS.search(node.said_in_this_life) is not None, "the address of gRPC is known"
    )
    return str(_ADDRESS.findall(node.said_in_this_life)[-1])


class Stream:
    """The answers of a stream, one by one; payloads of a subscription by name."""

    def __init__(self, call: Any) -> None:
        self.call = call

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self.call
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.CANCELLED:
                raise CallFailed(error) from None

    def payloads(self, *names: str) -> Iterator[Any]:
        """The payloads with these names; the others are passed over."""
        for response in self:
            payload = response.WhichOneof("payload")
            if payload in names:
                yield getattr(response, payload)

    def messages(self, count: int) -> list[protocol.Message]:
        """So many messages; the stream stays open."""
        found: list[protocol.Message] = []
        if count:
            for batch in self.payloads("messages"):
                found += batch.messages
                if len(found) >= count:
                    break
        return found

    def cancel(self) -> None:
        self.call.cancel()


class GrpcClient:
    """Calls of all services on one channel."""

    def __init__(self, channel: Any, key: str = "") -> None:
        self._channel = channel
        self._metadata = (("authorization", f"Bearer {key}"),) if key else ()

    def call(self, method: str, request: Any, kind: Any, **options: Any) -> Any:
        """A unary call of `Service/Method`; raises CallFailed."""
        prefix = "" if "." in method else "goqueue.v1."
        ask = self._channel.unary_unary(
            f"/{prefix}{method}",
            request_serializer=_serialize,
            response_deserializer=kind.FromString,
        )
        options = {"timeout": CALL_S, "metadata": self._metadata, **options}
        try:
            return ask(request, **options)
        except grpc.RpcError as error:
            raise CallFailed(error) from None

    def stream(self, method: str, request: Any, kind: Any = protocol.ConsumeResponse) -> Stream:
        ask = self._channel.unary_stream(
            f"/goqueue.v1.{method}",
            request_serializer=_serialize,
            response_deserializer=kind.FromString,
        )
        return Stream(ask(request, metadata=self._metadata))

    def publish(self, topic: str, value: bytes | None, **fields: Any) -> protocol.PublishResponse:
        request = protocol.PublishRequest(topic=topic, value=value, **fields)
        response: protocol.PublishResponse = self.call(
            "PublishService/Publish", request, protocol.PublishResponse
        )
        return response

    def publish_stream(self, requests: Iterable[protocol.PublishStreamRequest]) -> Stream:
        ask = self._channel.stream_stream(
            "/goqueue.v1.PublishService/PublishStream",
            request_serializer=_serialize,
            response_deserializer=protocol.PublishStreamResponse.FromString,
        )
        return Stream(ask(iter(requests), metadata=self._metadata))

    def subscribe(self, group: str, topic: str, **fields: Any) -> Stream:
        request = protocol.SubscribeRequest(topics=[topic], group_id=group, **fields)
        return self.stream("ConsumeService/Subscribe", request)

    def consume(self, topic: str, **fields: Any) -> Stream:
        request = protocol.ConsumeRequest(topic=topic, **fields)
        return self.stream("ConsumeService/Consume", request)

    def ack(self, *receipts: str, group: str = "") -> protocol.BatchAckResponse:
        request = protocol.BatchAckRequest(group_id=group, receipt_handles=receipts)
        response: protocol.BatchAckResponse = self.call(
            "AckService/BatchAck", request, protocol.BatchAckResponse
        )
        return response


def _serialize(message: Any) -> bytes:
    serialized: bytes = message.SerializeToString()
    return serialized


@contextlib.contextmanager
def grpc_client(
    address: str,
    key: str = "",
    credentials: Any = None,
    options: tuple[tuple[str, Any], ...] = (),
    connect: Callable[..., Any] | None = None,
) -> Iterator[GrpcClient]:
    """A client on a channel of its own."""
    # Channels to one address share a connection otherwise.
    options = (("grpc.use_local_subchannel_pool", 1), *options)
    if credentials is None:
        channel = (connect or grpc.insecure_channel)(address, options=options)
    else:
        channel = grpc.secure_channel(address, credentials, options=options)
    try:
        yield GrpcClient(channel, key)
    finally:
        channel.close()
