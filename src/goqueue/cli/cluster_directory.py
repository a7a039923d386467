"""What `goqueue cluster convert` does: the data directory of a stopped node, without a server."""

import msgspec
import uvloop

from goqueue.cli.errors import Failure
from goqueue.cli.output import Reply
from goqueue.runtime import (
    ConvertedDirectory,
    DataDirectoryUnusable,
    NodeHalted,
    NotConvertible,
    convert_directory,
)

__all__ = ["convert"]


def convert(data_dir: str, node: str, others: tuple[str, ...]) -> Reply[ConvertedDirectory]:
    """Make a data directory that of the first node of a cluster."""
    try:
        done = uvloop.run(convert_directory(data_dir, node, others))
    except NotConvertible as refusal:
        sentence = f"{data_dir} cannot be converted, and nothing was changed: {refusal}"
        raise Failure(sentence, code="not_convertible") from refusal
    except (DataDirectoryUnusable, NodeHalted) as error:
        raise Failure(str(error), code="data_directory") from error
    except OSError as error:
        reason = error.strerror or str(error)
        sentence = f"{data_dir} could not be converted: {reason}; run the command again"
        raise Failure(sentence, code="data_directory") from error
    return Reply(done, msgspec.json.encode(done))
