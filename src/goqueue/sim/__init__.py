"""Deterministic simulation: a log, or a whole node, under a disk that fails, from one seed."""

from goqueue.sim.disk import Crashed, DiskClock, SimulatedFileSystem
from goqueue.sim.faults import Faults, Swarm
from goqueue.sim.node import NodeRun, NodeSwarm, Process
from goqueue.sim.oracle import Oracle, Violation
from goqueue.sim.run import Run
from goqueue.sim.trace import Trace

__all__ = [
    "Crashed",
    "DiskClock",
    "Faults",
    "NodeRun",
    "NodeSwarm",
    "Oracle",
    "Process",
    "Run",
    "SimulatedFileSystem",
    "Swarm",
    "Trace",
    "Violation",
]
