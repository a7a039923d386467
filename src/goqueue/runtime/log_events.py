"""The table of log events: everything a node writes to its log, with its level and its fields.

One row is one kind of line. Code logs by the name of a row; `docs/reference/log-events.md` is
generated from the rows (`make log-events`). Reports of the core (`goqueue.model.reports`) are rows
too: their tags are the names, their fields the fields.

Invariant: names and fields are stable once released, because operators search for them.
"""

from goqueue.runtime.cluster_log_events import CLUSTER_ROWS
from goqueue.runtime.log_event import Level, LogEvent

__all__ = ["EVENTS", "Level", "LogEvent"]


_TOPIC = {"topic": "name of the topic"}
_GROUP = {"group": "name of the group"}
_LOG = {"log": "topic and partition"}
_CERTIFICATE = {
    "listener": "name of the listener",
    "names": "names and addresses in the certificate",
    "expires": "when it expires",
    "sha256": "its fingerprint",
}
_BROKER = {"broker": "name of the other broker"}
_BACKUP = {"backup": "id of the backup"}
_REQUEST = {
    "client": "address of the client",
    "method": "HTTP method",
    "path": "path without the query; of a request that was refused unread, empty",
    "status": "status of the answer",
    "code": "error code of the answer",
    "reason": "the sentence of the answer",
    "request_id": "its X-Request-ID",
}

_ROWS = (
    # The process
    LogEvent(
        name="node_starting",
        level=Level.INFO,
        message="the node is starting",
        fields={
            "version": "version of GoQueue",
            "commit": "commit it was built from",
            "python": "version of Python",
            "compiled": "whether the compiled extensions are in use",
            "pid": "id of the process",
            "node": "name of the node",
            "data_dir": "data directory",
            "address": "where it listens",
            "previous_end": "how the last node on this data directory ended: clean, crash, none "
            "(there was no other) or unknown (of an older version)",
        },
        burst=0,
    ),
    LogEvent(
        name="recovery_progress",
        level=Level.INFO,
        message="recovery continues",
        fields={
            "logs_opened": "logs opened so far",
            "scanned_bytes": "bytes above the recovery points that were read and checked",
            "elapsed_s": "seconds since recovery began",
        },
        advice="Wait; `/readyz` fails until recovery is done.",
        burst=1,
    ),
    LogEvent(
        name="torn_write_removed",
        level=Level.INFO,
        message="an incomplete write at the end of a log was removed",
        fields={
            **_LOG,
            "segment": "first offset of the segment",
            "position": "byte where the log ends now",
            "removed_bytes": "bytes removed",
            "reason": "what was wrong with them",
        },
        advice="None: nothing of it was acknowledged.",
    ),
    LogEvent(
        name="log_tail_cut",
        level=Level.WARNING,
        message="the end of a log was cut off although good records follow the bad one",
        fields={
            **_LOG,
            "segment": "first offset of the segment",
            "position": "byte where the log ends now",
            "removed_bytes": "bytes cut off",
            "reason": "what was wrong",
            "copy": "file with a copy of the bytes, or why there is none",
        },
        advice="Usually a torn write whose pages arrived out of order. Check the disk, keep the "
        "copy.",
    ),
    LogEvent(
        name="node_recovered",
        level=Level.INFO,
        message="recovery is done, the node serves",
        fields={
            "topics": "number of topics",
            "partitions": "number of partitions",
            "groups": "number of groups",
            "data_bytes": "bytes in the logs of all topics",
            "recovery_s": "seconds from the start of recovery until the node served",
            "logs_opened": "logs opened, journals included",
            "scanned_bytes": "bytes above the recovery points that were read and checked",
            "removed_bytes": "bytes of incomplete writes that were removed",
            "previous_end": "as in `node_starting`",
        },
        burst=0,
    ),
    LogEvent(
        name="node_stopping",
        level=Level.INFO,
        message="the node is stopping",
        fields={
            "reason": "the signal",
            "waiting_requests": "requests that are not answered yet; long polls end at once",
        },
        burst=0,
    ),
    LogEvent(
        name="requests_abandoned",
        level=Level.WARNING,
        message="some requests were not answered before the end of the grace period",
        fields={"count": "number of requests", "grace_s": "length of the period in seconds"},
        advice="Clients see a closed connection, and do not know the outcome.",
        burst=0,
    ),
    LogEvent(
        name="node_stopped",
        level=Level.INFO,
        message="the node has stopped, everything is flushed",
        fields={"stop_s": "seconds since the signal", "uptime_s": "seconds since the start"},
        burst=0,
    ),
    LogEvent(
        name="node_halted",
        level=Level.ERROR,
        message="the node cannot continue",
        fields={"reason": "why"},
        advice="Fix the cause (disk, descriptors) and start the node again: it recovers from its "
        "logs. Report a bug if the reason names one.",
        burst=0,
    ),
    # TLS
    LogEvent(
        name="tls_enabled",
        level=Level.INFO,
        message="a listener uses TLS",
        fields={
            **_CERTIFICATE,
            "client_auth": "what is asked of clients: none, verify (a certificate is verified if "
            "one is sent) or require-verify",
            "min_version": "minimum TLS version",
        },
        burst=0,
    ),
    LogEvent(
        name="tls_development_certificate",
        level=Level.WARNING,
        message="TLS uses a certificate for development",
        fields={
            "ca_file": "the authority that clients have to trust: their `ca_file`",
            "sha256": "fingerprint of the authority",
        },
        advice="Set `tls.cert_file` and `tls.key_file` for anything else.",
        burst=0,
    ),
    LogEvent(
        name="tls_key_exposed",
        level=Level.WARNING,
        message="the private key can be used by more users than necessary",
        fields={"file": "the file", "reason": "who can use it"},
        advice="Remove the permissions of the group, if the file is not mounted so.",
        burst=0,
    ),
    LogEvent(
        name="tls_reloaded",
        level=Level.INFO,
        message="new connections use the certificate that was read now",
        fields={**_CERTIFICATE, "cause": "signal or change (of a file)"},
        burst=0,
    ),
    LogEvent(
        name="tls_reload_failed",
        level=Level.ERROR,
        message="the certificate was not replaced: the one in use stays",
        fields={"listener": "name of the listener", "reason": "what is wrong with the files"},
        advice="Correct the files; they are read again when they change, and after SIGHUP. See "
        "[An expired certificate](../guides/tls.md#an-expired-certificate).",
    ),
    LogEvent(
        name="tls_certificate_expiring",
        level=Level.WARNING,
        message="the certificate expires soon",
        fields={"listener": "name of the listener", "expires": "when"},
        advice="Replace its files; no restart is needed. Written 30, 7 and 1 days before.",
        burst=0,
    ),
    LogEvent(
        name="tls_certificate_expired",
        level=Level.ERROR,
        message="the certificate has expired: clients refuse it",
        fields={"listener": "name of the listener", "expires": "when it did"},
        advice="See [An expired certificate](../guides/tls.md#an-expired-certificate).",
        burst=0,
    ),
    # The disk
    LogEvent(
        name="disk_full",
        level=Level.ERROR,
        message="the disk is full: publishes are refused, reads and acks continue",
        fields={"logs": "first logs that found no space", "free_bytes": "free bytes of the volume"},
        advice="Free space or lower a retention; `storage_full` ends without a restart.",
        burst=3,
    ),
    LogEvent(
        name="disk_free",
        level=Level.WARNING,
        message="the disk has space again",
        fields={"full_s": "seconds that it was full"},
        burst=3,
    ),
    LogEvent(
        name="journal_reserve_missing",
        level=Level.WARNING,
        message="there is no space for the journal reserve: publishes are refused until there is",
        fields={},
        advice="Free space.",
        burst=1,
    ),
    LogEvent(
        name="disk_slow",
        level=Level.WARNING,
        message="the disk took long to write and sync",
        fields={
            "took_s": "seconds for this group of writes; publishes and acks waited for it",
            "logs": "number of logs written",
        },
        advice="Compare with `goqueue_storage_fsync_latency_seconds`; look for other load on the "
        "disk.",
        burst=3,
    ),
    LogEvent(
        name="records_damaged",
        level=Level.ERROR,
        message="records are damaged on disk and refused; the others are served",
        fields={
            **_LOG,
            "first": "first damaged offset",
            "next_offset": "where reading continues",
            "reason": "what was wrong",
        },
        advice="Check the disk; `goqueue log verify` shows the extent. Restore from a copy, or "
        "continue at `next_offset`.",
    ),
    LogEvent(
        name="damage_gone",
        level=Level.INFO,
        message="no damaged records are left: retention or a deletion removed them",
        fields={},
    ),
    LogEvent(
        name="log_failed",
        level=Level.ERROR,
        message="the disk failed to store data, and the log accepts no more writes",
        fields={**_LOG, "reason": "error of the disk"},
        advice="Check the disk, then restart the node.",
    ),
    LogEvent(
        name="log_unclaimed",
        level=Level.WARNING,
        message="no topic claims a log: it was moved away",
        fields={"moved_from": "path before", "moved_to": "path now"},
        advice="Left by a deletion that a crash interrupted. Delete it if nobody misses it.",
    ),
    LogEvent(
        name="background_step_failed",
        level=Level.WARNING,
        message="a step that nothing depends on failed",
        fields={"step": "what was tried", "reason": "error of the disk"},
        advice="Snapshots that are not saved make the next start slower, nothing else.",
        per="step",
    ),
    # Topics and groups
    LogEvent(
        name="topic_created",
        level=Level.INFO,
        message="topic created",
        fields={**_TOPIC, "partitions": "number of partitions"},
        burst=50,
    ),
    LogEvent(
        name="topic_changed",
        level=Level.INFO,
        message="topic settings changed",
        fields={**_TOPIC, "changes": "`setting: old -> new` each"},
        burst=50,
    ),
    LogEvent(
        name="topic_deleted",
        level=Level.INFO,
        message="topic deleted",
        fields=_TOPIC,
        burst=50,
    ),
    LogEvent(
        name="members_lost",
        level=Level.WARNING,
        message="members of a group were silent for longer than their session timeout",
        fields={**_GROUP, "members": "ids of the members", "remaining": "members that are left"},
        advice="Did the consumer crash, hang or lose the network? Its leases are free again.",
        per="group",
    ),
    LogEvent(
        name="group_rebalanced",
        level=Level.INFO,
        message="the partitions of a group were assigned again",
        fields={
            **_GROUP,
            "generation": "number of the assignment",
            "trigger": "join, leave, session_timeout, topic or restart",
            "members": "number of members",
        },
        advice="A group that does this all the time has members that come and go.",
        burst=5,
        per="group",
    ),
    LogEvent(
        name="messages_dead_lettered",
        level=Level.WARNING,
        message="messages became dead letters",
        fields={
            **_TOPIC,
            "partition": "partition they were in",
            "group": "group that did not process them",
            "count": "number of messages; the other fields are those of the first",
            "offset": "its offset",
            "cause": "rejected or max_deliveries",
            "reason": "what the consumer said",
            "deliveries": "how often it was delivered",
            "dead_letter_topic": "where it is now",
        },
        advice="`goqueue dlq list TOPIC` shows them, `goqueue dlq redrive` sends them back.",
        burst=3,
        per="topic",
    ),
    LogEvent(
        name="dead_letters_refused",
        level=Level.WARNING,
        message="dead letters stay: their topic refuses their values",
        fields={
            **_TOPIC,
            "dead_letter_topic": "where they are",
            "count": "number of dead letters; the other fields are those of the first",
            "partition": "its partition there",
            "offset": "its offset there",
            "code": "error code, as for a publish",
            "path": "where in the value",
            "reason": "what is wrong there",
        },
        advice="Register a schema that takes them, or redrive them to another topic.",
        burst=3,
        per="topic",
    ),
    LogEvent(
        name="dead_letters_stalled",
        level=Level.WARNING,
        message="messages wait: the topic that they move to does not take them",
        fields={
            "topic": "topic that they move to: dead letters, or the target of a redrive",
            "count": "number of messages that wait on one route",
            "reason": "error code, or what failed",
        },
        advice=(
            "Free space; restart the node if the log of the topic failed. Until then they stay "
            "where they were, and are not delivered."
        ),
        burst=1,
        per="topic",
    ),
    LogEvent(
        name="schedule_refused",
        level=Level.WARNING,
        message="the message of a schedule does not conform to the schema of its topic",
        fields={
            "schedule": "name of the schedule",
            **_TOPIC,
            "code": "error code, as for a publish",
            "path": "where in the value",
            "reason": "what is wrong there",
        },
        advice="Ticks are not sent meanwhile. Change the message of the schedule, or the schema.",
        burst=3,
        per="topic",
    ),
    # Backups
    LogEvent(
        name="backup_started",
        level=Level.INFO,
        message="a backup was begun",
        fields={
            **_BACKUP,
            "topics": "number of topics",
            "partitions": "number of partitions",
        },
        burst=0,
    ),
    LogEvent(
        name="backup_completed",
        level=Level.INFO,
        message="a backup is complete",
        fields={
            **_BACKUP,
            "topics": "number of topics",
            "partitions": "number of partitions",
            "messages": "number of messages",
            "data_bytes": "size of its segments",
            "took_ms": "milliseconds it took",
        },
        advice="Copy it to another machine: its segments are on the disk of the logs.",
        burst=0,
    ),
    LogEvent(
        name="backup_failed",
        level=Level.ERROR,
        message="a backup failed, and nothing of it is kept",
        fields={**_BACKUP, "reason": "why"},
        advice="Free space, or look after the disk, and take another.",
        burst=0,
    ),
    LogEvent(
        name="backup_deleted",
        level=Level.INFO,
        message="a backup was deleted",
        fields=_BACKUP,
        burst=0,
    ),
    *CLUSTER_ROWS,
    LogEvent(
        name="restore_started",
        level=Level.INFO,
        message="a restore was begun",
        fields={**_BACKUP, "topics": "number of topics to restore"},
        burst=0,
    ),
    LogEvent(
        name="restore_completed",
        level=Level.INFO,
        message="a backup was restored",
        fields={
            **_BACKUP,
            "topics": "topics restored",
            "groups": "groups restored",
            "schedules": "schedules restored",
            "skipped": "topics, schedules and versions of schemas that existed",
            "tenants": "tenants restored",
            "acls": "ACLs restored",
            "acls_skipped": "rules that allow and were deleted since the backup: they stay deleted",
            "schemas": "versions of schemas restored",
        },
        burst=0,
    ),
    LogEvent(
        name="restore_failed",
        level=Level.ERROR,
        message="a restore failed, and nothing was restored",
        fields={**_BACKUP, "reason": "why"},
        advice="See [Backup](../guides/backup.md) for what to do about each reason.",
        burst=0,
    ),
    # Callers
    LogEvent(
        name="request_refused",
        level=Level.INFO,
        message="a request was refused",
        fields=_REQUEST,
        advice="A client sends something invalid or badly timed; `code` says what.",
        burst=3,
        per="code",
    ),
    LogEvent(
        name="request_failed",
        level=Level.WARNING,
        message="a request failed, or the node had no room for it",
        fields=_REQUEST,
        advice="See [HTTP API](http-api.md) for the code; other lines at the same time say why.",
        burst=3,
        per="code",
    ),
    LogEvent(
        name="access",
        level=Level.INFO,
        message="request",
        fields={
            "client": "address of the client",
            "method": "HTTP method",
            "path": "path without the query",
            "status": "status of the answer; 499 if the client left before it",
            "bytes": "size of the answer's body",
            "duration_ms": "milliseconds from the complete request to its answer; of a stream, "
            "to its end",
            "request_id": "its X-Request-ID",
        },
        advice="Only with `log.access`. The line of a stream (`tail`) comes when it ends.",
        burst=0,
    ),
    LogEvent(
        name="stream_opened",
        level=Level.DEBUG,
        message="a stream begins",
        fields={
            "client": "address of the client",
            "method": "HTTP method",
            "path": "path without the query",
            "request_id": "its X-Request-ID",
        },
        advice="Only with `log.access`.",
        burst=50,
    ),
    # Other brokers
    LogEvent(
        name="peer_connected",
        level=Level.INFO,
        message="another broker is connected",
        fields={
            **_BROKER,
            "address": "the address that it advertises",
            "incarnation": "the number of this run of it",
            "version": "version of the protocol that both use",
        },
        per="broker",
    ),
    LogEvent(
        name="peer_disconnected",
        level=Level.WARNING,
        message="another broker is no longer connected",
        fields={**_BROKER, "reason": "why the connection ended"},
        advice="It is dialled again at once. If it stays away, look at its log.",
        per="broker",
    ),
    LogEvent(
        name="peer_unreachable",
        level=Level.WARNING,
        message="another broker cannot be reached",
        fields={"address": "where it was dialled", "reason": "why there is no connection"},
        advice="Check `cluster.peers` and the secret or certificates of both; attempts continue.",
        per="address",
    ),
    LogEvent(
        name="peer_clock_differs",
        level=Level.WARNING,
        message="the wall clock of another broker differs",
        fields={**_BROKER, "offset_ms": "by how many milliseconds it is ahead"},
        advice="Synchronise the clocks of all brokers.",
        per="broker",
    ),
    # The log itself
    LogEvent(
        name="message",
        level=Level.INFO,
        message="",
        fields={
            "logger": "module or library that logged it",
            "exception": "traceback, if there is one",
        },
        advice="Lines of libraries and of bugs, with their own level and text. A traceback is a "
        "bug.",
        burst=20,
        per="logger",
    ),
    LogEvent(
        name="log_lines_lost",
        level=Level.WARNING,
        message="lines were not written: the reader of the log is too slow, or gone",
        fields={"count": "number of lines"},
        advice="Switch off `log.access`, or use a faster log collector.",
        burst=0,
    ),
)

EVENTS: dict[str, LogEvent] = {row.name: row for row in _ROWS}
