"""The links of a node as its settings want them: addresses, proofs, certificates.

Owns the TLS of links beside `PeerConnections`; the node itself learns only addresses.
"""

import secrets
import ssl
from collections.abc import Callable
from contextlib import suppress
from random import SystemRandom

import goqueue
from goqueue.broker import ClusterConfig
from goqueue.cluster import BrokerAddresses
from goqueue.gateways import Endpoint, GatewayPort
from goqueue.gateways.http import PEER_ROUTES, HttpApi, http_listener
from goqueue.model.requests import derived_secret
from goqueue.runtime.event_log import EventLog
from goqueue.runtime.peers import Credentials, PeerConnections, PeerNetwork
from goqueue.runtime.secret_files import SecretFileUnusable, read_secret_file
from goqueue.runtime.settings import (
    SECRETS_MAX,
    ClusterSettings,
    Settings,
    TlsSettings,
    secret_problem,
    split_secret,
)
from goqueue.runtime.tls import TlsListeners, TlsUnusable, build_client_context

__all__ = ["cluster_config", "cluster_tls", "peer_connections", "reload_secrets", "sealing_secret"]


def cluster_config(settings: Settings, directory: str, *, is_clean: bool) -> ClusterConfig:
    """What the node is told of its place in the cluster.

    `is_clean`: the last run on this data directory stopped cleanly.
    """
    cluster, listeners = settings.cluster, settings.listeners
    http = str(listeners.http) if listeners.http is not None else ""
    return ClusterConfig(
        directory=directory,
        addresses=BrokerAddresses(
            peers=cluster.advertise or str(listeners.internal),
            http=cluster.client_advertise or http,
        ),
        peers=cluster.peers,
        quorum=cluster.quorum or None,
        seed=secrets.randbits(62),
        catch_up_bytes_per_second=cluster.catch_up_bytes_per_sec or None,
        release=goqueue.__version__,
        is_clean=is_clean,
        store_prefix=None if cluster.etcd is None else cluster.etcd.prefix,
    )


def sealing_secret(settings: Settings, own: bytes) -> bytes:
    """What seals verifiers of keys: in a cluster with a secret all nodes can open them.

    A cluster whose nodes prove themselves by certificates alone shares no secret: there a verifier
    that is sealed is of use to the node that made it.
    """
    cluster = settings.cluster
    if not cluster.is_enabled or not cluster.secrets:
        return own
    return derived_secret(cluster.secrets[0].reveal().encode(), "sigv4")


def cluster_tls(settings: Settings, log: EventLog) -> TlsListeners | None:
    """The certificates of links; raises TlsUnusable."""
    tls = settings.cluster.tls
    return TlsListeners(tls, log) if tls.is_enabled else None


def peer_connections(
    settings: Settings, tls: TlsListeners | None, log: EventLog, port: GatewayPort
) -> PeerConnections:
    """The links of a node; raises TlsUnusable."""
    cluster, listener = settings.cluster, settings.listeners.internal
    assert listener is not None
    server_tls = None if tls is None else tls.context_of("internal", ("http/1.1",))
    client_tls = None if server_tls is None else _ClientTls(cluster.tls, server_tls)
    network = PeerNetwork(
        endpoint=Endpoint(listener.host, listener.port, server_tls),
        peers=cluster.peers,
        credentials=Credentials(
            *cluster.secrets, accepts_certificates=cluster.accepts_certificates
        ),
        client_tls=client_tls,
        # Never opened: links hand it connections that have proved to be of the cluster.
        reports=http_listener(
            HttpApi(port.broker, port.facts, routes=PEER_ROUTES),
            Endpoint(listener.host, 0),
            capacity=port.capacity,
        ),
    )
    return PeerConnections(network, log, SystemRandom())


def reload_secrets(settings: ClusterSettings, peers: PeerConnections, log: EventLog) -> None:
    """Read the file of the cluster's secret again: a small one, because somebody asked for it."""
    path = settings.secret_file
    if not path:
        return
    try:
        found = split_secret(read_secret_file(path, SECRETS_MAX))
        problem = secret_problem(found)
    except SecretFileUnusable as unusable:
        found, problem = (), str(unusable)
    if problem is not None:
        log("cluster_secret_reload_failed", file=path, reason=problem)
        return
    peers.replace_secrets(found)
    log("cluster_secret_reloaded", file=path, accepted=len(found))


class _ClientTls:
    """The context for dialling: built again when that of the listener was replaced."""

    def __init__(self, settings: TlsSettings, current: Callable[[], ssl.SSLContext]) -> None:
        self._settings = settings
        self._current = current
        self._seen = current()
        self._context = build_client_context(settings)

    def __call__(self) -> ssl.SSLContext:
        current = self._current()
        if current is not self._seen:
            # The files were rehearsed by the thread that replaced it; if they have changed again
            # meanwhile, it replaces it again.
            self._seen = current
            with suppress(TlsUnusable):
                self._context = build_client_context(self._settings)
        return self._context
