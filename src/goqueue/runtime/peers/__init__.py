"""Links to the other brokers of a cluster: frames, handshake, dialling, the listener of port 7000.

`PeerConnections` is the whole of it for the server; docs/adr/0046-peer-links.md gives the reasons.
Everything that decides is without IO: `frames`, `handshake`, `upgrade`, `registry`.
"""

from goqueue.runtime.peers.connections import PeerConnections, PeerNetwork
from goqueue.runtime.peers.inbox import PeerInbox
from goqueue.runtime.peers.upgrade import Credentials

__all__ = ["Credentials", "PeerConnections", "PeerInbox", "PeerNetwork"]
