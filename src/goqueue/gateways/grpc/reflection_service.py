"""Server reflection: tells tools such as grpcurl which services there are, and their messages."""

from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2

from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.service_call import Method, ServiceCall
from goqueue.gateways.grpc.statuses import Status

__all__ = ["REFLECTION_METHODS"]

_PUBLIC = "goqueue/v1/"
_HEALTH_FILE = "grpc/health/v1/health.proto"


class _Catalogue:
    """The files that are shown, and where each name is."""

    def __init__(self) -> None:
        self.files = {name: data for name, data in protocol.FILES.items() if _PUBLIC in name}
        for known in (duration_pb2, timestamp_pb2):
            self.files[known.DESCRIPTOR.name] = known.DESCRIPTOR.serialized_pb
        self.files[_HEALTH_FILE] = _health_file().SerializeToString()
        self.symbols: dict[str, str] = {}
        self.services: list[str] = []
        self.needs: dict[str, list[str]] = {}
        for name, data in self.files.items():
            self._index(name, descriptor_pb2.FileDescriptorProto.FromString(data))

    def _index(self, name: str, file: descriptor_pb2.FileDescriptorProto) -> None:
        self.needs[name] = list(file.dependency)
        for each in (*file.message_type, *file.enum_type, *file.service):
            self.symbols[f"{file.package}.{each.name}"] = name
        for service in file.service:
            self.services.append(f"{file.package}.{service.name}")
            for method in service.method:
                self.symbols[f"{file.package}.{service.name}.{method.name}"] = name

    def with_imports(self, name: str) -> list[bytes]:
        """A file, and those that it needs."""
        found: dict[str, bytes] = {}
        waiting = [name]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found[each] = self.files[each]
                waiting += self.needs[each]
        return list(found.values())


def _health_file() -> descriptor_pb2.FileDescriptorProto:
    """The file of the standard health service, whose messages have the form of ours."""
    ours = protocol.FILES["goqueue/v1/health.proto"]
    file = descriptor_pb2.FileDescriptorProto.FromString(ours)
    file.name, file.package = _HEALTH_FILE, "grpc.health.v1"
    file.ClearField("options")
    file.service[0].name = "Health"
    [status] = (enum for enum in file.enum_type if enum.name == "ServingStatus")
    for value in status.value:
        value.name = value.name.removeprefix("SERVING_STATUS_")
    response = next(each for each in file.message_type if each.name == "HealthCheckResponse")
    response.enum_type.append(status)
    file.enum_type.remove(status)
    response.field[0].type_name = ".grpc.health.v1.HealthCheckResponse.ServingStatus"
    for method in file.service[0].method:
        method.input_type = ".grpc.health.v1.HealthCheckRequest"
        method.output_type = ".grpc.health.v1.HealthCheckResponse"
    return file


_CATALOGUE = _Catalogue()


def _answer(request: protocol.ReflectionRequest) -> protocol.ReflectionResponse:
    response = protocol.ReflectionResponse(valid_host=request.host)
    response.original_request.CopyFrom(request)
    asked = request.WhichOneof("message_request")
    name = None
    if asked == "list_services":
        services = [protocol.ServiceResponse(name=each) for each in sorted(_CATALOGUE.services)]
        response.list_services_response.CopyFrom(protocol.ListServiceResponse(service=services))
        return response
    if asked == "file_by_filename":
        name = request.file_by_filename if request.file_by_filename in _CATALOGUE.files else None
    elif asked == "file_containing_symbol":
        name = _CATALOGUE.symbols.get(request.file_containing_symbol)
    if name is None:
        response.error_response.CopyFrom(
            protocol.ErrorResponse(error_code=Status.NOT_FOUND, error_message="There is none.")
        )
        return response
    files = protocol.FileDescriptorResponse(file_descriptor_proto=_CATALOGUE.with_imports(name))
    response.file_descriptor_response.CopyFrom(files)
    return response


async def _reflect(call: ServiceCall) -> None:
    while received := await call.receive_messages():
        for message in received:
            request = call.parse(protocol.ReflectionRequest, message)
            await call.send(_answer(request).SerializeToString())


_REFLECT = Method(run=_reflect, has_stream=True, waits=True)
REFLECTION_METHODS = {
    b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": _REFLECT,
    b"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": _REFLECT,
}
