"""The shell around the core: event loop, threads, clock, files.

`Server` starts a node with its listeners; `Pump` runs its turns on the event loop; `Disk` writes
and syncs on its own thread. None of them decides anything about messages.
"""

from goqueue.runtime.clock import read_clock
from goqueue.runtime.data_directory import DataDirectory, DataDirectoryUnusable
from goqueue.runtime.disk import Disk, reserve_for
from goqueue.runtime.event_log import EventLog, ProcessLog, start_logging
from goqueue.runtime.exporters.exporter import ExporterUnusable
from goqueue.runtime.listeners import configured_gateways
from goqueue.runtime.local_log import LocalLog
from goqueue.runtime.os_files import OsFile, OsFileSystem
from goqueue.runtime.pump import Pump
from goqueue.runtime.server import Server
from goqueue.runtime.time_zones import SystemZones

__all__ = [
    "DataDirectory",
    "DataDirectoryUnusable",
    "Disk",
    "EventLog",
    "ExporterUnusable",
    "LocalLog",
    "OsFile",
    "OsFileSystem",
    "ProcessLog",
    "Pump",
    "Server",
    "SystemZones",
    "configured_gateways",
    "read_clock",
    "reserve_for",
    "start_logging",
]
