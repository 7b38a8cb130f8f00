import errno
import multiprocessing
import os
import pickle
import time
from contextlib import nullcontext

import numpy as np
import pytest

from bopl._errors import UsageError
from bopl.cluster import ArrayCache, CacheWarning, parse_bytes
from bopl.cluster.cache import LIMIT_VARIABLE, VARIABLE
from bopl.cluster.memory import in_words, memory_budget

ARRAYS = {
    "codes": np.arange(60, dtype=np.uint8).reshape(20, 3),
    "columns": np.asfortranarray(np.arange(12.0).reshape(4, 3)),
    "empty": np.zeros((0, 5), dtype=np.float32),
}


def never():
    raise AssertionError("the cache has these arrays")


def test_the_next_run_finds_the_same_arrays_whatever_was_written_to_them(tmp_path):
    ArrayCache(tmp_path).arrays("a-1", lambda: ARRAYS)
    found = ArrayCache(tmp_path).arrays("a-1", never)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
        found[name][:] = 1
        np.testing.assert_array_equal(ArrayCache(tmp_path).arrays("a-1", never)[name], array, strict=True)


def test_cached_arrays_are_pickled_by_name(tmp_path):
    found = ArrayCache(tmp_path).arrays("a", lambda: {"codes": np.zeros(100_000)})
    assert len(pickle.dumps(found)) < 1000
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found))["codes"], np.zeros(100_000))


@pytest.mark.parametrize(("begin", "end"), [(0, -1), (1, None), (0, 0), (0, 30)])
def test_a_damaged_entry_is_made_again(tmp_path, begin, end):
    cache = ArrayCache(tmp_path)
    cache.arrays("a", lambda: ARRAYS)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[begin:end])
    np.testing.assert_array_equal(cache.arrays("a", lambda: ARRAYS)["codes"], ARRAYS["codes"])
    cache.arrays("a", never)


@pytest.mark.parametrize("place", [20, 30, 200, 300, -9, -1])
def test_an_entry_with_another_byte_is_made_again(tmp_path, place):
    cache = ArrayCache(tmp_path)
    cache.arrays("a", lambda: ARRAYS)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    np.testing.assert_array_equal(cache.arrays("a", lambda: ARRAYS)["codes"], ARRAYS["codes"])
    cache.arrays("a", never)


def test_arrays_stay_readable_if_another_entry_takes_their_room_at_once(tmp_path):
    cache = ArrayCache(tmp_path, limit=1)
    first = cache.arrays("a", lambda: ARRAYS)
    cache.arrays("b", lambda: ARRAYS)
    assert [path.stem for path in tmp_path.iterdir()] == ["b"]
    np.testing.assert_array_equal(first["codes"], ARRAYS["codes"])


def test_arrays_whose_entry_another_process_removed_at_once_stay_in_memory(tmp_path, monkeypatch):
    write = ArrayCache._write
    monkeypatch.setattr(ArrayCache, "_write", lambda self, path, arrays: (write(self, path, arrays), path.unlink()))
    found = ArrayCache(tmp_path).arrays("a", lambda: ARRAYS)
    np.testing.assert_array_equal(found["codes"], ARRAYS["codes"])


def make_entry(folder, barrier):
    barrier.wait()
    ArrayCache(folder).arrays("a", lambda: ARRAYS)


def test_two_processes_may_make_the_same_entry_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    processes = [context.Process(target=make_entry, args=(tmp_path, barrier)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        process.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.arrays"]
    np.testing.assert_array_equal(ArrayCache(tmp_path).arrays("a", never)["codes"], ARRAYS["codes"])


def test_entries_that_were_used_longest_ago_go_when_the_limit_is_reached(tmp_path):
    cache = ArrayCache(tmp_path, limit="3kB")
    for idx, key in enumerate("abc"):
        cache.arrays(key, lambda: {"x": np.zeros(100)})
        os.utime(tmp_path / f"{key}.arrays", (idx, idx))
    cache.arrays("a", never)  # used just now
    cache.arrays("d", lambda: {"x": np.zeros(100)})
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["a", "c", "d"]
    assert cache.size <= cache.limit


def test_what_a_killed_process_left_goes_in_time_and_what_is_being_written_stays(tmp_path):
    left, new = (tmp_path / f".{name}.12345678.part.arrays" for name in "ab")
    left.write_bytes(bytes(2000))
    new.write_bytes(bytes(2000))
    old = time.time() - 48 * 3600
    os.utime(left, (old, old))
    ArrayCache(tmp_path, limit="3kB").arrays("c", lambda: {"x": np.zeros(100)})
    assert (left.exists(), new.exists()) == (False, True)


def test_clearing_removes_all_entries_and_arrays_in_use_stay_readable(tmp_path):
    cache = ArrayCache(tmp_path)
    found = cache.arrays("a", lambda: ARRAYS)
    codes = found["codes"]
    assert cache.clear() > 0
    assert (list(tmp_path.iterdir()), cache.size) == ([], 0)
    np.testing.assert_array_equal(codes, ARRAYS["codes"])


def test_on_a_full_disk_arrays_stay_in_memory_and_one_sentence_says_so(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bopl.cluster.cache.write_arrays", full)
    with pytest.warns(CacheWarning, match="the disk is full. They stay in memory"):
        found = ArrayCache(tmp_path).arrays("a", lambda: ARRAYS)
    np.testing.assert_array_equal(found["codes"], ARRAYS["codes"])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(CacheWarning, match=r"cannot be stored in the cache folder '.*file/arrays'"):
        ArrayCache(tmp_path / "file" / "arrays").arrays("a", lambda: ARRAYS)


def test_the_environment_names_folder_and_limit(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setenv(LIMIT_VARIABLE, "5 MB")
    assert (ArrayCache().folder, ArrayCache().limit) == (tmp_path, 5_000_000)


@pytest.mark.parametrize("has_temporary", [True, False])
def test_a_user_without_a_home_has_the_cache_among_temporary_files_or_none(tmp_path, monkeypatch, has_temporary):
    for name in (VARIABLE, "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as for a number that is no user's
    monkeypatch.setattr("bopl.cluster.cache.temporary_folder", lambda: str(tmp_path) if has_temporary else None)
    with nullcontext() if has_temporary else pytest.warns(CacheWarning, match="set BOPL_CACHE to another folder"):
        found = ArrayCache().arrays("a", lambda: ARRAYS)
    np.testing.assert_array_equal(found["codes"], ARRAYS["codes"])
    assert len([*tmp_path.rglob("a.arrays")]) == has_temporary


@pytest.mark.parametrize("key", ["", "../a", "a/b", "a.b"])
def test_a_key_that_is_no_name_is_refused(tmp_path, key):
    with pytest.raises(ValueError, match="letters, digits and dashes"):
        ArrayCache(tmp_path).arrays(key, never)


@pytest.mark.parametrize(
    ("written", "n_bytes"),
    [("4GB", 4 * 10**9), ("1.5 GiB", 3 << 29), ("512m", 512 * 10**6), ("100", 100), (100, 100), ("2 TB", 2 * 10**12)],
)
def test_sizes_as_people_write_them(written, n_bytes):
    assert parse_bytes(written) == n_bytes


@pytest.mark.parametrize("written", ["", "GB", "-4GB", "4 XB", "0", True, None, [4]])
def test_sizes_that_nobody_can_mean(written):
    with pytest.raises(UsageError, match="a size must be"):
        parse_bytes(written)


def test_without_a_budget_half_of_the_free_memory_is_taken(monkeypatch):
    monkeypatch.setattr("bopl.cluster.memory.available_memory", lambda: 8 * 10**9)
    assert (memory_budget(None), memory_budget("1GB")) == (4 * 10**9, 10**9)
    assert in_words(memory_budget(None)) == "4.0 GB"
