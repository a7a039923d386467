"""The one list of routes."""

from goqueue.gateways.http.acks import SETTLEMENT_ROUTES
from goqueue.gateways.http.acls import ACL_ROUTES
from goqueue.gateways.http.backups import BACKUP_ROUTES
from goqueue.gateways.http.cluster import CLUSTER_ROUTES
from goqueue.gateways.http.cooperative import COOPERATIVE_ROUTES
from goqueue.gateways.http.dead_letters import DEAD_LETTER_ROUTES
from goqueue.gateways.http.delayed import DELAY_ROUTES
from goqueue.gateways.http.groups import GROUP_ROUTES
from goqueue.gateways.http.health import SERVICE_ROUTES
from goqueue.gateways.http.keys import KEY_ROUTES
from goqueue.gateways.http.leases import LEASE_ROUTES
from goqueue.gateways.http.offsets import POSITION_ROUTES
from goqueue.gateways.http.priorities import PRIORITY_ROUTES
from goqueue.gateways.http.publish import PUBLISH_ROUTES
from goqueue.gateways.http.read import READ_ROUTES
from goqueue.gateways.http.reassignments import REASSIGNMENT_ROUTES
from goqueue.gateways.http.receives import RECEIVE_ROUTES
from goqueue.gateways.http.request_reply import REQUEST_ROUTES
from goqueue.gateways.http.schedules import SCHEDULE_ROUTES
from goqueue.gateways.http.schema_registry import REGISTRY_ROUTES
from goqueue.gateways.http.schemas import SCHEMA_ROUTES
from goqueue.gateways.http.tail import TAIL_ROUTES
from goqueue.gateways.http.tenants import TENANT_ROUTES
from goqueue.gateways.http.topics import TOPIC_ROUTES
from goqueue.gateways.http.traces import TRACE_ROUTES
from goqueue.gateways.http.transactions import TRANSACTION_ROUTES

__all__ = ["ROUTES"]

ROUTES = (
    *TOPIC_ROUTES,
    *PUBLISH_ROUTES,
    *READ_ROUTES,
    *TAIL_ROUTES,
    *RECEIVE_ROUTES,
    *SETTLEMENT_ROUTES,
    *DEAD_LETTER_ROUTES,
    *REQUEST_ROUTES,
    *DELAY_ROUTES,
    *GROUP_ROUTES,
    *COOPERATIVE_ROUTES,
    *POSITION_ROUTES,
    *LEASE_ROUTES,
    *SCHEDULE_ROUTES,
    *TRANSACTION_ROUTES,
    *PRIORITY_ROUTES,
    *TRACE_ROUTES,
    *SCHEMA_ROUTES,
    *REGISTRY_ROUTES,
    *BACKUP_ROUTES,
    *CLUSTER_ROUTES,
    *REASSIGNMENT_ROUTES,
    *KEY_ROUTES,
    *ACL_ROUTES,
    *TENANT_ROUTES,
    *SERVICE_ROUTES,
)
