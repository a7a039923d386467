"""What it costs to know who asks, and whether it may; and whether its time tells secrets.

No server and no disk: the digest and the lookup of a key as the gateway does them, and the checks
that the node makes before a handler. A batch has one topic, so nothing here is paid per message.
Times are of the processor, so that others who use the machine do not count.
"""

import math
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator

import msgspec

from bench.figure import Detail, Figure, Target
from goqueue.gateways import Authenticator
from goqueue.model import LOCAL, SECOND, Caller, Instant, KeyId, Now, Timestamp
from goqueue.model.requests import (
    AclEffect,
    AclSpec,
    KeyVerifiers,
    Operation,
    Publish,
    Quotas,
    ResourceType,
    Role,
    ScramVerifier,
    key_digest,
    secret_proof,
)
from goqueue.security import (
    Access,
    AclStated,
    KeyStated,
    SecurityChange,
    SecurityRegistry,
    TenantStated,
)

ROUNDS = 31
REPEATS = 20_000
KEYS = 10_000
TENANTS = 1_000
GLOBS = 100
NOW = Now(Instant(5 * SECOND), Timestamp(1_700_000_000 * SECOND))
# Of the size that they have.
_BYTES = bytes(32)
_SCRAM = ScramVerifier(salt=_BYTES[:16], iterations=10_000, stored_key=_BYTES, server_key=_BYTES)


def secret_of(number: int) -> bytes:
    return b"gq_%064x" % number


def filled_changes() -> Iterator[TenantStated | KeyStated]:
    """10,000 keys of 1,000 tenants."""
    for number in range(TENANTS):
        name = f"tenant{number}"
        yield TenantStated(id=name, name=name, created_at=1, updated_at=1, quotas=Quotas())
    for number in range(KEYS):
        digest = key_digest(secret_of(number))
        yield KeyStated(
            id=KeyId(f"key_{number:016x}"),
            name="bench",
            prefix="gq_",
            roles=(Role.PRODUCER,),
            tenant=f"tenant{number % TENANTS}",
            created_at=1,
            verifiers=KeyVerifiers(digest=digest, scram_256=_SCRAM, scram_512=_SCRAM, sigv4=_BYTES),
        )


def filled() -> SecurityRegistry:
    """10,000 keys, 1,000 tenants, and globs for two of the keys."""
    registry = SecurityRegistry()
    for change in filled_changes():
        registry.apply(change)
    for number in range(GLOBS):
        # Of the first tenant each is about names of its own, of the second all are about the same.
        registry.apply(_acl(number, 7, f"tenant7.{number:02}-*"))
        registry.apply(_acl(GLOBS + number, 8, f"tenant8.*{number % 10}{number:02}"))
    return registry


def _acl(number: int, key: int, glob: str) -> AclStated:
    acl = AclSpec(
        principal=f"key_{key:016x}",
        resource_type=ResourceType.TOPIC,
        resource_name=glob,
        operation=Operation.WRITE,
        effect=AclEffect.ALLOW,
    )
    return AclStated(id=f"acl_{number}", acl=acl)


def measure(step: Callable[[], object], repeats: int) -> float:
    """Median microseconds of a step."""
    rounds = []
    for _ in range(ROUNDS):
        began = time.thread_time_ns()
        for _ in range(repeats // ROUNDS):
            step()
        rounds.append((time.thread_time_ns() - began) / (repeats // ROUNDS) / 1000)
    return statistics.median(rounds)


def _caller(number: int) -> Caller:
    proof = secret_proof(key_digest(secret_of(number)))
    return Caller(KeyId(f"key_{number:016x}"), proof=proof)


def _publishes(count: int, name: str) -> list[Publish]:
    return [Publish(topic=name.format(number), batch=bytearray()) for number in range(count)]


def check(_: str, scale: float) -> Iterator[Figure]:
    """What a request pays to be known and allowed; a message of a batch pays nothing."""
    registry = filled()
    access = Access(registry, acl_enabled=True)
    authenticator = Authenticator(lambda digest, _: registry.keys.identify(digest or b"", NOW.wall))
    caller, other = _caller(7), _caller(8)
    publish = Publish(topic="tenant7.12-x", batch=bytearray())
    secret = secret_of(7)
    repeats = max(ROUNDS, int(REPEATS * scale))
    # Names that nobody has asked for, made before the clock runs.
    unknown = iter(_publishes(repeats, "tenant7.12-{}"))
    unknown_among_equals = iter(_publishes(repeats, "tenant8.{}202"))
    meter = registry.meters.of("tenant7")

    def whole() -> None:
        proven = authenticator.prove(secret)
        assert proven is not None
        access.admit(caller, publish, NOW)
        meter.check_publish(NOW.instant)
        access.leave()

    def whole_with_bookkeeping() -> None:
        # What the decision is not, but every publish with a key pays: the debt at the head, who
        # asks, the charge.
        proven = authenticator.prove(secret)
        assert proven is not None
        registry.check_publish(publish.topic, proven.id, NOW.instant)
        asking = authenticator.caller(proven, "http", "192.0.2.7", "request-1")
        access.admit(asking, publish, NOW)
        meter.check_publish(NOW.instant)
        # Nothing: the quota of the tenant lasts as long as the measurement.
        meter.charge_publish(0, 0, NOW.instant)
        access.leave()

    def admit_new() -> None:
        access.admit(caller, next(unknown), NOW)
        access.leave()

    def admit_new_among_equals() -> None:
        access.admit(other, next(unknown_among_equals), NOW)
        access.leave()

    def digest() -> bytes:
        return key_digest(secret)

    def compare() -> bool:
        # All that a node does for a caller of a node without authentication.
        return caller is LOCAL

    for name, step, target in (
        ("check_key_rule_acl_quota", whole, Target(below=2)),
        ("check_with_bookkeeping", whole_with_bookkeeping, None),
        ("check_anew_100_globs", admit_new, Target(below=5)),
        ("check_anew_100_globs_all_of_one_tenant", admit_new_among_equals, None),
        ("check_without_authentication", compare, None),
    ):
        value = round(measure(step, repeats), 2)
        # Where others use the machine everything takes longer: this much did a digest of 83 bytes.
        details: dict[str, Detail] = {"digest_us": round(measure(digest, repeats), 2)}
        yield Figure(figure=name, value=value, unit="us/request", target=target, details=details)


def registry(_: str, __: float) -> Iterator[Figure]:
    """10,000 keys, 10,000 ACLs and 1,000 tenants: memory, reading them at a start, one change."""
    changes = [*filled_changes(), *(_acl(n, n % KEYS, f"tenant{n}.*") for n in range(KEYS))]
    encoded = [msgspec.json.encode([change]) for change in changes]
    decoder = msgspec.json.Decoder(list[SecurityChange])
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = SecurityRegistry()
    for each in encoded:
        for change in decoder.decode(each):
            kept.apply(change)  # type: ignore[arg-type]  # none of the audit
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    began = time.thread_time()
    fresh = SecurityRegistry()
    for each in encoded:
        for change in decoder.decode(each):
            fresh.apply(change)  # type: ignore[arg-type]  # none of the audit
    start_s = time.thread_time() - began
    access = Access(fresh, acl_enabled=True)
    taken = []
    for number in range(200):
        stated = _acl(number + KEYS, number, "tenant*")
        began = time.thread_time()
        fresh.apply(stated)
        access.admit(
            Caller(KeyId(f"key_{7:016x}")), Publish(topic="tenant7.x", batch=bytearray()), NOW
        )
        access.leave()
        taken.append(time.thread_time() - began)
    details: dict[str, Detail] = {"keys": KEYS, "acls": KEYS, "tenants": TENANTS}
    yield Figure(
        figure="registry_memory",
        value=round(held / 1e6, 1),
        unit="MB",
        target=Target(below=40),
        details=details,
    )
    yield Figure(
        figure="registry_added_to_a_start",
        value=round(start_s, 3),
        unit="s",
        target=Target(below=0.5),
        details=details,
    )
    yield Figure(
        figure="registry_change_applied",
        value=round(max(taken) * 1000, 3),
        unit="ms",
        target=Target(below=5),
        details=details,
    )


def timing(_: str, scale: float) -> Iterator[Figure]:
    """Whether the time of a refusal tells a guess near a key from any other: Welch's t.

    Guesses that begin like a key, with what lists show of it or with half of it, against guesses
    that begin like none, in random order. The slowest tenth is left out: it is the machine's.
    """
    registry = filled()
    authenticator = Authenticator(lambda digest, _: registry.keys.identify(digest or b"", NOW.wall))
    count = max(1000, int(100_000 * scale))
    chance = random.Random(17)
    known = secret_of(7)
    for name, shared in (("prefix", len("gq_") + 8), ("half", len(known) // 2)):
        times: tuple[list[int], list[int]] = ([], [])
        for _number in range(2 * count):
            kind = chance.randrange(2)
            drawn = b"gq_%064x" % chance.getrandbits(255)
            # Put together in the same way, so that both are as new to the processor.
            secret = (drawn, known)[kind][:shared] + drawn[shared:]
            began = time.perf_counter_ns()
            found = authenticator.prove(secret)
            times[kind].append(time.perf_counter_ns() - began)
            assert found is None
        yield Figure(
            figure=f"timing_of_a_right_{name}",
            value=round(abs(_welch(*(sorted(each)[: int(len(each) * 0.9)] for each in times))), 2),
            unit="t",
            target=Target(below=4.5),
            details={
                "samples": len(times[0]) + len(times[1]),
                "medians_ns": tuple(statistics.median(each) for each in times),
            },
        )


def _welch(first: list[int], second: list[int]) -> float:
    means = statistics.fmean(first), statistics.fmean(second)
    error = statistics.variance(first) / len(first) + statistics.variance(second) / len(second)
    return (means[0] - means[1]) / math.sqrt(error)
