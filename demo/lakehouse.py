"""The data pipeline: orders become a Parquet archive and a count per minute, on Spark."""

import datetime as dt
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import goqueue
from demo.node import NodeProcess
from demo.show import Show

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Order", "build_a_lakehouse", "order"]

EXAMPLE = Path(__file__).parents[1] / "examples" / "pipelines" / "orders_per_minute.yaml"
PRODUCTS = ("tea", "coffee", "cake")
_FIRST = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
_SECONDS_APART = 2


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """An order as it is published. Some are in a hurry and leave all but the id out."""

    id: int
    product: str = ""
    amount: float = 0.0
    at: str = ""


class Minute(msgspec.Struct, frozen=True):
    """What the pipeline tells of one minute and one product."""

    product: str
    minute: str
    orders: int
    turnover: float


def order(number: int) -> dict[str, object]:
    """One of the orders that the demonstration begins with."""
    made_at = _FIRST + dt.timedelta(seconds=number * _SECONDS_APART)
    return {
        "id": number,
        "product": PRODUCTS[number % len(PRODUCTS)],
        "amount": 2.5 + number % 10,
        "at": made_at.isoformat().replace("+00:00", "Z"),
    }


def build_a_lakehouse(node: NodeProcess, folder: Path, show: Show) -> None:
    show.step("Two pipelines on Spark: the orders as Parquet, and counted per minute into a topic")
    with goqueue.connect_sync(node.url) as q:
        total = q.topics.describe("orders").total_messages
        q.topics.create("orders.per_minute", partitions=1)
        q.topics.create("orders.bad", partitions=1)
    lake = folder / "lake"
    show.say("(Spark takes its time to start.)")
    checkpoint = str(folder / "checkpoint")
    # Both at once: most of the time is Spark's own start.
    running = [
        _start(node, show, "archive", "--topic", "orders", "--to", str(lake)),
        _start(node, show, str(EXAMPLE), "--checkpoint", checkpoint),
    ]
    has_ended = [_finish(each, show) for each in running]
    show.prove("both ran to their end", holds=all(has_ended))
    if all(has_ended):
        _check(node, lake, total, show)


def _start(node: NodeProcess, show: Show, *what: str) -> subprocess.Popen[str]:
    """Start a pipeline that ends when all that is there is done."""
    arguments = ["pipeline", "run", *what, "--once"]
    show.say(f"goqueue {' '.join(Path(each).name for each in arguments)}")
    command = [sys.executable, "-m", "goqueue.cli", *arguments, "--master", "local[2]"]
    command += ["-o", "json", "-s", node.url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _finish(pipeline: subprocess.Popen[str], show: Show) -> bool:
    """Wait for a pipeline; whether it did its work."""
    printed, _ = pipeline.communicate()
    if pipeline.returncode:
        show.say(printed)
    return pipeline.returncode == 0


def _check(node: NodeProcess, lake: Path, total: int, show: Show) -> None:
    # The demonstration runs without Spark and Arrow, too.
    import pyarrow.dataset as ds

    archived: pa.Table = ds.dataset(lake, partitioning="hive").to_table()
    places = list(
        zip(archived["partition"].to_pylist(), archived["offset"].to_pylist(), strict=True)
    )
    show.say(f"{len(places)} orders are in Parquet, for whoever reads it.")
    show.prove(
        "the archive holds every order exactly once",
        holds=len(places) == total == len(set(places)),
    )
    minutes = _minutes(node)
    for each in minutes[:6]:
        when = each.minute[11:16]
        show.say(f"{when}  {each.product:8} {each.orders:4} orders {each.turnover:10.2f}")
    show.say(f"and so on: {len(minutes)} rows.")
    values = (msgspec.json.decode(value, type=Order) for value in archived["value"].to_pylist())
    counted = Counter((each.product, each.at[:16]) for each in values if each.at)
    told = {(each.product, each.minute[:16]): each.orders for each in minutes}
    show.prove(
        "every minute that is over is counted once, as the archive has it",
        holds=len(told) == len(minutes) > 0 and all(counted[key] == told[key] for key in told),
    )


def _minutes(node: NodeProcess) -> list[Minute]:
    with goqueue.connect_sync(node.url) as q:
        count = q.topics.describe("orders.per_minute").total_messages
        with q.stream("orders.per_minute") as stream:
            found = [next(stream).json(Minute) for _ in range(count)]
    return sorted(found, key=lambda each: (each.minute, each.product))
