"""The records of the metadata log, as they are stored: JSON arrays of changes.

What this version cannot read belongs to a later feature level: whoever applies it ends, see
`LevelGate`. A record is written only behind the one that raises the level, so none is misread.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from goqueue.cluster import (
    FEATURE_LEVEL,
    AccessStated,
    ClusterCreated,
    FeatureLevelRaised,
    ImageStated,
    MetadataChange,
    SchemasStated,
    Voter,
    Voters,
    voters_written,
)
from goqueue.model import Answer, Offset
from goqueue.records import Buffer, Flag, decode, walk

__all__ = [
    "MetadataRecord",
    "Proposal",
    "StatementProgress",
    "attempted_voters",
    "created_cluster",
    "decode_records",
    "lineage_of",
]

_decoder = msgspec.json.Decoder(list[MetadataChange])


class MetadataRecord(msgspec.Struct, frozen=True):
    """One record: the offset behind it, and its changes (none if it is about the log itself)."""

    version: Offset
    changes: tuple[MetadataChange, ...]


def created_cluster(me: Voter, term: int, founders: Voters) -> ClusterCreated:
    """The first record of a cluster, which this broker forms in a term."""
    return ClusterCreated(
        cluster_id=f"{me.directory}-{term}",
        voters=tuple(voter for voter in founders.new if voter.directory),
        formed_by=founders.new,
    )


def lineage_of(records: Iterable[MetadataRecord]) -> str:
    """The cluster that records name last; empty if none does."""
    found = ""
    for record in records:
        for change in record.changes:
            if isinstance(change, ClusterCreated | ImageStated):
                found = change.cluster_id
    return found


def attempted_voters(pending: Sequence[MetadataRecord]) -> tuple[Voter, ...]:
    """The voters that records name last which are not known to be committed; none if none does."""
    for record in reversed(pending):
        written = voters_written(record.changes)
        if written is not None:
            return written.new
    return ()


def decode_records(data: Buffer) -> Iterator[MetadataRecord]:
    """The changes of stored records."""
    for position in walk(data).positions:
        record = decode(data, position)
        is_ours = not record.flags & Flag.CONTROL
        changes = _changes(record.value or b"") if is_ours else []
        yield MetadataRecord(Offset(record.offset + 1), tuple(changes))


def _changes(value: bytes) -> list[MetadataChange]:
    try:
        return _decoder.decode(value)
    except msgspec.ValidationError:
        return [FeatureLevelRaised(level=FEATURE_LEVEL + 1)]


class Proposal(msgspec.Struct, frozen=True):
    """What is on its way: it is decided when the log is committed up to `version`."""

    version: Offset
    answers: tuple[Answer, ...]
    # Where an image was stated: what is before may go.
    states_from: Offset | None = None


class StatementProgress:
    """A statement of the image by this broker: where it begins, and when another is due.

    Its pieces are as large as what they state, so the next one waits until the log has grown as
    much again: a log of many keys is not stated all the time.
    """

    def __init__(self, restate_bytes: int) -> None:
        self._restate_bytes = restate_bytes
        # How large the log was when this broker stated its image; 0 if another did so since.
        self._stated_size = 0
        self._begun_at: Offset | None = None
        self._size_before = 0
        # Whether pieces of schemas end it, and not those of keys.
        self._has_schemas = False

    def is_wanted(self, size: int) -> bool:
        """Whether a log of this size should begin anew."""
        enough = max(self._restate_bytes, self._size_before)
        return self._begun_at is None and size - self._stated_size >= enough

    def begin(self, at: Offset) -> None:
        """The next record begins a statement, in a segment of its own."""
        self._begun_at = at

    def end(self, changes: Sequence[MetadataChange], size: int) -> Offset | None:
        """Where the statement began that these changes complete; None if they complete none."""
        for change in changes:
            match change:
                case ImageStated(access_count=0, schema_sum=msgspec.UNSET):
                    self._size_before = 0
                    return self._begun_at
                case ImageStated(schema_sum=sum_):
                    self._has_schemas = sum_ is not msgspec.UNSET
                case AccessStated(is_last=True) if not self._has_schemas:
                    self._size_before = size
                    return self._begun_at
                case SchemasStated(is_last=True):
                    self._size_before = size
                    return self._begun_at
        return None

    def ended(self, size: int) -> None:
        """All of it is committed, and what was before is gone."""
        self._begun_at = None
        self._stated_size = size
        self._size_before = min(self._size_before, size)

    def heard(self) -> None:
        """A statement was committed, by whichever broker."""
        self._stated_size = 0

    def cancel(self) -> None:
        """This broker leads no longer: the next one begins anew."""
        self._begun_at = None
