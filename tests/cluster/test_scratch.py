import errno
import os

import numpy as np
import pyarrow as pa
import pytest

from bopl.cluster import ArrayCache, ThisMachine
from bopl.cluster.cache import find_in_files
from bopl.cluster.order import Change, Order
from bopl.cluster.scratch import Scratch, state_bytes
from cluster.work import Numbers, build, count, multiply, numbers, plain_story, story

LARGE = 10_000  # numbers: more than a page


def large_state(seed=0):
    rng = np.random.default_rng(seed)
    return {"score": rng.normal(size=(LARGE, 3)), "code": rng.integers(0, 9, LARGE).astype(np.uint8), "name": "a"}


def assert_equal(one, other):
    assert list(one) == list(other)
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name])


def test_a_parked_state_comes_back_and_is_changed_in_place(tmp_path):
    scratch = Scratch(tmp_path)
    parked = scratch.park(large_state())
    opened = scratch.open(parked)
    assert_equal(opened.state, large_state())
    opened.state["score"] += 1
    again = scratch.park(opened.state, opened)
    assert (again.extents, again.head) == (parked.extents, parked.head)
    np.testing.assert_array_equal(scratch.open(again).state["score"], large_state()["score"] + 1)
    del opened
    scratch.close()


def test_only_a_new_array_is_written_and_the_room_of_the_old_one_is_used_again(tmp_path):
    scratch = Scratch(tmp_path)
    parked = scratch.park(large_state())
    sizes = []
    for round_idx in range(4):
        opened = scratch.open(parked)
        opened.state["score"] = opened.state["score"] + 1
        before, parked = parked, scratch.park(opened.state, opened)
        assert before.extents[1] == parked.extents[1]
        assert before.extents[0] != parked.extents[0]
        np.testing.assert_array_equal(scratch.open(parked).state["score"][0], large_state()["score"][0] + round_idx + 1)
        sizes.append(scratch.size)
    assert len(set(sizes)) == 1
    del opened
    scratch.close()


def test_an_array_that_a_state_holds_twice_is_safe(tmp_path):
    scratch = Scratch(tmp_path)
    parked = scratch.park({"a": np.zeros(LARGE)})
    opened = scratch.open(parked)
    opened.state["b"] = opened.state["a"]
    both = scratch.open(scratch.park(opened.state, opened)).state
    np.testing.assert_array_equal(both["a"], both["b"])


def test_the_file_has_no_name(tmp_path):
    scratch = Scratch(tmp_path)
    scratch.park(large_state())
    assert list(tmp_path.iterdir()) == []
    scratch.close()


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    scratch = Scratch(tmp_path)
    with pytest.raises(OSError, match=r"do not fit into the memory budget, and 242 kB .* the disk is full. Free some"):
        scratch.park(large_state())
    scratch.close()


def test_a_state_takes_the_bytes_of_its_arrays_but_not_of_cached_ones(tmp_path):
    state = {"score": np.zeros(LARGE), "cached": ArrayCache(tmp_path).arrays("a", lambda: {"x": np.zeros(9 * LARGE)})}
    assert 8 * LARGE <= state_bytes(state) < 9 * LARGE


def test_views_count_once_and_memory_of_other_libraries_counts():
    score = np.zeros((LARGE, 2))
    assert state_bytes({"score": score, "by_action": score.T, "first": score[:, 0]}) == score.nbytes
    lent = pa.array(np.arange(LARGE, dtype=np.float64)).to_numpy(zero_copy_only=True)
    assert state_bytes({"lent": lent, "bytes": np.frombuffer(bytearray(100), np.uint8)}) == lent.nbytes + 100


def with_codes(piece, settled, cache):
    state = build(piece, settled, cache)
    codes = cache.arrays(f"codes-{piece.seed}", lambda: {"codes": np.arange(LARGE), "edges": np.arange(9.0)})
    return state | {"codes": codes["codes"], "edges": codes["edges"]}


def last_code(state):
    return int(state["codes"][-1])


def test_cached_arrays_of_a_state_are_neither_copied_nor_counted(tmp_path):
    codes = ArrayCache(tmp_path).arrays("a", lambda: {"x": np.zeros(9 * LARGE), "y": np.ones(LARGE)})
    state = {"score": np.zeros(LARGE), "codes": codes["x"], "part": codes["y"][5:]}
    assert 8 * LARGE <= state_bytes(state) < 9 * LARGE
    scratch = Scratch(tmp_path)
    opened = scratch.open(scratch.park(state))
    assert scratch.size < 9 * LARGE
    assert_equal(opened.state, state)
    again = scratch.park(opened.state, opened)
    assert_equal(scratch.open(again).state, state)
    assert scratch.size < 9 * LARGE


def test_a_state_whose_cached_arrays_are_gone_is_made_again(tmp_path):
    with ThisMachine(1, cache=tmp_path, n_threads=2) as cluster, cluster.place(numbers(3), with_codes) as placement:
        placement.update(multiply, 3)
        expected = placement.reduce(count, 8).tolist()
        assert ArrayCache(tmp_path).clear() > 0
        assert placement.gather(last_code) == 3 * [LARGE - 1]
        assert placement.reduce(count, 8).tolist() == expected
        assert placement.traffic.n_built == 6


def with_mapping(piece, settled, cache):
    return build(piece, settled, cache) | {
        "stored": cache.arrays(f"b{piece.seed}", lambda: {"codes": np.arange(LARGE)})
    }


def last_stored(state):
    return int(state["stored"]["codes"][-1])


def test_states_that_hold_an_entry_that_is_gone_are_made_again_in_the_room_that_they_had(tmp_path):
    with ThisMachine(1, cache=tmp_path, n_threads=1) as cluster, cluster.place(numbers(3), with_mapping) as placement:
        placement.update(multiply, 3)
        (size,) = (placed.scratch.size for placed in cluster.shelf._placed.values())
        assert ArrayCache(tmp_path).clear() > 0
        assert placement.gather(last_stored) == 3 * [LARGE - 1]
        assert placement.traffic.n_built == 6
        assert [placed.scratch.size for placed in cluster.shelf._placed.values()] == [size]


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("memory", [1, "8GB"])
def test_a_budget_changes_where_states_are_and_no_result(tmp_path, memory, n_threads):
    pieces = [Numbers(seed, LARGE + seed) for seed in range(4)]
    with ThisMachine(memory, n_threads=n_threads, cache=tmp_path) as cluster:
        with cluster.place(pieces, build) as placement:
            assert story(placement) == plain_story(pieces=pieces)
            assert cluster.shelf.count(placement.id) == ((0, 4) if memory == 1 else (4, 0))
        assert cluster.shelf.count(placement.id) == (0, 0)
    assert list(tmp_path.iterdir()) == []


def test_states_that_were_cut_off_are_missing(tmp_path):
    cluster = ThisMachine(cache=tmp_path)
    order = Order("p", 0, (0,), Change(multiply, (2,)), None)
    assert cluster.carry_out(order).missing == (0,)


def test_states_at_another_version_are_missing(tmp_path):
    with ThisMachine(cache=tmp_path) as cluster, cluster.place(numbers(1), build) as placement:
        placement.update(multiply, 3)
        order = Order(placement.id, 0, (0,), Change(multiply, (3,)), None)
        assert cluster.carry_out(order).missing == (0,)


def is_mapped(address):
    """Return whether memory of this process begins at or before an address and ends after it."""
    with open("/proc/self/maps") as lines:
        ranges = [[int(end, 16) for end in line.split()[0].split("-")] for line in lines]
    return any(begin <= address < end for begin, end in ranges)


needs_maps = pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="the system does not list its maps")


@needs_maps
def test_a_file_is_forgotten_before_other_arrays_can_have_its_addresses(tmp_path, monkeypatch):
    """Or such an array would be taken for a part of the file, and the file's contents for the array's."""
    forgotten = []

    class Watched(dict):
        def pop(self, address, *default):
            forgotten.append(is_mapped(address))
            return super().pop(address, *default)

    watched = Watched()
    monkeypatch.setattr("bopl.cluster.cache._MAPS", watched)
    arrays = ArrayCache(tmp_path).arrays("one", lambda: {"a": np.arange(1 << 16)})
    part = memoryview(arrays["a"])[10:]
    assert find_in_files(part)[0].startswith(str(tmp_path))
    del arrays
    assert len(watched) == 1  # as long as an array needs it
    del part
    assert (forgotten, watched) == ([True], {})


@needs_maps
def test_an_array_that_replaces_another_cannot_have_its_address(tmp_path):
    """Or its contents would not be written: those at this address were in the file already."""
    scratch = Scratch(tmp_path)
    parked = scratch.park({"old": np.arange(1 << 16)})
    opened = scratch.open(parked)
    address = opened.state["old"].ctypes.data
    opened.state["old"] = None
    assert is_mapped(address)
    opened.state["new"] = np.ones(1 << 16)
    assert opened.state["new"].ctypes.data != address
    again = scratch.open(scratch.park(opened.state, opened)).state
    assert again["old"] is None
    assert (again["new"] == 1.0).all()
    del opened
    assert not is_mapped(address)
