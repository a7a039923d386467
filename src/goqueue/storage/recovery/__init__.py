"""What an opening tells of a log it found, and what the first change of that log stands on."""

from goqueue.storage.recovery.cuts import keep_cut
from goqueue.storage.recovery.footing import Footing, Ground
from goqueue.storage.recovery.report import Cut, RecoveryReport

__all__ = ["Cut", "Footing", "Ground", "RecoveryReport", "keep_cut"]
