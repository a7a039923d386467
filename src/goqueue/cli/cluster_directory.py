"""What `goqueue cluster convert` and `recover` do: the directory of a stopped node, no server."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import uvloop

from goqueue.cli.errors import Failure
from goqueue.cli.output import Reply
from goqueue.model import Refused
from goqueue.runtime import (
    ConvertedDirectory,
    DataDirectoryUnusable,
    NodeHalted,
    NotConvertible,
    NotRecoverable,
    convert_directory,
    follow_cluster,
    plan_recovery,
    recover_cluster,
)

__all__ = ["Recovered", "convert", "follow", "losses", "recover"]

_NAMED_MAX = 20


def convert(data_dir: str, node: str, others: tuple[str, ...]) -> Reply[ConvertedDirectory]:
    """Make a data directory that of the first node of a cluster."""
    with _failures(data_dir):
        done = uvloop.run(convert_directory(data_dir, node, others))
    return Reply(done, msgspec.json.encode(done))


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that a node belongs to now."""

    cluster_id: str


def losses(data_dir: str) -> list[str]:
    """What may be lost by a recovery on this node, in sentences for the operator."""
    with _failures(data_dir):
        plan = plan_recovery(data_dir)
    if plan is None:
        return ["A recovery was cut short here, and only has to be completed."]
    voters = ", ".join(plan.lost_voters)
    alone = (
        f"{plan.node} becomes the only voter, without {voters}: they must be lost for good, or "
        "emptied before they start again."
    )
    metadata = (
        f"Of the metadata this node has version {plan.version}, {plan.committed} of it known to "
        "be committed. Topics, keys and leaders that were changed later are lost."
    )
    here = f"Of {plan.topics} topics {plan.in_sync} partitions are in sync here."
    told = [alone, metadata, here]
    if plan.elsewhere:
        told.append(f"In sync on other nodes, which must follow: {_names(plan.elsewhere)}.")
    if plan.without_copy_in_sync:
        named = _names(plan.without_copy_in_sync)
        told.append(
            f"In sync on lost voters only: {named}. They have no leader until you elect one that "
            "may lack messages (goqueue cluster elect --unclean)."
        )
    return told


def _names(partitions: tuple[str, ...]) -> str:
    more = len(partitions) - _NAMED_MAX
    shown = ", ".join(partitions[:_NAMED_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def recover(data_dir: str) -> Reply[Recovered]:
    """Let this node continue its cluster as the only voter."""
    with _failures(data_dir):
        done = Recovered(cluster_id=recover_cluster(data_dir))
    return Reply(done, msgspec.json.encode(done))


def follow(data_dir: str, cluster_id: str) -> Reply[Recovered]:
    """Let this node follow the cluster that was recovered on another one."""
    with _failures(data_dir):
        follow_cluster(data_dir, cluster_id)
    done = Recovered(cluster_id=cluster_id)
    return Reply(done, msgspec.json.encode(done))


@contextmanager
def _failures(data_dir: str) -> Iterator[None]:
    try:
        yield
    except NotConvertible as refusal:
        sentence = f"{data_dir} cannot be converted, and nothing was changed: {refusal}"
        raise Failure(sentence, code="not_convertible") from refusal
    except NotRecoverable as refusal:
        sentence = f"{data_dir} cannot be recovered, and nothing was changed: {refusal}"
        raise Failure(sentence, code="not_recoverable") from refusal
    except (DataDirectoryUnusable, NodeHalted, Refused) as error:
        raise Failure(str(error), code="data_directory") from error
    except OSError as error:
        reason = error.strerror or str(error)
        sentence = f"the files of {data_dir} cannot be used: {reason}; run the command again"
        raise Failure(sentence, code="data_directory") from error
