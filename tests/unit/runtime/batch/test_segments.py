import numpy as np
import pytest

from heterps.runtime.batch.segments import Segments


@pytest.mark.parametrize("owners", [1, 2, 3, 7])
@pytest.mark.parametrize("bucket_bytes", [1, 40, 10_000])
@pytest.mark.parametrize("size", [1, 2, 100])
def test_every_number_has_one_owner_whatever_the_buckets(size, owners, bucket_bytes):
    segments, seen = Segments(size, owners, bucket_bytes), np.zeros(size, int)
    for part in segments.parts:
        for span in part.spans:
            seen[span] += 1
    assert (seen == 1).all()
    shares = [segments.share(bucket, owner) for bucket in segments.buckets for owner in range(owners)]
    assert sum(share.stop - share.start for share in shares) == size


def test_the_last_layers_come_first():
    assert Segments(10, 2, 16).buckets == [slice(6, 10), slice(2, 6), slice(0, 2)]
