"""Clients that write in transactions to a cluster, through any of its brokers.

Each is a program that asks one thing after the other. It keeps the rules of the SDK: a call whose
outcome is not known ends the epoch, an end is repeated until it is answered. Programs are killed,
and two of them may hold one transactional id: the older is fenced, and goes on all the same.
"""

from collections.abc import Callable, Generator
from random import Random

import msgspec

from goqueue.model import MILLISECOND, SECOND, Code, LogId, Message, Offset, Refused, RequestId
from goqueue.model.requests import (
    AddOffsets,
    AddPartition,
    BeginTransaction,
    Command,
    CommitGroup,
    DescribeOffsets,
    Done,
    EndTransaction,
    GroupCommitted,
    HeartbeatProducer,
    InitProducer,
    Isolation,
    Join,
    Joined,
    Leased,
    Offsets,
    Owner,
    Poll,
    PrepareTransaction,
    ProducerGranted,
    ProducerStamp,
    Publish,
    Published,
    Read,
    Records,
    Reply,
    TransactionBegan,
    TransactionEnded,
    TransactionPrepared,
    receipt_of,
)
from goqueue.records import Flag, build, decode, last_offset, walk
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.copy_ledger import Attempt, CopyLedger

__all__ = [
    "COPIES",
    "PARTITIONS",
    "Copier",
    "CopyReader",
    "QueueCopier",
    "Surroundings",
    "TransactionClient",
    "following",
    "visible",
]

COPIES = "copies"
PARTITIONS = 2
_PATIENCE_STEPS = 120
_ENDS_MAX = 60
_READ_BYTES = 4000
_QUEUE = "queue-copies"
_STREAM = "stream-copies"

Program = Generator[Command | None, Reply | Refused | None, None]
Answer = Reply | Refused | None


def visible(records: Records) -> list[tuple[int, bytes]]:
    """Offset and value of what a reader of committed messages sees."""
    found: list[tuple[int, bytes]] = []
    for piece in records.data:
        columns = walk(piece)
        for position, flags in zip(columns.positions, columns.flags, strict=True):
            record = decode(piece, position)
            is_hidden = any(first <= record.offset < end for first, end in records.aborted)
            if not flags & Flag.CONTROL and not is_hidden:
                found.append((record.offset, record.value or b""))
    return found


def following(records: Records) -> Offset:
    """Where the next read begins."""
    if not records.data:
        return records.upto
    return Offset(last_offset(records.data[-1]) + 1)


class Surroundings(msgspec.Struct, frozen=True):
    """What clients share; `ended` is called when one was told that its transaction has ended."""

    ledger: CopyLedger
    random: Random
    machines: Callable[[], list[BrokerMachine]]
    ended: Callable[[Attempt], None]


class TransactionClient:
    """Writes transactions to several partitions, and ends them in any way."""

    def __init__(self, name: str, transactional_id: str, around: Surroundings) -> None:
        self.name = name
        self._id = transactional_id
        self._ledger = around.ledger
        self._random = around.random
        self._machines = around.machines
        self._ended = around.ended
        self._program: Program | None = None
        self._asked: tuple[BrokerMachine, RequestId] | None = None
        self._steps = 0
        self._owner: Owner | None = None
        self._sequences: dict[int, int] = {}
        self._groups = 0
        # Whether the next transaction needs another epoch.
        self._spent = False
        self._home: BrokerMachine | None = None
        # Towards the end nothing is left open.
        self.is_draining = False
        self.is_stopped = False

    @property
    def is_idle(self) -> bool:
        return self._program is None

    def kill(self) -> None:
        """The program ends where it is, and begins anew later."""
        self._program = None
        self._owner = None

    def step(self) -> None:
        """Look at the answer, and ask the next."""
        reply: Answer = None
        if self._asked is not None:
            machine, request = self._asked
            reply = machine.replies.pop(request, None)
            self._steps += 1
            if reply is None and not machine.is_over and self._steps < _PATIENCE_STEPS:
                return
            self._asked = None
            if reply is None:
                self._home = None
        program = self._program
        try:
            if program is None:
                if self.is_stopped:
                    return
                program = self._program = self._live()
                command = next(program)
            else:
                command = program.send(reply)
        except StopIteration:
            self._program = None
            return
        if command is not None:
            self._ask(command)

    def _ask(self, command: Command) -> None:
        machines = [each for each in self._machines() if each.node.is_serving]
        if not machines:
            return
        if self._home not in machines or self._random.random() < 0.2:
            self._home = self._random.choice(machines)
        assert self._home is not None
        self._steps = 0
        self._asked = (self._home, self._home.ask(command))

    # One transaction after the other

    def _live(self) -> Program:
        if self._owner is None:
            yield from self._init()
        if self._owner is None:
            return
        begun = yield BeginTransaction(owner=self._owner)
        if not isinstance(begun, TransactionBegan):
            # Perhaps there is one: another epoch ends it.
            self._owner = None
            return
        attempt = self._ledger.begin(self.name, begun.transaction_id)
        is_whole = yield from self._fill(attempt)
        chance = self._random.random()
        if chance < 0.05 and not self.is_draining:
            # It falls silent, and leaves the transaction open.
            self._owner = None
        elif not is_whole or chance < 0.2:
            yield from self._end(attempt, is_commit=False)
        elif chance < 0.4:
            yield from self._commit_as_group(attempt)
        else:
            yield from self._end(attempt, is_commit=True)

    def _init(self) -> Program:
        timeout_ns = self._random.choice((2, 60)) * SECOND
        command = InitProducer(transactional_id=self._id, timeout_ns=timeout_ns)
        granted = yield command
        if isinstance(granted, ProducerGranted):
            self._owner = Owner(
                producer_id=granted.producer_id,
                epoch=granted.epoch,
                transactional_id=self._id,
            )
            self._sequences = {}

    def _fill(self, attempt: Attempt) -> Generator[Command | None, Answer, bool]:
        """Write something; whether all of it is stored."""
        is_whole = True
        for number in range(self._random.randint(1, 3)):
            partition = self._random.randrange(PARTITIONS)
            if self._random.random() < 0.2:
                added = yield from self._add_partition(attempt, partition)
                is_whole = is_whole and added
            values = [f"{attempt.name}|own|{number}".encode()]
            stored = yield from self._write(attempt, partition, values)
            is_whole = is_whole and stored
            if self._random.random() < 0.1 and self._owner is not None:
                owner = self._owner
                yield HeartbeatProducer(producer_id=owner.producer_id, epoch=owner.epoch)
        return is_whole

    def _add_partition(
        self, attempt: Attempt, partition: int
    ) -> Generator[Command | None, Answer, bool]:
        if self._owner is None:
            return False
        log = LogId(COPIES, partition)
        done = yield AddPartition(owner=self._owner, log=log)
        if isinstance(done, Done):
            attempt.partitions[log] = None
            return True
        self._doubt(done)
        return False

    def _write(
        self, attempt: Attempt, partition: int, values: list[bytes]
    ) -> Generator[Command | None, Answer, bool]:
        """Publish a batch, with a number or without; whether it is stored."""
        if self._owner is None:
            return False
        is_numbered = self._random.random() < 0.6
        sequence = self._sequences.get(partition, 0) if is_numbered else None
        owner = self._owner
        reply: Answer = None
        for _ in range(5):
            stamp = ProducerStamp(
                producer_id=owner.producer_id, epoch=owner.epoch, sequence=sequence
            )
            reply = yield Publish(
                topic=COPIES,
                batch=build([Message(value=each) for each in values]),
                targets=[partition] * len(values),
                producer=stamp,
            )
            code = _refusal_of(reply)
            if isinstance(reply, Published) and code is None:
                attempt.values.update(dict.fromkeys(values, partition))
                attempt.partitions[LogId(COPIES, partition)] = None
                if sequence is not None:
                    self._sequences[partition] = sequence + len(values)
                return True
            is_open = code is None or code.is_retriable
            if sequence is None or not is_open:
                break
            # The same batch again: it is stored once.
        self._doubt(reply)
        return False

    def _doubt(self, reply: Answer) -> None:
        """A call of unknown outcome may arrive late: the next transaction is another epoch's."""
        code = _refusal_of(reply)
        if code is None or code is Code.REPLICATION_FAILED or not code.is_retriable:
            self._spent = True

    # Ending

    def _end(self, attempt: Attempt, *, is_commit: bool) -> Program:
        owner = self._owner
        if owner is None:
            return
        attempt.may_commit |= is_commit
        for _ in range(_ENDS_MAX):
            reply = yield EndTransaction(owner=owner, is_commit=is_commit)
            if isinstance(reply, TransactionEnded):
                self._tell(attempt, is_commit=is_commit)
                break
            code = _refusal_of(reply)
            if code is Code.TRANSACTION_TIMEOUT:
                # Decided; its markers may be on their way.
                self._ledger.end(attempt, is_commit=False)
            if code is not None and not code.is_retriable:
                self._spent = True
                break
        else:
            self._spent = True
        self._leave()

    def _tell(self, attempt: Attempt, *, is_commit: bool) -> None:
        self._ledger.end(attempt, is_commit=is_commit)
        self._ended(attempt)

    def _leave(self) -> None:
        if self._spent:
            self._owner, self._spent = None, False

    def _commit_as_group(self, attempt: Attempt) -> Program:
        owner = self._owner
        if owner is None:
            return
        prepared: Answer = None
        for _ in range(_ENDS_MAX):
            prepared = yield PrepareTransaction(owner=owner)
            code = _refusal_of(prepared)
            if isinstance(prepared, TransactionPrepared) or (code and not code.is_retriable):
                break
        if not isinstance(prepared, TransactionPrepared):
            self._owner, self._spent = None, False
            return
        attempt.may_commit = True
        self._groups += 1
        key = f"{self.name}-{self._groups}"
        for _ in range(_ENDS_MAX):
            reply = yield CommitGroup(key=key, transaction_ids=(prepared.transaction_id,))
            if isinstance(reply, GroupCommitted):
                self._tell(attempt, is_commit=True)
                break
            code = _refusal_of(reply)
            if code is not None and not code.is_retriable:
                self._spent = True
                break
        else:
            self._spent = True
        self._leave()


class Copier(TransactionClient):
    """Copies a partition of a topic, as a stream or as a queue: each message once."""

    def __init__(
        self, name: str, transactional_id: str, source: LogId, around: Surroundings
    ) -> None:
        super().__init__(name, transactional_id, around)
        self.source = source
        # Whether it found nothing more to copy.
        self.is_done = False

    def _fill(self, attempt: Attempt) -> Generator[Command | None, Answer, bool]:
        owner, log = self._owner, self.source
        if owner is None:
            return False
        asked = DescribeOffsets(group=_STREAM, topic=log.topic, is_stable=True)
        described = yield asked
        if isinstance(described, Refused) and described.code is Code.GROUP_NOT_FOUND:
            offset = Offset(0)
        elif isinstance(described, Offsets):
            offset = described.offsets.get(log, Offset(0))
        else:
            return False
        read = yield Read(
            topic=log.topic,
            partition=log.partition,
            offset=offset,
            bytes_max=self._random.choice((1, 300, _READ_BYTES)),
            isolation=Isolation.READ_COMMITTED,
        )
        if not isinstance(read, Records):
            return False
        upto = following(read)
        self.is_done = upto <= offset
        if self.is_done:
            return True
        found = [(each, value) for each, value in visible(read) if each >= offset]
        values = [f"{attempt.name}|copy|{log.partition}:{each}".encode() for each, _ in found]
        is_whole = True
        if values:
            partition = self._random.randrange(PARTITIONS)
            is_whole = yield from self._write(attempt, partition, values)
        if not is_whole:
            return False
        done = yield AddOffsets(owner=owner, group=_STREAM, offsets={log: upto})
        if not isinstance(done, Done):
            self._doubt(done)
        return isinstance(done, Done)


class QueueCopier(TransactionClient):
    """Acks what it leases in the transaction that holds the copies."""

    def __init__(self, name: str, transactional_id: str, topic: str, around: Surroundings) -> None:
        super().__init__(name, transactional_id, around)
        self._topic = topic
        self._joined: Joined | None = None
        self._joins = 0

    def _fill(self, attempt: Attempt) -> Generator[Command | None, Answer, bool]:
        owner = self._owner
        if self._joined is None:
            self._joins += 1
            joined = yield Join(
                group=_QUEUE,
                client_id=self.name,
                topics=(self._topic,),
                token=f"{self.name}-{self._joins}",
                session_ns=10 * SECOND,
            )
            self._joined = joined if isinstance(joined, Joined) else None
        if self._joined is None or owner is None:
            return False
        leased = yield Poll(
            group=_QUEUE,
            member_id=self._joined.member_id,
            messages_max=self._random.choice((1, 3, 20)),
            wait_ns=200 * MILLISECOND,
            visibility_ns=2 * SECOND,
        )
        if not isinstance(leased, Leased):
            self._joined = None
            return False
        values, receipts = [], []
        for partition in leased.partitions:
            for run in partition.leases:
                for offset in run.offsets:
                    source = f"q{partition.log.partition}:{offset}"
                    values.append(f"{attempt.name}|copy|{source}".encode())
                    receipts.append(receipt_of(run.handle, offset))
        if not values:
            return True
        target = self._random.randrange(PARTITIONS)
        if not (yield from self._write(attempt, target, values)):
            return False
        done = yield AddOffsets(owner=owner, group=_QUEUE, receipts=tuple(receipts))
        if not isinstance(done, Done):
            self._doubt(done)
        return isinstance(done, Done)


class CopyReader:
    """Follows the copies, reading what is committed from whoever leads."""

    def __init__(self, around: Surroundings) -> None:
        self._ledger = around.ledger
        self._random = around.random
        self._machines = around.machines
        self._places = dict.fromkeys(range(PARTITIONS), 0)
        self._asked: tuple[BrokerMachine, RequestId, int] | None = None
        self._steps = 0

    def step(self) -> None:
        """Look at the answer, or read on."""
        if self._asked is None:
            self._ask()
            return
        machine, request, partition = self._asked
        reply = machine.replies.pop(request, None)
        self._steps += 1
        if reply is None and not machine.is_over and self._steps < _PATIENCE_STEPS:
            return
        self._asked = None
        if isinstance(reply, Records):
            for offset, value in visible(reply):
                if offset >= self._places[partition]:
                    self._ledger.see(partition, offset, value)
            self._places[partition] = max(self._places[partition], following(reply))

    def _ask(self) -> None:
        machines = [each for each in self._machines() if each.node.is_serving]
        if not machines:
            return
        partition = self._random.randrange(PARTITIONS)
        machine = self._random.choice(machines)
        command = Read(
            topic=COPIES,
            partition=partition,
            offset=Offset(self._places[partition]),
            bytes_max=_READ_BYTES,
            isolation=Isolation.READ_COMMITTED,
        )
        self._steps = 0
        self._asked = (machine, machine.ask(command), partition)


def _refusal_of(reply: Answer) -> Code | None:
    """Why nothing was done, or not all; None also if nothing is known."""
    if isinstance(reply, Refused):
        return reply.code
    if isinstance(reply, Published):
        return next((each.refused for each in reply.placed if each.refused is not None), None)
    return None
