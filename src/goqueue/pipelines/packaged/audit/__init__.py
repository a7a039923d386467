"""Loss, duplicates and order: of a whole topic, of its copy, or of rows that are counted off."""

from goqueue.pipelines.packaged.audit.copies import (
    CopyFindings,
    Difference,
    audit_copy,
    compare_rows,
)
from goqueue.pipelines.packaged.audit.findings import (
    Counting,
    Findings,
    Gap,
    Place,
    ProducerFindings,
)
from goqueue.pipelines.packaged.audit.options import AuditOptions, CopyOptions
from goqueue.pipelines.packaged.audit.running import audit, audit_rows

__all__ = [
    "AuditOptions",
    "CopyFindings",
    "CopyOptions",
    "Counting",
    "Difference",
    "Findings",
    "Gap",
    "Place",
    "ProducerFindings",
    "audit",
    "audit_copy",
    "audit_rows",
    "compare_rows",
]
