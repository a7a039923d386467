"""Producers that retry, and clients that write in transactions."""

from goqueue.sim.node.clients.transacting.committers import Committers
from goqueue.sim.node.clients.transacting.copiers import COPIES, Copiers, copied_groups
from goqueue.sim.node.clients.transacting.followers import Followers
from goqueue.sim.node.clients.transacting.holder import Holder, Holders
from goqueue.sim.node.clients.transacting.progressors import Progressors
from goqueue.sim.node.clients.transacting.retriers import Retriers
from goqueue.sim.node.clients.transacting.transactors import Transactors

__all__ = [
    "COPIES",
    "Committers",
    "Copiers",
    "Followers",
    "Holder",
    "Holders",
    "Progressors",
    "Retriers",
    "Transactors",
    "copied_groups",
]
