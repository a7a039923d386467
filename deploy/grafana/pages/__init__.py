"""The dashboards: which questions they answer, and the queries that do.

Every query is asked of a real Prometheus in the tests, and has an answer there: no panel stays
empty on a node that works.
"""

from deploy.grafana.pages.cluster import CLUSTER
from deploy.grafana.pages.delays import DELAYS
from deploy.grafana.pages.groups import GROUPS
from deploy.grafana.pages.letters import LETTERS
from deploy.grafana.pages.overview import OVERVIEW
from deploy.grafana.pages.storage import STORAGE

__all__ = ["CLUSTER", "DELAYS", "GROUPS", "LETTERS", "OVERVIEW", "STORAGE"]
