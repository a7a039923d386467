"""Those who use the node: what they ask, and what they conclude from answers."""

from goqueue.sim.node.clients.delayers import Delayers
from goqueue.sim.node.clients.masses import Masses
from goqueue.sim.node.clients.members import Members
from goqueue.sim.node.clients.movers import Movers
from goqueue.sim.node.clients.publishers import Publishers
from goqueue.sim.node.clients.reading import Reading, is_aborted
from goqueue.sim.node.clients.settlers import Settlers

__all__ = [
    "Delayers",
    "Masses",
    "Members",
    "Movers",
    "Publishers",
    "Reading",
    "Settlers",
    "is_aborted",
]
