"""What the edge reads from a publish before it sends it."""

import pytest

from goqueue.broker.cluster.command_shapes import only_target


@pytest.mark.parametrize(
    ("targets", "partitions", "only"),
    [
        (None, 1, 0),
        ([0, 0], 1, 0),
        ([-1, 0, -1], 1, None),
        # The partition that is named does not exist: it is refused, not stored in the first.
        ([9], 1, 9),
        ([0, 9], 1, None),
        (None, 3, None),
        ([-1, -1], 3, None),
        ([2, 2], 3, 2),
        ([2, 1], 3, None),
    ],
)
def test_a_batch_goes_to_one_partition_if_all_of_it_is_for_that(
    targets: list[int] | None, partitions: int, only: int | None
) -> None:
    assert only_target(targets, partitions) == only
