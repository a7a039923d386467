"""Deterministic simulation: a log, or a whole node, under a disk that fails, from one seed."""

from goqueue.sim.disk import Crashed, SimulatedFileSystem
from goqueue.sim.faults import Faults, Swarm
from goqueue.sim.node import NodeRun
from goqueue.sim.oracle import Oracle, Violation
from goqueue.sim.run import Run
from goqueue.sim.trace import Trace

__all__ = [
    "Crashed",
    "Faults",
    "NodeRun",
    "Oracle",
    "Run",
    "SimulatedFileSystem",
    "Swarm",
    "Trace",
    "Violation",
]
