"""The figures of producers and transactions."""

from bench.runner import Suite
from bench.transactions.commits import measure_commits
from bench.transactions.idempotence import measure_idempotence
from bench.transactions.isolation import measure_isolation
from bench.transactions.restart import measure_restart

__all__ = ["SUITE"]

SUITE = Suite(
    words="Measure what idempotence, transactions and isolation cost, and a start after many.",
    measures={
        "idempotence": measure_idempotence,
        "commits": measure_commits,
        "isolation": measure_isolation,
        "restart": measure_restart,
    },
)
