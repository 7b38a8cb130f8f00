import numpy as np
import pytest
from scipy.sparse import csr_array

from bopl.log import identical
from bopl.log.identical import column_keys, context_keys, group_identical_contexts, keys_without


def same_partition(left, right):
    return (
        len(set(zip(left.tolist(), right.tolist(), strict=True))) == len(set(left.tolist())) == len(set(right.tolist()))
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sparse", [False, True])
def test_groups_are_those_of_a_plain_comparison(seed, sparse):
    context = np.random.default_rng(seed).integers(-1, 2, size=(80, 3)).astype(np.float32)
    _, expected = np.unique(context, axis=0, return_inverse=True)
    found = group_identical_contexts(csr_array(context) if sparse else context)
    assert same_partition(found, expected.reshape(-1))


def test_missing_values_and_signed_zeros_equal_each_other():
    context = np.array([[np.nan, 0.0], [np.nan, -0.0], [0.0, np.nan]], dtype=np.float32)
    group = group_identical_contexts(context)
    assert group[0] == group[1] != group[2]


def test_column_order_counts():
    group = group_identical_contexts(np.array([[1.0, 2.0], [2.0, 1.0]], dtype=np.float32))
    assert group[0] != group[1]


def test_colliding_hashes_are_resolved_by_the_rows_themselves(monkeypatch):
    monkeypatch.setattr("bopl.log.identical._hash_dense_rows", lambda context: np.zeros(len(context), dtype=np.uint64))
    context = np.array([[1.0], [2.0], [1.0]], dtype=np.float32)
    group = group_identical_contexts(context)
    assert group[0] == group[2] != group[1]


def test_compiled_hashes_are_those_of_numpy(monkeypatch):
    rng = np.random.default_rng(0)
    context = rng.normal(size=(500, 9)).round(1).astype(np.float32)
    context[rng.random(context.shape) < 0.2] = np.nan
    context[rng.random(context.shape) < 0.2] = -0.0
    context[:4, 0] = np.inf, -np.inf, 1e-42, np.array(0xFFC00001, np.uint32).view(np.float32)  # the last is a NaN

    def all_keys():
        total = column_keys(context, range(9))
        return context_keys(context), total, column_keys(context, [7, 2]), keys_without(context, range(4, 6), total)

    expected = all_keys()
    monkeypatch.setattr(identical, "MIN_COMPILED", 0)
    for found, key in zip(all_keys(), expected, strict=True):
        np.testing.assert_array_equal(found, key)
