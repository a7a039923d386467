"""The archive of topics as Parquet: written, compacted and read again."""
