"""TransactionService: producers and their transactions."""

from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.service_call import Method, ServiceCall
from goqueue.gateways.grpc.stored_messages import timestamp_of
from goqueue.model import MILLISECOND, Code, LogId, Refused, check_name
from goqueue.model.requests import (
    AddPartition,
    BeginTransaction,
    DescribeTransaction,
    Done,
    EndTransaction,
    InitProducer,
    ListTransactions,
    Owner,
    ProducerGranted,
    TransactionBegan,
    TransactionDescription,
    TransactionEnded,
    TransactionList,
)

__all__ = ["TRANSACTION_METHODS"]

_TIMEOUT_MS = 60_000
_TIMEOUT_MS_MIN, _TIMEOUT_MS_MAX = 1000, 900_000
_EPOCH_MAX = 32_767

_OwnerRequest = (
    protocol.BeginTransactionRequest
    | protocol.AddPartitionRequest
    | protocol.CommitTransactionRequest
    | protocol.AbortTransactionRequest
)


def _owner(request: _OwnerRequest) -> Owner:
    if request.producer_id < 1:
        raise Refused(Code.REQUEST_INVALID, field="producer_id", minimum=1, maximum=2**63 - 1)
    if not 0 <= request.epoch <= _EPOCH_MAX:
        raise Refused(Code.REQUEST_INVALID, field="epoch", minimum=0, maximum=_EPOCH_MAX)
    return Owner(
        producer_id=request.producer_id,
        epoch=request.epoch,
        transactional_id=check_name(request.transactional_id, "transactional_id"),
    )


async def _init(call: ServiceCall) -> None:
    request = call.request(protocol.InitProducerRequest)
    timeout_ms = request.transaction_timeout_ms or _TIMEOUT_MS
    if not _TIMEOUT_MS_MIN <= timeout_ms <= _TIMEOUT_MS_MAX:
        field, minimum, maximum = "transaction_timeout_ms", _TIMEOUT_MS_MIN, _TIMEOUT_MS_MAX
        raise Refused(Code.REQUEST_INVALID, field=field, minimum=minimum, maximum=maximum)
    name = request.transactional_id
    if name:
        check_name(name, "transactional_id")
    command = InitProducer(transactional_id=name or None, timeout_ns=timeout_ms * MILLISECOND)
    granted = await call.ask(command, ProducerGranted)
    response = protocol.InitProducerResponse(producer_id=granted.producer_id, epoch=granted.epoch)
    await call.send(response.SerializeToString())


async def _begin(call: ServiceCall) -> None:
    owner = _owner(call.request(protocol.BeginTransactionRequest))
    began = await call.ask(BeginTransaction(owner=owner), TransactionBegan)
    response = protocol.BeginTransactionResponse(transaction_id=began.transaction_id)
    await call.send(response.SerializeToString())


async def _add_partition(call: ServiceCall) -> None:
    request = call.request(protocol.AddPartitionRequest)
    owner = _owner(request)
    check_name(request.topic, "topic")
    if request.partition < 0:
        raise Refused(Code.PARTITION_INVALID, field="partition", found=request.partition)
    log = LogId(request.topic, request.partition)
    await call.ask(AddPartition(owner=owner, log=log), Done)
    await call.send(protocol.AddPartitionResponse().SerializeToString())


async def _commit(call: ServiceCall) -> None:
    owner = _owner(call.request(protocol.CommitTransactionRequest))
    await call.ask(EndTransaction(owner=owner, is_commit=True), TransactionEnded)
    await call.send(protocol.CommitTransactionResponse().SerializeToString())


async def _abort(call: ServiceCall) -> None:
    owner = _owner(call.request(protocol.AbortTransactionRequest))
    await call.ask(EndTransaction(owner=owner, is_commit=False), TransactionEnded)
    await call.send(protocol.AbortTransactionResponse().SerializeToString())


async def _list(call: ServiceCall) -> None:
    listed = await call.ask(ListTransactions(), TransactionList)
    shown = [_transaction(each) for each in listed.transactions]
    await call.send(protocol.ListTransactionsResponse(transactions=shown).SerializeToString())


async def _describe(call: ServiceCall) -> None:
    request = call.request(protocol.DescribeTransactionRequest)
    command = DescribeTransaction(transaction_id=request.transaction_id)
    described = _transaction(await call.ask(command, TransactionDescription))
    response = protocol.DescribeTransactionResponse(transaction=described)
    await call.send(response.SerializeToString())


def _transaction(described: TransactionDescription) -> protocol.TransactionInfo:
    topics: dict[str, list[int]] = {}
    for log in described.partitions:
        topics.setdefault(log.topic, []).append(log.partition)
    return protocol.TransactionInfo(
        transaction_id=described.transaction_id,
        transactional_id=described.transactional_id,
        producer_id=described.producer_id,
        epoch=described.epoch,
        state=described.state.value,
        start_time=timestamp_of(described.started_at),
        last_update_time=timestamp_of(described.updated_at),
        timeout_ms=described.timeout_ns // MILLISECOND,
        partitions=[
            protocol.TransactionPartition(topic=topic, partitions=sorted(partitions))
            for topic, partitions in sorted(topics.items())
        ],
    )


_SERVICE = b"/goqueue.v1.TransactionService/"
TRANSACTION_METHODS = {
    _SERVICE + b"InitProducer": Method(run=_init),
    _SERVICE + b"BeginTransaction": Method(run=_begin),
    _SERVICE + b"AddPartition": Method(run=_add_partition),
    _SERVICE + b"CommitTransaction": Method(run=_commit),
    _SERVICE + b"AbortTransaction": Method(run=_abort),
    _SERVICE + b"ListTransactions": Method(run=_list),
    _SERVICE + b"DescribeTransaction": Method(run=_describe),
}
