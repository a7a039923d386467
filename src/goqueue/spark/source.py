"""The data source `goqueue`: what Spark looks up by name and gets readers and writers from."""

import contextlib

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from goqueue.client import ServerUnreachable
from goqueue.spark.broker import broker
from goqueue.spark.columns import check_columns, row_schema
from goqueue.spark.options import OptionInvalid
from goqueue.spark.read_options import is_for_streams, read_options
from goqueue.spark.reader import TopicReader, TopicStreamReader
from goqueue.spark.write_options import WriteOptions, write_options
from goqueue.spark.writer import TopicStreamWriter, TopicWriter

__all__ = ["GoQueueSource"]


class GoQueueSource(DataSource):
    """`format("goqueue")`. Options are checked when Spark asks for a schema, reader or writer."""

    @classmethod
    def name(cls) -> str:
        return "goqueue"

    def schema(self) -> StructType:
        """The columns of a read; Spark does not say here whether it is one of a stream."""
        options = read_options(self.options, is_stream=is_for_streams(self.options))
        return row_schema(options.shape)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, is_stream=False)
        self._refuse_schema(schema)
        return TopicReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        options = read_options(self.options, is_stream=True)
        self._refuse_schema(schema)
        return TopicStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = write_options(self.options, is_stream=False)
        self._refuse_overwrite(overwrite)
        self._check(schema, options)
        return TopicWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        options = write_options(self.options, is_stream=True)
        self._refuse_overwrite(overwrite)
        # Created again for every commit and abort: a broker that is unreachable by then must not
        # hide why the batch failed; the writer reports it in any case.
        with contextlib.suppress(ServerUnreachable):
            self._check(schema, options)
        return TopicStreamWriter(options)

    def _refuse_schema(self, schema: StructType) -> None:
        if schema != self.schema():
            raise OptionInvalid("schema", "is given by the format: select and cast afterwards")

    @staticmethod
    def _check(schema: StructType, options: WriteOptions) -> None:
        """Refuse columns that cannot be written, and topics that are not there."""
        check_columns(
            schema,
            has_topic=options.topic is not None,
            needs_partition=options.partitioner == "column",
        )
        for option, topic in (("topic", options.topic), ("dlqTopic", options.dlq_topic)):
            if topic is not None and not broker(options.link).has_topic(topic):
                raise OptionInvalid(option, f"there is no topic {topic!r}")

    @staticmethod
    def _refuse_overwrite(overwrite: bool) -> None:
        if overwrite:
            raise OptionInvalid("mode", "is append: a topic is not overwritten")
