"""The whole node under a disk that fails, with clients that do what clients do."""

from goqueue.sim.node.node_run import NodeRun
from goqueue.sim.node.process import Process
from goqueue.sim.node.swarm import NodeSwarm
from goqueue.sim.node.turns import TurnLimits, check_turn
from goqueue.sim.node.world import World

__all__ = ["NodeRun", "NodeSwarm", "Process", "TurnLimits", "World", "check_turn"]
