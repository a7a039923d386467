"""Publishes the positions of a pipeline as those of a consumer group, to make its lag visible.

Never an authority: the checkpoint decides what is read next. A failed commit is made up for after
the next batch.
"""

import logging
from collections.abc import Mapping

from goqueue.client import GoQueueError, connect_sync
from goqueue.client.retries import Retries
from goqueue.pipelines.progress import BatchProgress

__all__ = ["GroupMirror"]

_LOG = logging.getLogger(__name__)
_PATIENCE_S = 5.0


class GroupMirror:
    """Moves a group to where a pipeline is."""

    def __init__(self, group: str, options: Mapping[str, str]) -> None:
        """`options` are those of the connector, which say where the broker is."""
        self._group = group
        self._is_told = True
        server = options["goqueue.servers"].split(",")[0].strip()
        # No second attempts: it runs where Spark waits, and the next batch says more.
        self._broker = connect_sync(
            server if "://" in server else f"http://{server}",
            api_key_file=options.get("goqueue.tokenFile"),
            ca_file=options.get("goqueue.tls.caFile"),
            client_cert=options.get("goqueue.tls.certFile"),
            client_key=options.get("goqueue.tls.keyFile"),
            allow_plaintext=options.get("goqueue.allowPlaintext", "").lower() == "true",
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
            # Said once: it may be so with every batch, and the pipeline is none the worse.
            if self._is_told:
                _LOG.warning("group %s does not follow this pipeline: %s", self._group, error)
            self._is_told = False
        else:
            self._is_told = True
