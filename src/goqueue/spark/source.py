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
from goqueue.spark.read_options import ReadOptions, is_for_streams, read_options
from goqueue.spark.reader import TopicReader, TopicStreamReader
from goqueue.spark.schema_lookup import check_written, with_derived, with_schema
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
        return row_schema(with_schema(options).shape)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = with_schema(read_options(self.options, is_stream=False), schema)
        self._refuse_schema(schema, options)
        return TopicReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        options = with_schema(read_options(self.options, is_stream=True), schema)
        self._refuse_schema(schema, options)
        return TopicStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = write_options(self.options, is_stream=False)
        self._refuse_overwrite(overwrite)
        return TopicWriter(self._checked(schema, options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        options = write_options(self.options, is_stream=True)
        self._refuse_overwrite(overwrite)
        # Created again for every commit and abort: a broker that is unreachable by then must not
        # hide why the batch failed; the writer reports it in any case.
        if "value" in schema.names:
            options = with_derived(options, schema)
        with contextlib.suppress(ServerUnreachable):
            options = self._checked(schema, options)
        return TopicStreamWriter(options)

    @staticmethod
    def _refuse_schema(schema: StructType, options: ReadOptions) -> None:
        if schema != row_schema(options.shape):
            raise OptionInvalid("schema", "is given by the format: select and cast afterwards")

    @staticmethod
    def _checked(schema: StructType, options: WriteOptions) -> WriteOptions:
        """Refuse columns that cannot be written, and topics that are not there."""
        check_columns(
            schema,
            has_topic=options.topic is not None,
            needs_partition=options.partitioner == "column",
            is_encoded=options.registry is not None,
        )
        for option, topic in (("topic", options.topic), ("dlqTopic", options.dlq_topic)):
            if topic is not None and not broker(options.link).has_topic(topic):
                raise OptionInvalid(option, f"there is no topic {topic!r}")
        return check_written(with_derived(options, schema), schema)

    @staticmethod
    def _refuse_overwrite(overwrite: bool) -> None:
        if overwrite:
            raise OptionInvalid("mode", "is append: a topic is not overwritten")
