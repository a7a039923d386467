"""The positions of a pipeline shown as a group of the broker, so that its lag is seen there.

Never an authority: the checkpoint decides what is read next. A broker that cannot be told is told
after the next batch.
"""

import logging
from collections.abc import Mapping

from goqueue.client import GoQueueError, connect_sync
from goqueue.client.transport import Retries
from goqueue.pipelines.progress import BatchProgress

__all__ = ["GroupMirror"]

_LOG = logging.getLogger(__name__)
_PATIENCE_S = 5.0


class GroupMirror:
    """Moves a group to where a pipeline is."""

    def __init__(self, group: str, server: str, api_key: str | None) -> None:
        self._group = group
        # No second attempts: it runs where Spark waits, and the next batch says more.
        self._broker = connect_sync(
            server,
            api_key=api_key,
            timeout_s=_PATIENCE_S,
            retries=Retries(attempts_max=1),
            client_id="pipeline",
        )

    def show(self, progress: BatchProgress) -> None:
        offsets: dict[str, dict[int, int]] = {}
        for each in progress.partitions:
            offsets.setdefault(each.topic, {})[each.partition] = each.offset
        self._commit(offsets)

    def close(self) -> None:
        self._broker.close()

    def _commit(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        if not offsets:
            return
        try:
            self._broker.groups.commit(self._group, offsets)
        except GoQueueError as error:
            _LOG.warning("group %s is not told how far the pipeline is: %s", self._group, error)
