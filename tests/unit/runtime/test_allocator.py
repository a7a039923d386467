"""Memory that was freed is used again, and not fetched from the kernel anew."""

import subprocess
import sys

import pytest

from goqueue.runtime import keep_freed_memory

ROUNDS = 100
# Several buffers of a large answer at a time; the pages that the kernel had to clear for them.
PROGRAM = """
import resource
from goqueue.runtime import keep_freed_memory
keep_freed_memory()
for number in range(101):
    if number == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = [bytearray(1 << 20) for _ in range(5)]
    held.clear()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not keep_freed_memory(), reason="the C library keeps memory its own way")
def test_buffers_of_large_answers_cost_no_new_pages() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    # Each round needs 1280 pages.
    assert int(ran.stdout) < ROUNDS * 64
