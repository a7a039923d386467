"""The data source `goqueue`: what Spark asks for by name, and gets readers and writers from."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from goqueue.spark.columns import check_columns, row_schema
from goqueue.spark.options import OptionInvalid, read_options, write_options
from goqueue.spark.reading import TopicReader, TopicStreamReader
from goqueue.spark.writing import TopicStreamWriter, TopicWriter

__all__ = ["GoQueueSource"]


class GoQueueSource(DataSource):
    """`format("goqueue")`. Options are checked whenever Spark asks for something made of them."""

    @classmethod
    def name(cls) -> str:
        return "goqueue"

    def schema(self) -> StructType:
        """The columns of a read; Spark does not say here whether it is one of a stream."""
        try:
            options = read_options(self.options, is_stream=False)
        except OptionInvalid:
            options = read_options(self.options, is_stream=True)
        return row_schema(with_headers=options.with_headers, headers_as=options.headers_as)

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
        check_columns(schema, has_topic=options.topic is not None)
        return TopicWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        options = write_options(self.options, is_stream=True)
        self._refuse_overwrite(overwrite)
        check_columns(schema, has_topic=options.topic is not None)
        return TopicStreamWriter(options)

    def _refuse_schema(self, schema: StructType) -> None:
        if schema != self.schema():
            raise OptionInvalid("schema", "is given by the format: select and cast afterwards")

    @staticmethod
    def _refuse_overwrite(overwrite: bool) -> None:
        if overwrite:
            raise OptionInvalid("mode", "is append: a topic is not overwritten")
