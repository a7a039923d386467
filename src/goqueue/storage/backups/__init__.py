"""The files of backups: `backups/{id}`, and `restoring` while one is put back.

A backup is a directory: the segments of every log up to one moment, what the core has to say of
that moment, and a manifest with the size and the SHA-256 of each file. It is `{id}.partial` until
all of it is durable; a start removes what still has that name. What is being removed is
`{id}.removed-N`.

`hold_segments` is called by the disk thread. Jobs (`BackupJobs`) are iterators of small steps, so
that a shell can run them in a thread of their own, at a bounded speed, and a simulator can crash
between any two.
"""

from goqueue.storage.backups.hold import hold_segments
from goqueue.storage.backups.jobs import BackupJobs
from goqueue.storage.backups.manifest import FORMAT, MANIFEST_FILE, SUM_FILE
from goqueue.storage.backups.restore_stage import sweep_restore

__all__ = [
    "FORMAT",
    "MANIFEST_FILE",
    "SUM_FILE",
    "BackupJobs",
    "hold_segments",
    "sweep_restore",
]
