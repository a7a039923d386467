"""Which letters were put back: told from their copies, for the report.

The broker remembers what it redrives and moves no letter twice, but tells nobody. Every copy says
in a header which letter it is of; so the topics that letters went to, read from the time of the
oldest letter on, tell of all copies that retention has kept. Nothing depends on it but what is
shown, and which letters `--max` counts.
"""

from typing import TYPE_CHECKING

from goqueue.pipelines.packaged.redrive.letters import REDRIVEN_HEADER, fact
from goqueue.pipelines.packaged.wiring import Wiring

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["mark_redriven"]


def mark_redriven(
    letters: "DataFrame", wiring: Wiring, kept_in: str, targets: list[str], since_us: int
) -> "DataFrame":
    """The letters that are kept in a topic, with `is_redriven`."""
    place = f"concat('{kept_in}-', partition, ':', offset) AS place"
    copies = _copies(letters.sparkSession, wiring, targets, since_us)
    rows = letters.selectExpr("*", place).join(copies, "place", "left")
    # A copy of a letter is younger than the letter: offsets begin anew in a topic made anew.
    return rows.selectExpr(
        "* EXCEPT (place, copied)", "coalesce(copied >= timestamp, false) AS is_redriven"
    )


def _copies(
    spark: "SparkSession", wiring: Wiring, targets: list[str], since_us: int
) -> "DataFrame":
    """Where copies in the targets say that they come from, and the time of the youngest."""
    if not targets:
        return spark.createDataFrame([], "place STRING, copied TIMESTAMP")
    reader = spark.read.format("goqueue").options(
        **wiring.options(
            subscribe=",".join(targets),
            # The broker counts in nanoseconds: the millisecond before is surely not too late.
            startingTimestamp=str(max(0, since_us // 1000 - 1)),
            includeHeaders="true",
            headersAs="array",
        )
    )
    place = f"cast({fact(REDRIVEN_HEADER)} AS STRING) AS place"
    rows = reader.load().selectExpr(place, "timestamp").where("place IS NOT NULL")
    return rows.groupBy("place").agg({"timestamp": "max"}).toDF("place", "copied")
