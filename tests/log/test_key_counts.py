import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bopl.log.key_counts import KeyCounts

KEYS = st.lists(st.sampled_from([0, 1, 7, 1 << 63, (1 << 64) - 1]) | st.integers(0, (1 << 64) - 1), max_size=30)


@given(st.lists(KEYS, max_size=4), st.integers(0, (1 << 64) - 1))
def test_parts_and_ranges_count_like_the_whole(parts, middle):
    keys = [np.array(part, np.uint64) for part in parts]
    whole = KeyCounts.of(np.concatenate([np.zeros(0, np.uint64), *keys]))
    joined = KeyCounts.join([KeyCounts.of(part) for part in keys])
    ranges = (
        [joined.between(0, middle), joined.between(middle + 1, (1 << 64) - 1)] if middle < (1 << 64) - 1 else [joined]
    )
    for name in ("distinct", "count"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
        np.testing.assert_array_equal(np.concatenate([getattr(one, name) for one in ranges]), getattr(whole, name))
    assert sum(one.n_rows for one in ranges) == sum(map(len, parts))
    assert whole.n_repeated == sum(whole.count[whole.distinct == key].sum() for key in whole.repeated)
