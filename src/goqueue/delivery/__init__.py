"""One consumer group on one partition, and the delayed messages of a partition.

- `DeliveryQueue` is the machine: it is told what the log holds (read-ahead), leases messages, and
  learns of acks, nacks, expiries. `MessageState` has the states of a message and their transitions.
- `Position` is the durable part: the committed offset, settled messages above it, delivery counts.
- `Lanes` chooses by priority, `PriorityIndex` finds messages of a priority in a long backlog.
- `LeaseHandles` signs and reads lease handles.
- `Delays` keeps delayed messages until they are due, on a timing wheel.

Nothing here reads the log, a clock or a file: `goqueue.broker.groups` and `goqueue.broker.delayed`
connect these machines with partitions.
"""

from goqueue.delivery.delays import Delayed, Delays
from goqueue.delivery.delays_copy import DelaysStated, decode_in_steps
from goqueue.delivery.lanes import LANES, LaneFacts, Lanes
from goqueue.delivery.lease_handles import LeaseHandles, LeaseName
from goqueue.delivery.leases import Lease, LeasePart
from goqueue.delivery.message_state import MessageState
from goqueue.delivery.position import (
    REASON_BYTES_MAX,
    Checkpoint,
    Position,
    PositionStated,
    TransactionHolds,
    cut_reason,
)
from goqueue.delivery.priority_index import PriorityIndex
from goqueue.delivery.queue import (
    BACKOFF_MAX,
    IN_FLIGHT_MAX,
    RECEIVED_MAX,
    DeliveryQueue,
    NewLease,
    backoff_ns,
)
from goqueue.delivery.ranges import Ranges, Stretch
from goqueue.delivery.wheel import WHEEL_REACH_NS, Timer, Wheel

__all__ = [
    "BACKOFF_MAX",
    "IN_FLIGHT_MAX",
    "LANES",
    "REASON_BYTES_MAX",
    "RECEIVED_MAX",
    "WHEEL_REACH_NS",
    "Checkpoint",
    "Delayed",
    "Delays",
    "DelaysStated",
    "DeliveryQueue",
    "LaneFacts",
    "Lanes",
    "Lease",
    "LeaseHandles",
    "LeaseName",
    "LeasePart",
    "MessageState",
    "NewLease",
    "Position",
    "PositionStated",
    "PriorityIndex",
    "Ranges",
    "Stretch",
    "Timer",
    "TransactionHolds",
    "Wheel",
    "backoff_ns",
    "cut_reason",
    "decode_in_steps",
]
