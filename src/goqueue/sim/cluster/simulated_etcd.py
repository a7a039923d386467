"""An etcd of the simulated world: keys, revisions, leases, transactions, and its bad days.

Takes and answers the JSON of the real one, numbers as strings and keys in base64, so that the words
of the broker are tested too. It is one consistent store (what a real one of three is while it
answers): what is unreliable is the way to it, its pauses, and operators who restore backups.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

import msgspec

from goqueue.model import MILLISECOND, SECOND, CallStore, StoreEvent
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.virtual_time import VirtualTime

__all__ = ["EtcdWeather", "SimulatedEtcd"]

_TIMEOUT_NS = 2 * SECOND
_Json = dict[str, Any]


class EtcdWeather(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to calls; shares of all of them."""

    delay_ns_max: int = 2 * MILLISECOND
    lost_requests: float = 0.0
    lost_replies: float = 0.0
    # No reply in time, and carried out long after that.
    late_requests: float = 0.0
    late_ns_max: int = 6 * SECOND
    lost_events: float = 0.0


class _Key(msgspec.Struct):
    value: str
    created: int
    modified: int
    lease: int


class _Lease(msgspec.Struct):
    ttl_ns: int
    ends_at: int


class SimulatedEtcd:
    """The store of one world; `call` is what machines are given."""

    def __init__(self, time: VirtualTime, random: Random) -> None:
        self._time = time
        self._random = random
        self.weather = EtcdWeather()
        self._keys: dict[bytes, _Key] = {}
        self._leases: dict[int, _Lease] = {}
        self._revision = 1
        self.is_paused = False
        self._cut: set[str] = set()
        self._machines: dict[str, BrokerMachine] = {}
        # Hears of every transaction that was done.
        self.on_written: Callable[[], None] = lambda: None
        self.calls_total = 0
        self.lost_total = 0

    # The way to it

    def call(self, machine: BrokerMachine, effect: CallStore) -> None:
        """A broker calls; it is told what comes of it unless it dies."""
        self.calls_total += 1
        name = machine.process.name
        self._machines[name] = machine
        weather, random = self.weather, self._random
        draw = random.random()
        delay = random.randrange(weather.delay_ns_max + 1)
        if name in self._cut or draw < weather.lost_requests:
            self._fail_later(machine, effect.number)
        elif draw < weather.lost_requests + weather.late_requests:
            self._fail_later(machine, effect.number)
            late = random.randrange(weather.late_ns_max)
            self._time.after(late, lambda: self._carry_out_late(effect))
        else:
            self._time.after(delay, lambda: self._carry_out(machine, effect))

    def _fail_later(self, machine: BrokerMachine, number: int) -> None:
        self.lost_total += 1
        failed = StoreEvent(number=number, reason="it takes too long")
        self._tell(machine, failed, _TIMEOUT_NS)

    def _tell(
        self,
        machine: BrokerMachine,
        event: StoreEvent,
        delay_ns: int,
    ) -> None:
        if machine.is_over:
            return

        def take() -> None:
            if not machine.is_over:
                machine.take(event)

        machine.process.later(delay_ns, take)

    def _carry_out_late(self, effect: CallStore) -> None:
        if self.is_paused:
            self._time.after(SECOND, lambda: self._carry_out_late(effect))
        else:
            self._execute(effect)

    def _carry_out(self, machine: BrokerMachine, effect: CallStore) -> None:
        if self.is_paused:
            # Its sockets still take requests: it carries them out when it goes on.
            self._fail_later(machine, effect.number)
            self._time.after(SECOND, lambda: self._carry_out_late(effect))
            return
        body = self._execute(effect)
        if body is None or self._random.random() < self.weather.lost_replies:
            self._fail_later(machine, effect.number)
            return
        reply = StoreEvent(number=effect.number, body=body)
        self._tell(machine, reply, self._random.randrange(self.weather.delay_ns_max + 1))

    def _report_change(self) -> None:
        """What a watch of each broker says; some of it is lost."""
        for name, machine in sorted(self._machines.items()):
            if name not in self._cut and self._random.random() >= self.weather.lost_events:
                delay = self._random.randrange(self.weather.delay_ns_max + 1)
                self._tell(machine, StoreEvent(), delay)

    # Faults

    def cut(self, broker: str) -> None:
        self._cut.add(broker)

    def heal(self) -> None:
        """End every fault but a restored backup."""
        self._cut.clear()
        self.is_paused = False
        self.weather = EtcdWeather()

    def back_up(self) -> object:
        """What a backup holds; leases and their keys are in it, as in a real one."""
        return deepcopy((self._keys, self._revision))

    def restore(self, backup: object) -> None:
        """Replace everything by what a backup holds."""
        assert isinstance(backup, tuple)
        self._keys, self._revision = deepcopy(backup)
        now = self._time.now_ns
        for lease in {each.lease for each in self._keys.values() if each.lease}:
            self._leases[lease] = _Lease(5 * SECOND, now + 5 * SECOND)
            self._time.after(5 * SECOND, lambda lease=lease: self._expire(lease))  # type: ignore[misc]  # bound now

    def content(self, below: bytes) -> dict[bytes, bytes]:
        """The values of the keys that begin so."""
        found = sorted(key for key in self._keys if key.startswith(below))
        return {key: b64decode(self._keys[key].value) for key in found}

    def created_at(self, key: bytes) -> int:
        """The revision at which a key was created; 0: it is not there."""
        known = self._keys.get(key)
        return 0 if known is None else known.created

    # What it does

    def _execute(self, effect: CallStore) -> bytes | None:
        """The body of the reply; None for an error."""
        asked: _Json = msgspec.json.decode(effect.body)
        match effect.path:
            case "/v3/kv/range":
                reply: _Json | None = self._range(asked)
            case "/v3/kv/txn":
                reply = self._transact(asked)
            case "/v3/lease/grant":
                reply = self._grant(asked)
            case "/v3/lease/keepalive":
                reply = {"result": self._keep(asked)}
            case _:
                assert effect.path == "/v3/lease/revoke", effect.path
                reply = self._revoke(int(asked["ID"]))
        return None if reply is None else msgspec.json.encode(reply)

    @property
    def _header(self) -> _Json:
        return {"cluster_id": "7", "member_id": "9", "revision": str(self._revision)}

    def _range(self, asked: _Json) -> _Json:
        first, below = b64decode(asked["key"]), b64decode(asked["range_end"])
        found = sorted(key for key in self._keys if first <= key < below)
        limit = int(asked["limit"])
        reply: _Json = {"header": self._header, "count": str(len(found))}
        if len(found) > limit:
            reply["more"] = True
        if found:
            reply["kvs"] = [self._shown(key) for key in found[:limit]]
        return reply

    def _shown(self, key: bytes) -> _Json:
        known = self._keys[key]
        shown: _Json = {
            "key": b64encode(key).decode(),
            "create_revision": str(known.created),
            "mod_revision": str(known.modified),
            "version": "1",
            "value": known.value,
        }
        if known.lease:
            shown["lease"] = str(known.lease)
        return shown

    def _transact(self, asked: _Json) -> _Json | None:
        if not all(self._holds(each) for each in asked["compare"]):
            return {"header": self._header, "responses": []}
        puts = [each["request_put"] for each in asked["success"] if "request_put" in each]
        if any(int(put["lease"]) not in {0, *self._leases} for put in puts):
            # "requested lease not found"
            return None
        self._revision += 1
        for put in puts:
            self._put(b64decode(put["key"]), put["value"], int(put["lease"]))
        for each in asked["success"]:
            if "request_delete_range" in each:
                self._delete(each["request_delete_range"])
        self.on_written()
        self._report_change()
        return {"header": self._header, "succeeded": True, "responses": []}

    def _holds(self, compared: _Json) -> bool:
        assert compared["result"] == "EQUAL"
        known = self._keys.get(b64decode(compared["key"]))
        if compared["target"] == "CREATE":
            return (known.created if known else 0) == int(compared["create_revision"])
        assert compared["target"] == "MOD"
        return (known.modified if known else 0) == int(compared["mod_revision"])

    def _put(self, key: bytes, value: str, lease: int) -> None:
        known = self._keys.get(key)
        created = self._revision if known is None else known.created
        self._keys[key] = _Key(value, created, self._revision, lease)

    def _delete(self, asked: _Json) -> None:
        first, below = b64decode(asked["key"]), b64decode(asked["range_end"])
        for key in [key for key in self._keys if first <= key < below]:
            del self._keys[key]

    # Leases

    def _grant(self, asked: _Json) -> _Json | None:
        number, ttl_s = int(asked["ID"]), int(asked["TTL"])
        if number in self._leases:
            return None
        ends_at = self._time.now_ns + ttl_s * SECOND
        self._leases[number] = _Lease(ttl_s * SECOND, ends_at)
        self._time.after(ttl_s * SECOND, lambda: self._expire(number))
        return {"header": self._header, "ID": str(number), "TTL": str(ttl_s)}

    def _keep(self, asked: _Json) -> _Json:
        number = int(asked["ID"])
        lease = self._leases.get(number)
        if lease is None:
            return {"header": self._header, "ID": str(number)}
        lease.ends_at = self._time.now_ns + lease.ttl_ns
        self._time.after(lease.ttl_ns, lambda: self._expire(number))
        ttl_s = lease.ttl_ns // SECOND
        return {"header": self._header, "ID": str(number), "TTL": str(ttl_s)}

    def _expire(self, number: int) -> None:
        lease = self._leases.get(number)
        if lease is None or lease.ends_at > self._time.now_ns:
            return
        if self.is_paused:
            self._time.after(SECOND, lambda: self._expire(number))
        else:
            self._revoke(number)

    def _revoke(self, number: int) -> _Json | None:
        if self._leases.pop(number, None) is None:
            return None
        gone = [key for key, known in self._keys.items() if known.lease == number]
        if gone:
            self._revision += 1
            for key in gone:
                del self._keys[key]
            self._report_change()
        return {"header": self._header}
