"""The node itself: whether it is well, what it settles, and transactions that are open."""

import msgspec

from goqueue.cli.top.board import Board, Sample
from goqueue.cli.top.choice import Choice
from goqueue.cli.top.picture.figures import age, rate, short
from goqueue.cli.top.picture.lines import Line, Style, fit, span
from goqueue.cli.top.picture.table import Column, Window
from goqueue.cli.top.picture.views.body import Body, draw_rows, section
from goqueue.client.admin import TransactionDescription
from goqueue.model import MILLISECOND, SECOND, parse_duration

__all__ = ["draw_node"]

_STYLES = {"pass": Style.GOOD, "warn": Style.WARN, "fail": Style.BAD}
_TRANSACTIONS_HEIGHT_MIN = 2


class _Open(msgspec.Struct, frozen=True):
    """A transaction that has not ended, and for how long."""

    facts: TransactionDescription
    age_ns: int


def _state(row: _Open) -> str:
    return f"{row.facts.state}, prepared" if row.facts.prepared else row.facts.state


_COLUMNS: tuple[Column[_Open], ...] = (
    Column(
        title="TRANSACTION",
        cell=lambda row, _: span(row.facts.transaction_id),
        width=14,
        is_right=False,
    ),
    Column(
        title="PRODUCER",
        cell=lambda row, _: span(row.facts.transactional_id),
        width=14,
        width_max=30,
        rank=3,
        is_right=False,
    ),
    Column(title="STATE", cell=lambda row, _: span(_state(row)), width=17, rank=4, is_right=False),
    Column(
        title="AGE",
        cell=lambda row, _: span(age(row.age_ns)),
        width=7,
        rank=1,
        sort=lambda row: row.age_ns,
    ),
    Column(
        title="TIMEOUT",
        cell=lambda row, _: span(age(row.facts.timeout_ms * MILLISECOND)),
        width=8,
        rank=2,
        sort=lambda row: row.facts.timeout_ms,
    ),
    Column(
        title="PART",
        cell=lambda row, _: span(short(len(row.facts.partitions))),
        width=5,
        rank=5,
        sort=lambda row: len(row.facts.partitions),
    ),
)


def draw_node(board: Board, choice: Choice, window: Window) -> Body:
    sample = board.sample
    assert sample is not None, "there is something to draw"
    lines = [*_facts(sample, window.width), *_checks(sample, window.width)]
    lines += _flows(board, sample, window.width)
    rows = [_Open(each, _age_ns(sample, each)) for each in sample.open_transactions or ()]
    # The facts give way before the transactions do.
    kept = max(0, window.height - (_TRANSACTIONS_HEIGHT_MIN if rows else 1))
    lines = lines[:kept]
    body = draw_rows(
        rows,
        _COLUMNS,
        choice,
        Window(window.width, window.height - len(lines), window.first),
        name=lambda row: f"{row.facts.transaction_id} {row.facts.transactional_id}",
        usual="AGE",
        empty="no transaction is open",
    )
    return msgspec.structs.replace(body, lines=[*lines, *body.lines])


def _facts(sample: Sample, width: int) -> list[Line]:
    version, readiness = sample.version, sample.readiness
    words = f"goqueue {version.version}, python {version.python_version}"
    if version.git_commit not in {"", "unknown"}:
        words += f", commit {version.git_commit}"
    answered = f"answers in {age(round(sample.round_trip_s * SECOND))}"
    up = f"up {age(parse_duration(readiness.uptime))}"
    style = _STYLES.get(readiness.status, Style.WARN)
    states = {"fail": f"not ready: {readiness.message}", "degraded": "ready, but degraded"}
    state = states.get(readiness.status, "ready")
    return [
        section(sample.stats.node_id, words, width),
        fit([span(state, style), span(f", {up}, {answered}", Style.DIM)], width),
    ]


def _checks(sample: Sample, width: int) -> list[Line]:
    lines: list[Line] = []
    for name, check in sample.readiness.checks.items():
        pieces = [span(f"  {name:<10} "), span(check.status, _STYLES.get(check.status, Style.WARN))]
        if check.latency:
            pieces.append(span(f"  {check.latency}", Style.DIM))
        if check.message:
            pieces.append(span(f"  {check.message}", Style.DIM))
        lines.append(fit(pieces, width))
    return lines


def _flows(board: Board, sample: Sample, width: int) -> list[Line]:
    names = ("acks", "nacks", "rejects", "redeliveries", "expirations")
    settled = "  ".join(f"{rate(board.rate(name))} {name}" for name in names)
    stats = sample.transactions
    ended = f"{rate(board.rate('committed'))} commits/s  {rate(board.rate('aborted'))} aborts/s"
    words = f"{short(stats.active_transactions)} open  {ended}  "
    words += f"average {age(parse_duration(stats.avg_duration))}  "
    words += f"producers {short(stats.active_producers)}"
    return [section("per second", settled, width), section("transactions", words, width)]


def _age_ns(sample: Sample, transaction: TransactionDescription) -> int:
    """By the clock of the node, that of this machine may be another."""
    span_s = (sample.readiness.timestamp - transaction.started_at).total_seconds()
    return max(0, round(span_s * SECOND))
