"""What all connections of a node may hold together, whatever protocol they speak.

Owns four counts: open connections (in all and by client address), those that have not proved a key
yet, bytes of requests that are not answered yet, and bytes of responses that their readers have not
taken. Of both kinds of bytes one tenant holds at most a quarter, so that the slow bodies of one do
not refuse those of another; `default` holds three quarters, as most nodes have no other tenant. All
listeners of a node share one `Capacity`, so a second gateway does not double the memory
or the descriptors that clients can take. Limits of one protocol (sizes of a head, timeouts) belong
to its gateway.

Invariant: every connection that was admitted, also one over the limit, is counted until it is
released. Every operation costs a dictionary access or less.
"""

import enum
import ipaddress
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import msgspec

from goqueue.gateways.handshakes import HandshakeLimits, HandshakeQueue
from goqueue.gateways.peer import network_of

__all__ = [
    "Admission",
    "ByteBudget",
    "Capacity",
    "ConnectionBytes",
    "ConnectionLimits",
    "HeldBytes",
    "SuspectAddresses",
    "UnprovenConnections",
]

_MIB = 1024 * 1024
# Connections over the limit that may be open at once, to be told why they are refused.
_REFUSED_MAX = 64
# How many addresses are remembered for failed attempts, and for how long.
_SUSPECTS_MAX = 10_000
_SUSPECT_S = 10.0
# One tenant holds at most one of so many shares of the bytes of all connections; `default` all
# but one.
_SHARES = 4
_DEFAULT_TENANT = "default"


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of all connections together."""

    connections_max: int = 10_000
    connections_per_address_max: int = 10_000
    # Connections that have not proved a key, where one is asked for.
    unproven_max: int = 1_000
    unproven_per_address_max: int = 64
    # Requests that are being received or answered.
    request_bytes_max: int = 512 * _MIB
    # Responses that wait for their readers; at this number no request is started whose response
    # may be large.
    unsent_bytes_max: int = 512 * _MIB


class Admission(enum.Enum):
    """What is to become of a new connection."""

    ACCEPTED = enum.auto()
    # There is no room: tell the client, then close.
    FULL = enum.auto()
    # There is not even room to tell: close at once.
    OVERFULL = enum.auto()
    # The listener is being stopped: tell the client, then close.
    STOPPING = enum.auto()
    # Its certificate has expired since it was verified: close at once.
    EXPIRED = enum.auto()


class ByteBudget:
    """A number of bytes that may be held; `bytes_held` says how many are."""

    __slots__ = ("_bytes_max", "bytes_held")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.bytes_held = 0

    @property
    def is_spent(self) -> bool:
        return self.bytes_held >= self._bytes_max

    def take(self, size: int) -> bool:
        """Hold more bytes; False, and nothing is held, if that is more than the budget."""
        if self.bytes_held + size > self._bytes_max:
            return False
        self.bytes_held += size
        return True

    def give_back(self, size: int) -> None:
        self.bytes_held -= size

    def replace(self, size: int, new_size: int) -> None:
        """Hold `new_size` where `size` was held, even over the budget: it is there already."""
        self.bytes_held += new_size - size


class TenantShare:
    """The bytes that the connections of one tenant hold."""

    __slots__ = ("connections", "requests", "unsent")

    def __init__(self, limits: ConnectionLimits, tenant: str) -> None:
        # Most nodes have no other tenant than `default`, which leaves one share to the others.
        shares = _SHARES - 1 if tenant == _DEFAULT_TENANT else 1
        self.requests = ByteBudget(limits.request_bytes_max * shares // _SHARES)
        self.unsent = ByteBudget(limits.unsent_bytes_max * shares // _SHARES)
        self.connections = 0


class HeldBytes:
    """Bytes of one connection: counted for all connections, and for its tenant once it has one."""

    __slots__ = ("_all", "_share", "bytes_held")

    def __init__(self, budget: ByteBudget) -> None:
        self._all = budget
        self._share: ByteBudget | None = None
        self.bytes_held = 0

    @property
    def is_spent(self) -> bool:
        return self._all.is_spent or (self._share is not None and self._share.is_spent)

    def take(self, size: int) -> bool:
        """Hold more bytes; False, and nothing is held, if that is more than a budget."""
        if not self._all.take(size):
            return False
        if self._share is not None and not self._share.take(size):
            self._all.give_back(size)
            return False
        self.bytes_held += size
        return True

    def give_back(self, size: int) -> None:
        self.replace(size, 0)

    def replace(self, size: int, new_size: int) -> None:
        """Hold `new_size` where `size` was held, even over a budget: it is there already."""
        more = new_size - size
        self._all.bytes_held += more
        if self._share is not None:
            self._share.bytes_held += more
        self.bytes_held += more

    def assign(self, share: ByteBudget) -> None:
        """Count what is held for a tenant, too, from now on."""
        assert self._share is None
        share.replace(0, self.bytes_held)
        self._share = share


class ConnectionBytes:
    """What one connection holds: requests that are not answered, and answers that are not read.

    Where nobody is asked for a key there are no tenants, and nothing is counted for one.
    """

    __slots__ = ("_capacity", "_is_closed", "_tenant", "requests", "unsent")

    def __init__(self, capacity: "Capacity", *, has_tenants: bool = True) -> None:
        self._capacity = capacity
        self._is_closed = False
        self._tenant = ""
        requests, unsent = capacity.requests, capacity.unsent
        self.requests: ByteBudget | HeldBytes = HeldBytes(requests) if has_tenants else requests
        self.unsent: ByteBudget | HeldBytes = HeldBytes(unsent) if has_tenants else unsent

    def assign(self, tenant: str) -> None:
        """The connection is one of this tenant; empty: it is not known whose. Once at most."""
        if tenant:
            self._tenant = tenant
            share = self._capacity.open_share(tenant)
            assert isinstance(self.requests, HeldBytes)
            assert isinstance(self.unsent, HeldBytes)
            self.requests.assign(share.requests)
            self.unsent.assign(share.unsent)

    def close(self) -> None:
        """The connection is gone; what its calls still hold counts until they `settle`."""
        self._is_closed = True
        self.settle()

    def settle(self) -> None:
        """Let go of the tenant's share, once the connection is gone and holds nothing."""
        if self._is_closed and self._tenant:
            assert isinstance(self.requests, HeldBytes)
            assert isinstance(self.unsent, HeldBytes)
            if not self.requests.bytes_held and not self.unsent.bytes_held:
                self._capacity.close_share(self._tenant)
                self._tenant = ""


class Removable(Protocol):
    """A connection that can be made to leave."""

    def cut(self) -> None: ...


class UnprovenConnections:
    """Connections that have not proved a key yet; for one too many the oldest has to leave.

    Whoever sends a key is served before others can push it out, whatever their number: the oldest
    leave first. Addresses for which `is_shared` holds, those of proxies and of this machine, stand
    for many clients and have no bound of their own.
    """

    def __init__(self, limits: ConnectionLimits, is_shared: Callable[[str], bool]) -> None:
        self._limits = limits
        self._is_shared = is_shared
        self._networks: dict[Removable, str] = {}
        self._by_network: dict[str, dict[Removable, None]] = {}

    def __len__(self) -> int:
        return len(self._networks)

    def add(self, connection: Removable, address: str) -> Removable | None:
        """Count a connection; the one that has to leave for it, which is counted no more."""
        network = network_of(address)
        limits, own = self._limits, self._by_network.get(network, {})
        leaving = None
        if len(own) >= limits.unproven_per_address_max and not self._is_shared(address):
            leaving = next(iter(own))
        elif len(self._networks) >= limits.unproven_max:
            leaving = next(iter(self._networks))
        if leaving is not None:
            self.remove(leaving)
        self._networks[connection] = network
        self._by_network.setdefault(network, {})[connection] = None
        return leaving

    def remove(self, connection: Removable) -> None:
        """A connection has proved a key, or is gone; it may have been removed before."""
        network = self._networks.pop(connection, None)
        if network is None:
            return
        own = self._by_network[network]
        del own[connection]
        if not own:
            del self._by_network[network]


class SuspectAddresses:
    """Addresses that failed to prove a key lately; at most so many, the oldest are forgotten.

    A suspect is refused nothing. Its connections wait for their turn, so that those who guess do
    not take the time of those who know.
    """

    def __init__(self, is_exempt: Callable[[str], bool]) -> None:
        self._is_exempt = is_exempt
        self._until: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def add(self, address: str, now: float) -> None:
        """An attempt from this address has failed."""
        if self._is_exempt(address):
            return
        network = network_of(address)
        self._until.pop(network, None)
        if len(self._until) >= _SUSPECTS_MAX:
            del self._until[next(iter(self._until))]
        self._until[network] = now + _SUSPECT_S

    def includes(self, address: str, now: float) -> bool:
        """Whether an attempt from this address has failed lately."""
        if not self._until:
            return False
        network = network_of(address)
        until = self._until.get(network)
        if until is None:
            return False
        if until <= now:
            del self._until[network]
            return False
        return True


def _is_this_machine(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return True


class Capacity:
    """The counts of one node, against its limits."""

    def __init__(
        self,
        limits: ConnectionLimits | None = None,
        handshakes: HandshakeLimits | None = None,
        *,
        is_proxy: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.limits = ConnectionLimits() if limits is None else limits
        self.unproven = UnprovenConnections(
            self.limits, lambda address: is_proxy(address) or _is_this_machine(address)
        )
        # A proxy stands for many clients: those behind it do not pay for each other.
        self.suspects = SuspectAddresses(is_proxy)
        self.handshakes = HandshakeQueue(handshakes or HandshakeLimits())
        self.handshakes_failed_total = 0
        self.requests = ByteBudget(self.limits.request_bytes_max)
        self.unsent = ByteBudget(self.limits.unsent_bytes_max)
        self.connections_active = 0
        self.connections_refused_total = 0
        self._by_address: Counter[str] = Counter()
        # Of tenants with a connection that has proved a key.
        self._shares: dict[str, TenantShare] = {}

    @property
    def shares_count(self) -> int:
        """How many tenants have a connection."""
        return len(self._shares)

    def open_share(self, tenant: str) -> TenantShare:
        """The share of a tenant, for one more of its connections; `close_share` must follow."""
        share = self._shares.get(tenant)
        if share is None:
            share = self._shares[tenant] = TenantShare(self.limits, tenant)
        share.connections += 1
        return share

    def close_share(self, tenant: str) -> None:
        """A connection of a tenant is gone, and holds nothing any more."""
        share = self._shares[tenant]
        share.connections -= 1
        if not share.connections:
            del self._shares[tenant]

    def admit(self, address: str) -> Admission:
        """Count a new connection, and say whether there is room for it."""
        limits = self.limits
        admission = Admission.ACCEPTED
        if (
            self.connections_active >= limits.connections_max
            or self._by_address[address] >= limits.connections_per_address_max
        ):
            is_overfull = self.connections_active >= limits.connections_max + _REFUSED_MAX
            admission = Admission.OVERFULL if is_overfull else Admission.FULL
            self.connections_refused_total += 1
        self.connections_active += 1
        self._by_address[address] += 1
        return admission

    def has_room(self, address: str, connecting: int) -> bool:
        """Whether a socket that was just accepted would be admitted, or told why it is not.

        `connecting` are those that wait for their protocols; those of TLS are known here.
        """
        limits, queue = self.limits, self.handshakes
        pending = queue.waiting_count + max(queue.running_count, connecting)
        return (
            self.connections_active + pending < limits.connections_max + _REFUSED_MAX
            and self._by_address[address] + queue.count_of(address)
            < limits.connections_per_address_max + _REFUSED_MAX
        )

    def release(self, address: str) -> None:
        """Forget a connection that has ended."""
        self.connections_active -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
