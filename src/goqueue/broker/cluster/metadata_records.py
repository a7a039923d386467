"""The records of the metadata log, as they are stored: JSON arrays of changes.

What this version cannot read belongs to a later feature level: whoever applies it ends, see
`LevelGate`. A record is written only behind the one that raises the level, so none is misread.
"""

from collections.abc import Iterator, Sequence

import msgspec

from goqueue.cluster import (
    FEATURE_LEVEL,
    ClusterCreated,
    FeatureLevelRaised,
    MetadataChange,
    Voter,
    Voters,
    voters_written,
)
from goqueue.model import Answer, Offset
from goqueue.records import Buffer, Flag, decode, walk

__all__ = ["MetadataRecord", "Proposal", "attempted_voters", "created_cluster", "decode_records"]

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
