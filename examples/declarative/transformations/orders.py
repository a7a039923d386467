"""Large orders of `orders` go on to `orders.large`, exactly once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
SERVERS = spark.conf.get("orders.servers")

dp.create_sink("large", "goqueue", {"goqueue.servers": SERVERS, "topic": "orders.large"})


@dp.append_flow(target="large")
def large_orders() -> DataFrame:
    """Orders of at least 100, as they are."""
    orders = (
        spark.readStream.format("goqueue")
        .option("goqueue.servers", SERVERS)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    amount = f.get_json_object(f.col("value").cast("string"), "$.amount").cast("double")
    return orders.where(amount >= 100).select("key", "value")
