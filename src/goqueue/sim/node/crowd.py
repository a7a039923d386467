"""All clients of one run, and the steps of those that write in transactions."""

from collections.abc import Callable

from goqueue.model.requests import Mode
from goqueue.sim.clients.cooperators import Cooperators
from goqueue.sim.clients.copiers import Copiers, Followers, copied_groups
from goqueue.sim.clients.delayers import Delayers
from goqueue.sim.clients.holders import Holders
from goqueue.sim.clients.members import Members
from goqueue.sim.clients.movers import Masses, Movers
from goqueue.sim.clients.progressors import Committers, Progressors
from goqueue.sim.clients.publishers import Publishers
from goqueue.sim.clients.receivers import Receivers
from goqueue.sim.clients.registrars import Registrars
from goqueue.sim.clients.requesters import Requesters
from goqueue.sim.clients.retriers import Retriers
from goqueue.sim.clients.schedulers import Schedulers
from goqueue.sim.clients.settlers import Settlers
from goqueue.sim.clients.tenants import TenantClients
from goqueue.sim.clients.transactors import Transactors
from goqueue.sim.node.world import World

__all__ = ["Crowd"]

_Action = Callable[[], None]


class Crowd:
    """The clients."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.publishers = Publishers(world)
        self.members = Members(world)
        self.receivers = Receivers(world, self.members)
        self.requesters = Requesters(world)
        self.cooperators = Cooperators(world, self.members) if world.swarm.cooperation else None
        self.movers = Movers(world, self.members, self.cooperators)
        self.settlers = Settlers(world)
        self.delayers = Delayers(world)
        self.schedulers = Schedulers(world)
        self.registrars = Registrars(world)
        self.tenants = TenantClients(world) if world.swarm.tenants else None
        self.masses = Masses(world, self.publishers, self.members, self.settlers)
        self.holders = Holders(world)
        self.retriers = Retriers(world, self.publishers, self.holders)
        self.transactors = Transactors(world, self.publishers, self.holders)
        self.followers = Followers(world, self.publishers)
        progressors = Progressors(world, self.members, self.settlers)
        self.committers = Committers(world, self.holders, self.transactors)
        self.copiers = Copiers(world, self.publishers, self.members, self.transactors, progressors)
        swarm = world.swarm
        if swarm.transactions:
            self.transactors.writes += [progressors.add_any]
        if swarm.transactions and swarm.group_commits:
            self.transactors.writes += [self.committers.prepare] * 4
            self.transactors.waits += [self.committers.wait]
        if swarm.transactions and swarm.copying:
            self.transactors.writes += [self.copiers.copy_queue] * 4
            self.transactors.writes += [self.copiers.copy_stream] * 4

    def form_groups(self) -> None:
        """Create the groups that only transactions move."""
        if self._world.swarm.transactions and self._world.swarm.copying:
            mode = self._world.random.choice([Mode.SHARED, Mode.KEY_ORDERED, Mode.PARTITIONED])
            for group in copied_groups(mode):
                self._world.groups[group.name] = group

    def transactional_actions(self) -> list[_Action]:
        """The actions of transactional clients; one that is named twice is twice as likely."""
        swarm = self._world.swarm
        actions: list[_Action] = []
        if swarm.idempotence:
            actions += [self.retriers.step] * 12
        if swarm.transactions:
            actions += [self.transactors.step] * 50 + [self.transactors.init_any]
            actions += [self.followers.step] * 4
        if swarm.transactions and swarm.group_commits:
            actions += [self.committers.commit_group] * 6
        if swarm.transactions and swarm.copying:
            actions += [self.copiers.create] * 2 + [self.copiers.stir] * 10
        return actions
