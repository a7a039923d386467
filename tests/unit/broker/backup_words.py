"""What users of backups do, in short words."""

from goqueue.model.requests import (
    BackupDescription,
    BackupList,
    CreateBackup,
    DescribeBackup,
    ListBackups,
    RestoreBackup,
    RestoreDescription,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.storage.memory_files import Content, MemoryFiles


def back_up(node: DrivenNode, command: CreateBackup | None = None) -> BackupDescription:
    """A backup that is complete."""
    begun = node.ask(command or CreateBackup(), BackupDescription)
    return describe(node, begun.summary.id)


def describe(node: DrivenNode, backup: str) -> BackupDescription:
    return node.ask(DescribeBackup(backup=backup), BackupDescription)


def list_backups(node: DrivenNode) -> tuple[BackupDescription, ...]:
    return node.ask(ListBackups(), BackupList).backups


def restore(node: DrivenNode, backup: str, *, skips_existing: bool = False) -> RestoreDescription:
    """A restore that has ended."""
    command = RestoreBackup(backup=backup, skips_existing=skips_existing)
    node.ask(command, BackupDescription)
    restored = describe(node, backup).restore
    assert restored is not None
    return restored


def files_of(node: DrivenNode) -> Content:
    """The files of all backups."""
    return {path: data for path, data in node.files.copy().items() if path.startswith("backups/")}


def fresh_node(node: DrivenNode, files: Content | None = None) -> DrivenNode:
    """Another node, with nothing but the backups of this one, or with these files."""
    return DrivenNode(MemoryFiles(files_of(node) if files is None else files), now_ns=node.now_ns)
