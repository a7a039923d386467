"""Several brokers in one simulated world: a network that fails, and processes that die and pause.

`ClusterRun` is the run of one seed. `SimulatedNetwork` carries links between `Host`s; it judges
them by the rules that the sockets obey too. `ClusterProcess` is one broker on its machine, with a
clock of its own; what it runs is a `Machine`. `QuorumRun` is the run of one seed with real nodes
(`BrokerMachine`), judged by `QuorumChecks`; `ReplicationRun` adds topics and clients, judged by
`ReplicationChecks`; in `FailoverRun` leaders fail at the worst moments, in
`DelayRun` while messages are due, and in `RotRun` bits flip on one disk. `SchemaRun` adds clients
of the schema registry.
"""

from goqueue.sim.cluster.beacon import Beacon
from goqueue.sim.cluster.brokers import BrokerDisk, BrokerMachine, DiskWeather
from goqueue.sim.cluster.cluster_run import ClusterRun
from goqueue.sim.cluster.delay_run import DelayRun
from goqueue.sim.cluster.failover_run import FailoverRun
from goqueue.sim.cluster.group_run import GroupRun
from goqueue.sim.cluster.link_checks import LinkChecks
from goqueue.sim.cluster.network import Host, SimulatedNetwork
from goqueue.sim.cluster.observer_run import ObserverRun
from goqueue.sim.cluster.packets import LinkWeather
from goqueue.sim.cluster.processes import ClusterProcess, Machine, ProcessClock
from goqueue.sim.cluster.quorum_checks import QuorumChecks
from goqueue.sim.cluster.quorum_run import QuorumRun, QuorumSwarm
from goqueue.sim.cluster.reassignment_run import ReassignmentRun
from goqueue.sim.cluster.replicated_publisher import ReplicatedPublisher
from goqueue.sim.cluster.replication_checks import ReplicationChecks
from goqueue.sim.cluster.replication_run import ReplicationRun, ReplicationSwarm
from goqueue.sim.cluster.rot_run import RotRun
from goqueue.sim.cluster.schedule_run import ScheduleRun
from goqueue.sim.cluster.schema_run import SchemaRun
from goqueue.sim.cluster.store_run import StoreRun
from goqueue.sim.cluster.transaction_run import TransactionRun
from goqueue.sim.cluster.virtual_time import VirtualTime

__all__ = [
    "Beacon",
    "BrokerDisk",
    "BrokerMachine",
    "ClusterProcess",
    "ClusterRun",
    "DelayRun",
    "DiskWeather",
    "FailoverRun",
    "GroupRun",
    "Host",
    "LinkChecks",
    "LinkWeather",
    "Machine",
    "ObserverRun",
    "ProcessClock",
    "QuorumChecks",
    "QuorumRun",
    "QuorumSwarm",
    "ReassignmentRun",
    "ReplicatedPublisher",
    "ReplicationChecks",
    "ReplicationRun",
    "ReplicationSwarm",
    "RotRun",
    "ScheduleRun",
    "SchemaRun",
    "SimulatedNetwork",
    "StoreRun",
    "TransactionRun",
    "VirtualTime",
]
