"""The figures of producers and transactions."""

from bench.broker.command import bench_command
from bench.transactions.commits import measure_commits
from bench.transactions.idempotence import measure_idempotence
from bench.transactions.isolation import measure_isolation
from bench.transactions.restart import measure_restart

__all__ = ["bench"]

bench = bench_command(
    "GoQueue transactions",
    {
        "idempotence": measure_idempotence,
        "commits": measure_commits,
        "isolation": measure_isolation,
        "restart": measure_restart,
    },
    "Measure what idempotence, transactions and isolation cost, and a start after many of them.",
)
