"""The shell around the core: event loop, threads, clock, files.

`Server` starts a node with its listeners; `Pump` runs its turns on the event loop; `Disk` writes
and syncs on its own thread. None of them decides anything about messages.
"""

from goqueue.runtime.allocator import keep_freed_memory
from goqueue.runtime.clock import read_clock
from goqueue.runtime.conversion import ConvertedDirectory, NotConvertible, convert_directory
from goqueue.runtime.data_directory import DataDirectory, DataDirectoryUnusable
from goqueue.runtime.disk import Disk, reserve_for
from goqueue.runtime.event_log import EventLog, ProcessLog, start_logging
from goqueue.runtime.exporters.exporter import ExporterUnusable
from goqueue.runtime.first_key import FirstKey, create_first_key
from goqueue.runtime.listeners import configured_gateways
from goqueue.runtime.local_log import LocalLog
from goqueue.runtime.offline_node import NodeHalted
from goqueue.runtime.os_files import OsFile, OsFileSystem
from goqueue.runtime.pump import Pump
from goqueue.runtime.quorum_recovery import (
    NotRecoverable,
    follow_cluster,
    plan_recovery,
    recover_cluster,
)
from goqueue.runtime.root_key import RootKeyUnusable, forbid_memory_dumps, read_root_key
from goqueue.runtime.server import NobodyAdministers, Server
from goqueue.runtime.time_zones import SystemZones
from goqueue.runtime.tls import TlsUnusable

__all__ = [
    "ConvertedDirectory",
    "DataDirectory",
    "DataDirectoryUnusable",
    "Disk",
    "EventLog",
    "ExporterUnusable",
    "FirstKey",
    "LocalLog",
    "NobodyAdministers",
    "NodeHalted",
    "NotConvertible",
    "NotRecoverable",
    "OsFile",
    "OsFileSystem",
    "ProcessLog",
    "Pump",
    "RootKeyUnusable",
    "Server",
    "SystemZones",
    "TlsUnusable",
    "configured_gateways",
    "convert_directory",
    "create_first_key",
    "follow_cluster",
    "forbid_memory_dumps",
    "keep_freed_memory",
    "plan_recovery",
    "read_clock",
    "read_root_key",
    "recover_cluster",
    "reserve_for",
    "start_logging",
]
