"""Starting Spark: its Java, its settings, and what its executors need."""

from goqueue.pipelines.launching.java import JavaMissing, find_java
from goqueue.pipelines.launching.sessions import local_master, session, session_settings

__all__ = ["JavaMissing", "find_java", "local_master", "session", "session_settings"]
