"""The metrics of a whole process: one collector, the lag of the loop, the process itself."""

from goqueue.runtime.metering.loop_lag import LoopLag
from goqueue.runtime.metering.process import process_families
from goqueue.runtime.metering.scraping import Scraping
from goqueue.runtime.metering.shell import shell_families, volume_families

__all__ = ["LoopLag", "Scraping", "process_families", "shell_families", "volume_families"]
