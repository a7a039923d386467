"""Which letters were put back: asked before a redrive, and written with it, in one decision.

The broker remembers what it redrives by itself, and tells nobody. But every copy that it makes, and
every one made here, says in a header which letter it is of; so whoever reads the topics that
letters went to, from the time of the oldest letter on, finds them as long as retention keeps them.
What is redriven here is noted beside that, in a topic of its own, `<letters>.redriven`, which keeps
its notes for ever.

Invariant: notes are published in the same decision as the copies, under a key made of where the
notes ended when they were read. So of two redrives that read the same notes only one is decided.
"""

from typing import TYPE_CHECKING

import msgspec

from goqueue.client import TopicExists, TopicNotFound
from goqueue.pipelines.packaged.redrive.letters import REDRIVEN_HEADER, fact
from goqueue.pipelines.packaged.wiring import Wiring

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Ledger", "open_ledger"]

_SUFFIX = ".redriven"
# A letter of this time and place: offsets begin anew in a topic that is made anew.
_MARK = "concat_ws(':', partition, offset, unix_micros(timestamp))"


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The notes about the letters of one topic, as far as they went when they were looked at."""

    wiring: Wiring
    letters: str
    is_there: bool
    end: int = 0

    @property
    def topic(self) -> str:
        return self.letters + _SUFFIX

    @property
    def key(self) -> dict[str, str]:
        """Options of the write that adds to these notes."""
        # The name of a topic may be as long as 249 characters, an identity as long as 100.
        name = self.letters if len(self.letters) <= 80 else self.letters[-80:]
        return {"transactionalId": f"redrive.{name}", "transactionalVersion": str(self.end)}

    def make(self) -> "Ledger":
        """The ledger with its topic, which is made if it is missing."""
        if not self.is_there:
            with self.wiring.connect() as client:
                try:
                    client.topics.create(self.topic, partitions=1, retention_hours=-1)
                except TopicExists:
                    return open_ledger(self.wiring, self.letters)
        return msgspec.structs.replace(self, is_there=True)

    def marked(
        self, spark: "SparkSession", letters: "DataFrame", targets: list[str], since_us: int
    ) -> "DataFrame":
        """The letters with `mark`, and `is_redriven` for those that were put back."""
        rows = letters.selectExpr("*", f"{_MARK} AS mark")
        known = self._copies(spark, targets, since_us)
        place = f"concat('{self.letters}-', partition, ':', offset) AS place"
        rows = rows.selectExpr("*", place).join(known, "place", "left")
        # A copy of a letter is younger than the letter.
        rows = rows.selectExpr(
            "* EXCEPT (place, copied)", "coalesce(copied >= timestamp, false) AS is_copied"
        )
        if self.is_there and self.end:
            rows = rows.join(
                self.marks(spark).selectExpr("mark", "true AS is_noted"), "mark", "left"
            )
        else:
            rows = rows.selectExpr("*", "false AS is_noted")
        return rows.selectExpr(
            "* EXCEPT (is_copied, is_noted)",
            "is_copied OR coalesce(is_noted, false) AS is_redriven",
        )

    def _copies(self, spark: "SparkSession", targets: list[str], since_us: int) -> "DataFrame":
        """Where copies in the targets say that they come from, and the time of the youngest."""
        if not targets:
            return spark.createDataFrame([], "place STRING, copied TIMESTAMP")
        reader = spark.read.format("goqueue").options(
            **self.wiring.options(
                subscribe=",".join(targets),
                # The broker counts in nanoseconds: the microsecond before is surely not too late.
                startingTimestamp=str(max(0, since_us // 1000 - 1)),
                includeHeaders="true",
                headersAs="array",
            )
        )
        place = f"cast({fact(REDRIVEN_HEADER)} AS STRING) AS place"
        rows = reader.load().selectExpr(place, "timestamp").where("place IS NOT NULL")
        return rows.groupBy("place").agg({"timestamp": "max"}).toDF("place", "copied")

    def marks(self, spark: "SparkSession", since: int = 0) -> "DataFrame":
        """The letters that are noted, from an offset of the notes on."""
        bounds = [
            msgspec.json.encode({self.topic: {"0": offset}}).decode()
            for offset in (since, self.end)
        ]
        reader = spark.read.format("goqueue").options(
            **self.wiring.options(
                subscribe=self.topic, startingOffsets=bounds[0], endingOffsets=bounds[1]
            )
        )
        return reader.load().selectExpr("cast(key AS STRING) AS mark").distinct()


def open_ledger(wiring: Wiring, letters: str) -> Ledger:
    """The ledger as it is now."""
    from goqueue.spark import GoQueueSource

    with wiring.connect() as client:
        try:
            client.topics.describe(letters + _SUFFIX)
        except TopicNotFound:
            return Ledger(wiring=wiring, letters=letters, is_there=False)
    # Asked as the connector reads, so that notes which are not decided yet are not counted.
    source = GoQueueSource(
        wiring.options(subscribe=letters + _SUFFIX, maxBytesPerPartition=str(1 << 62))
    )
    tasks = source.reader(source.schema()).partitions()
    return Ledger(
        wiring=wiring,
        letters=letters,
        is_there=True,
        end=max((task.value.end for task in tasks if task.value is not None), default=0),
    )
