"""Starting Spark: its Java, its settings, and what its executors need."""

from goqueue.pipelines.launching.home import make_home
from goqueue.pipelines.launching.java import JavaMissing, find_java, fronted
from goqueue.pipelines.launching.sessions import NICENESS, local_master, session, session_settings
from goqueue.pipelines.launching.shipping import executor_files, ship

__all__ = [
    "NICENESS",
    "JavaMissing",
    "executor_files",
    "find_java",
    "fronted",
    "local_master",
    "make_home",
    "session",
    "session_settings",
    "ship",
]
