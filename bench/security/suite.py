"""Measure what security costs: TLS, checks of keys and ACLs, floods, tenants beside each other.

Every comparison starts one node of each kind and measures them in turns: the load of the machine is
the same for both, so the ratios compare where the figures do not.
"""

from bench.runner import Suite
from bench.security import access_check, auth_off, revocation, storms, tenants, throughput

__all__ = ["SUITE"]

SUITE = Suite(
    words=__doc__,
    measures={
        "publish": throughput.publish,
        "read": throughput.read,
        "sdk": throughput.sdk,
        "latency": throughput.latency,
        "reload": storms.reload,
        "flood": storms.flood,
        "attempts": storms.attempts,
        "check": access_check.check,
        "registry": access_check.registry,
        "timing": access_check.timing,
        "neighbour": tenants.neighbour,
        "quota": tenants.quota,
        "usage": tenants.usage,
        "revoke": revocation.revoke,
        "revoke_on_three": revocation.revoke_on_three,
        "off": auth_off.off,
    },
    baseline="plain",
)
