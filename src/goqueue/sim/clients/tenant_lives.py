"""A tenant that comes and goes: it adopts what was there, has a rate, and takes everything with it.

Before it is made, its topic may belong to `default`. Its key then publishes more than it may, and
it is deleted with all that it has, to be made again.

What must hold
- A tenant takes names over that exist only if it says that it adopts them.
- A publish is refused for its rate exactly while the bucket is in debt, by the clock that nobody
  puts; of a publish whose outcome is unknown both is possible.
- What its usage says was published is never more than what may have been, and, as long as the node
  lives, never less than what was answered.
- When its deletion is answered its topic is gone, its key proves nothing, and whoever gets the id
  next gets none of its producers.
"""

from collections.abc import Callable

import msgspec

from goqueue.model import LOCAL, SECOND, Caller, Code, KeyId, Message, Refused
from goqueue.model.requests import (
    Command,
    CreateKey,
    CreateTenant,
    CreateTopic,
    DeleteTenant,
    DescribeTopic,
    DescribeUsage,
    Done,
    InitProducer,
    KeyDescription,
    KeyVerifiers,
    ProducerGranted,
    Publish,
    Published,
    QuotaChanges,
    Reply,
    Role,
    ScramVerifier,
    TenantDescription,
    TenantUsage,
    TopicDescription,
)
from goqueue.records import build
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.audit import AuditTruth

__all__ = ["LIVES_TOPIC", "TenantLives"]

_TENANT = "initech"
LIVES_TOPIC = f"{_TENANT}.box"
# Messages a second, and the burst of a bucket.
_RATE = 4
_BURST_NS = SECOND
# The node does not serve now.
_UNABLE = Code.BROKER_UNAVAILABLE
_SCRAM = ScramVerifier(salt=b"", iterations=1, stored_key=b"", server_key=b"")


class _Charge(msgspec.Struct):
    """A publish that was asked for; None: it is not known whether it was charged."""

    at: int
    count: int
    is_charged: bool | None = None


class _Bucket:
    """The rate of one life of the tenant in one life of the node, as exact as it can be known."""

    def __init__(self, life: int) -> None:
        self.life = life
        self._charges: list[_Charge] = []

    def ask(self, count: int, at: int) -> _Charge:
        charge = _Charge(at, count)
        self._charges.append(charge)
        return charge

    def is_in_debt(self, charge: _Charge, *, in_doubt: bool) -> bool:
        """Whether a publish came too early; `in_doubt` counts what may have been charged, too."""
        full_at = 0
        for each in self._charges:
            if each is charge:
                break
            if each.is_charged or (each.is_charged is None and in_doubt):
                full_at = max(full_at, each.at) - (-each.count * SECOND // _RATE)
        return full_at - charge.at > _BURST_NS


class _Life(msgspec.Struct):
    """One life of the tenant; `is_certain` once it was answered that it is there."""

    key: KeyId
    is_certain: bool = False
    is_leaving: bool = False
    has_key: bool | None = None
    # For certain in this life of the node, and at most since the tenant was made.
    published: int = 0
    may_be_published: int = 0


class TenantLives:
    """Makes the tenant, uses it, and deletes it."""

    def __init__(self, world: World, audit: AuditTruth) -> None:
        self._world = world
        self._random = world.random
        self._audit = audit
        self._life: _Life | None = None
        self._bucket = _Bucket(0)
        # Whether the topic is there; None: in doubt.
        self._topic: bool | None = False
        self._count = 0
        self._is_asking = False
        # Producers of lives that are over.
        self._past: dict[int, None] = {}
        self._producers: dict[int, None] = {}

    def actions(self) -> list[Callable[[], None]]:
        """What they do, as often as it is named."""
        return [self._step] * 20 + [self._delete]

    def _step(self) -> None:
        """Come a step nearer to a life, or live it."""
        if self._living() is None:
            self._make()
        else:
            self._random.choice(
                [self._publish] * 8 + [self._look_at_usage] * 3 + [self._init_producer]
            )()

    def _administer(
        self,
        command: Command,
        done: Callable[[Reply | Refused | None], None],
        *,
        is_counted: bool = True,
    ) -> None:
        """Ask for a change; nothing else is asked meanwhile."""

        def answered(reply: Reply | Refused | None) -> None:
            self._is_asking = False
            if is_counted and reply is not None and not isinstance(reply, Refused):
                self._audit.happened(command)
            done(reply)

        self._is_asking = True
        self._audit.asked(command)
        self._world.ask(command, answered, caller=LOCAL)

    # Coming

    def _make(self) -> None:
        """One step towards a tenant with a topic and a key."""
        if self._is_asking:
            return
        life = self._life
        if life is None and self._topic is None:
            self._make_topic()
        elif life is None:
            has_topic = self._topic is True
            if has_topic or self._random.random() < 0.5:
                self._make_tenant(adopts=self._random.random() < 0.6)
            else:
                self._make_topic()
        elif life.is_leaving:
            return
        elif not life.is_certain:
            self._make_tenant(adopts=True)
        elif self._topic is not True:
            self._make_topic()
        elif life.has_key is not True:
            self._make_key(life)

    def _make_topic(self) -> None:
        command = CreateTopic(name=LIVES_TOPIC, partitions=1)

        def done(reply: Reply | Refused | None) -> None:
            exists = isinstance(reply, Refused) and reply.code is Code.TOPIC_EXISTS
            if exists or isinstance(reply, TopicDescription):
                self._topic = True
                self._audit.is_there(command)

        self._topic = None
        self._administer(command, done)

    def _make_tenant(self, *, adopts: bool) -> None:
        quotas = QuotaChanges(max_messages_per_second=_RATE)
        command = CreateTenant(id=_TENANT, name=_TENANT, quotas=quotas, adopts=adopts)
        has_topic = self._topic is True
        if self._life is None:
            self._count += 1
            self._life = _Life(KeyId(f"key_a11fe{self._count:011x}"))
        life = self._life

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, TenantDescription):
                if has_topic and not adopts:
                    raise Violation("taken-over-without-adopting", LIVES_TOPIC)
                life.is_certain = True
            elif isinstance(reply, Refused) and reply.code is Code.TENANT_EXISTS:
                life.is_certain = True
                self._audit.is_there(command)
            elif isinstance(reply, Refused) and reply.code is Code.TENANT_NOT_EMPTY:
                if adopts:
                    raise Violation("refused-although-adopting", f"{reply}")
                self._life = None

        self._administer(command, done)

    def _make_key(self, life: _Life) -> None:
        digest = life.key.encode().ljust(32)
        verifiers = KeyVerifiers(digest=digest, scram_256=_SCRAM, scram_512=_SCRAM, sigv4=b"")
        command = CreateKey(
            id=life.key,
            prefix="gq_",
            verifiers=verifiers,
            name=life.key,
            roles=frozenset((Role.ADMIN,)),
            tenant=_TENANT,
        )

        def done(reply: Reply | Refused | None) -> None:
            exists = isinstance(reply, Refused) and reply.code is Code.REQUEST_INVALID
            if exists or isinstance(reply, KeyDescription):
                life.has_key = True
                self._audit.is_there(command)

        life.has_key = None
        self._administer(command, done)

    # Living

    def _living(self) -> _Life | None:
        """The life of a tenant that has everything, if it is not about to end."""
        life = self._life
        is_whole = life is not None and life.is_certain and life.has_key and self._topic
        return life if is_whole and life is not None and not life.is_leaving else None

    def _publish(self) -> None:
        life = self._living()
        if life is None:
            return
        world = self._world
        if self._bucket.life != world.life:
            # The rates of a node, and what the journal does not know yet, end with it.
            self._bucket = _Bucket(world.life)
            life.published = 0
        bucket = self._bucket
        count = self._random.choice([1, 2, 5, 12])
        charge = bucket.ask(count, world.now.instant)
        life.may_be_published += count

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Published):
                self._published(life, bucket, charge, reply)
            elif isinstance(reply, Refused) and reply.code is Code.RATE_LIMITED:
                charge.is_charged = False
                life.may_be_published -= count
                if not bucket.is_in_debt(charge, in_doubt=True):
                    raise Violation("refused-within-the-rate", f"{reply} at {charge.at}")

        batch = build([Message(value=b"x")] * count)
        world.ask(Publish(topic=LIVES_TOPIC, batch=batch), done, caller=Caller(life.key))

    def _published(self, life: _Life, bucket: _Bucket, charge: _Charge, reply: Published) -> None:
        charge.is_charged = True
        if bucket.is_in_debt(charge, in_doubt=False):
            raise Violation("published-above-the-rate", f"{charge.count} at {charge.at}")
        if any(each.refused is not None for each in reply.placed):
            life.may_be_published -= charge.count
        elif bucket.life == self._world.life:
            life.published += charge.count

    def _look_at_usage(self) -> None:
        life = self._living()
        if life is None:
            return
        at_least = life.published if self._bucket.life == self._world.life else 0

        def done(reply: Reply | Refused | None) -> None:
            if not isinstance(reply, TenantUsage):
                return
            total = reply.total_messages_published
            if not at_least <= total <= life.may_be_published:
                words = f"{total} is not from {at_least} to {life.may_be_published}"
                raise Violation("usage-is-wrong", words)

        self._world.ask(DescribeUsage(tenant=_TENANT), done, caller=LOCAL)

    def _init_producer(self) -> None:
        life = self._living()
        if life is None:
            return

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, ProducerGranted):
                if reply.producer_id in self._past:
                    raise Violation("producer-inherited", f"{reply}")
                self._producers[reply.producer_id] = None

        command = InitProducer(transactional_id="billing")
        self._world.ask(command, done, caller=Caller(life.key))

    # Going

    def _delete(self) -> None:
        life = self._life
        if life is None or not life.is_certain or self._is_asking:
            return
        command = DeleteTenant(id=_TENANT, is_forced=True)

        def done(reply: Reply | Refused | None) -> None:
            is_gone = isinstance(reply, Refused) and reply.code is Code.TENANT_NOT_FOUND
            if is_gone or isinstance(reply, Done):
                self._end(life)

        life.is_leaving = True
        self._administer(command, done, is_counted=False)

    def _end(self, life: _Life) -> None:
        """A life is over: nothing of it is left."""
        self._audit.happened(DeleteTenant(id=_TENANT, is_forced=True))
        self._life = None
        self._topic = False
        self._bucket = _Bucket(0)
        self._past |= self._producers
        self._producers = {}
        self._world.later(lambda: self._check_gone(LOCAL, Code.TOPIC_NOT_FOUND))
        if life.has_key:
            self._world.later(lambda: self._check_gone(Caller(life.key), Code.UNAUTHENTICATED))

    def _check_gone(self, caller: Caller, code: Code) -> None:
        def done(reply: Reply | Refused | None) -> None:
            is_refused = isinstance(reply, Refused) and reply.code in (code, _UNABLE)
            if reply is not None and not is_refused:
                raise Violation("outlives-its-tenant", f"{caller}: {reply}")

        self._world.ask(DescribeTopic(name=LIVES_TOPIC), done, caller=caller)
