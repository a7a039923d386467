"""The table of log events: everything a node writes to its log, with its level and its fields.

One row is one kind of line. Code logs by the name of a row; `docs/reference/log-events.md` is
generated from the rows (`make log-events`). Reports of the core (`goqueue.model.reports`) are rows
too: their tags are the names, their fields the fields.

Invariant: names and fields are stable once released, because operators search for them.
"""

import enum

import msgspec

__all__ = ["EVENTS", "Level", "LogEvent"]


class Level(enum.IntEnum):
    """How urgent a line is; the numbers are those of `logging`."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class LogEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of line.

    `burst` lines of it are written per window (`event_log.WINDOW_S`), counted by the value of the
    field `per` if there is one; further ones are counted. 0 is without a limit, for events that
    something else limits. `advice` is what an operator does about it.
    """

    name: str
    level: Level
    message: str
    fields: dict[str, str]
    advice: str = ""
    burst: int = 10
    per: str = ""


_TOPIC = {"topic": "name of the topic"}
_GROUP = {"group": "name of the group"}
_LOG = {"log": "topic and partition"}
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
            "status": "status of the answer",
            "bytes": "size of the answer's body",
            "duration_ms": "milliseconds from the complete request to its answer",
            "request_id": "its X-Request-ID",
        },
        advice="Only with `log.access`.",
        burst=0,
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
