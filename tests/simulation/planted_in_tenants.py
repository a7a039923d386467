"""Faults planted into access checks, one at a time, to see that the simulator finds them."""

from typing import Any

import msgspec
import pytest

from goqueue.broker.caller_waits import CallerWaits
from goqueue.broker.groups.acks import Acks
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.model import Instant, Now
from goqueue.model.requests import AclEffect, CommitOffsets, DescribeGroup, Read, Role
from goqueue.security import RULES, Access, Acls, TenantMeter
from tests.simulation.planted_patches import Plant, does_nothing, forget

__all__ = ["PLANTED_IN_TENANTS"]


def skips_the_roles_of_a_command(patch: pytest.MonkeyPatch) -> None:
    check = Access._check

    def lenient(access: Any, key: Any, rule: Any, command: Any, now: Any) -> Any:
        anybody = msgspec.structs.replace(rule, roles=frozenset(Role))
        return check(access, key, anybody, command, now)

    patch.setattr(Access, "_check", lenient)


def skips_the_name_in_a_read(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(RULES, Read, msgspec.structs.replace(RULES[Read], name=None))


def skips_the_topics_of_a_commit(patch: pytest.MonkeyPatch) -> None:
    rule = msgspec.structs.replace(RULES[CommitOffsets], others=None)
    patch.setitem(RULES, CommitOffsets, rule)


def shows_groups_of_everybody(patch: pytest.MonkeyPatch) -> None:
    rule = msgspec.structs.replace(RULES[DescribeGroup], name=None)
    patch.setitem(RULES, DescribeGroup, rule)


def keeps_what_was_decided_before_a_change(patch: pytest.MonkeyPatch) -> None:
    def keep(access: Any) -> None:
        access._version = access._registry.version

    patch.setattr(Access, "_forget", keep)


def lets_an_allow_win_over_a_deny(patch: pytest.MonkeyPatch) -> None:
    def lenient(acls: Any, principals: Any, kind: Any, name: Any, _: Any) -> Any:
        about = [
            acls._index[principal, kind].effects(name)
            for principal in principals
            if (principal, kind) in acls._index
        ]
        return AclEffect.ALLOW if any(found.allows for found in about) else AclEffect.DENY

    patch.setattr(Acls, "decide", lenient)


def takes_receipts_of_other_tenants(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Acks, "_require_access", lambda acks, _: acks._state.access.note_principal())


def lets_requests_wait_for_a_key_that_is_revoked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CallerWaits, "follow", lambda *_: None)


def forgets_that_a_tenant_is_disabled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Access, "_check_status", lambda *_: None)


def lists_the_topics_of_everybody(patch: pytest.MonkeyPatch) -> None:
    def all_of_them(access: Any) -> None:
        access._is_owed = False

    patch.setattr(Access, "visible_topics", all_of_them)


def adopts_names_without_being_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TenantQuotas, "names_with_prefix", lambda *_: 0)


def keeps_rates_by_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    check, charge = TenantQuotas.check_publish, TenantQuotas.charge_publish

    def by_wall(now: Any) -> Any:
        return Now(Instant(now.wall), now.wall)

    def checked(quotas: Any, topic: Any, size: Any, dues: Any, now: Any) -> None:
        check(quotas, topic, size, dues, by_wall(now))

    def charged(quotas: Any, topic: Any, messages: Any, size: Any, now: Any) -> None:
        charge(quotas, topic, messages, size, by_wall(now))

    patch.setattr(TenantQuotas, "check_publish", checked)
    patch.setattr(TenantQuotas, "charge_publish", charged)


def counts_a_publish_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    count, charge = TenantMeter.count_published, TenantMeter.charge_publish

    def charged(meter: Any, messages: Any, size: Any, now: Any) -> None:
        charge(meter, messages, size, now)
        count(meter, messages, size)

    patch.setattr(TenantMeter, "charge_publish", charged)
    patch.setattr(TenantMeter, "count_published", does_nothing)


def leaves_the_audit_record_out_of_the_journal(patch: pytest.MonkeyPatch) -> None:
    forget(patch, "AuditRecorded")


def leaves_producers_to_the_next_tenant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionCoordinator, "forget_some_of", lambda *_: True)
    forget(patch, "TenantForgotten")


PLANTED_IN_TENANTS: tuple[Plant, ...] = (
    skips_the_roles_of_a_command,
    skips_the_name_in_a_read,
    skips_the_topics_of_a_commit,
    shows_groups_of_everybody,
    keeps_what_was_decided_before_a_change,
    lets_an_allow_win_over_a_deny,
    takes_receipts_of_other_tenants,
    lets_requests_wait_for_a_key_that_is_revoked,
    forgets_that_a_tenant_is_disabled,
    lists_the_topics_of_everybody,
    adopts_names_without_being_told,
    keeps_rates_by_the_wall_clock,
    counts_a_publish_before_it_is_stored,
    leaves_the_audit_record_out_of_the_journal,
    leaves_producers_to_the_next_tenant,
)
