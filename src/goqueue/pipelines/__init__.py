"""Pipelines on Spark: from topics through SQL and Python into topics, files and tables."""

from goqueue.pipelines.spark_session import (
    JavaMissing,
    find_java,
    local_master,
    session,
    session_settings,
)

__all__ = ["JavaMissing", "find_java", "local_master", "session", "session_settings"]
