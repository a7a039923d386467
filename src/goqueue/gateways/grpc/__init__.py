"""gRPC: the protocol of proto/ over an HTTP/2 of its own (docs/adr/0051-grpc.md).

Needs the extra `grpc`, which brings protobuf; nothing else of the node imports this package.
"""

from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.grpc_api import GrpcLimits
from goqueue.gateways.grpc.grpc_listener import grpc_listener

__all__ = ["GrpcLimits", "grpc_listener", "protocol"]
