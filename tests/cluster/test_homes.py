from hypothesis import given
from hypothesis import strategies as st

from bopl.cluster.homes import Homes

ROWS = st.lists(st.integers(0, 1000), min_size=1, max_size=30)
THREADS = st.dictionaries(st.sampled_from("abcde"), st.integers(1, 3), min_size=1)


def shared_out(rows, threads):
    homes = Homes(dict(enumerate(rows)))
    homes.share_out(range(len(rows)), threads)
    return homes


def loads(homes, threads):
    slots = [(address, thread) for address, n_threads in threads.items() for thread in range(n_threads)]
    return {slot: sum(homes.rows[one] for one, home in homes.slot_of.items() if home == slot) for slot in slots}


@given(ROWS, THREADS)
def test_every_piece_has_one_slot_and_no_slot_exceeds_another_by_more_than_a_piece(rows, threads):
    homes = shared_out(rows, threads)
    by_slot = homes.by_slot(range(len(rows)))
    assert sorted(one for pieces in by_slot.values() for one in pieces) == list(range(len(rows)))
    load = loads(homes, threads)
    assert max(load.values()) - min(load.values()) <= max(rows)


@given(ROWS, THREADS)
def test_pieces_of_a_dead_worker_go_to_those_that_are_left(rows, threads):
    homes = shared_out(rows, {**threads, "z": 2})
    lost = [one for (address, _), pieces in homes.by_slot(range(len(rows))).items() if address == "z" for one in pieces]
    kept = {one: slot for one, slot in homes.slot_of.items() if one not in lost}
    homes.share_out(lost, threads)
    assert {address for address, _ in homes.by_slot(range(len(rows)))} <= set(threads)
    assert kept.items() <= homes.slot_of.items()


@given(ROWS, THREADS)
def test_a_worker_that_joins_takes_pieces_and_nobody_gets_more_than_before(rows, threads):
    homes = shared_out(rows, threads)
    before, most = dict(homes.slot_of), max(loads(homes, threads).values())
    homes.rebalance({**threads, "z": 1})
    after = loads(homes, {**threads, "z": 1})
    assert max(after.values()) <= most
    moved = {one for one, slot in homes.slot_of.items() if slot != before[one]}
    assert all(homes.slot_of[one][0] == "z" for one in moved)
    assert moved == {one for pieces in homes.moved.values() for one in pieces}


def test_where_all_have_work_nothing_moves():
    homes = shared_out([5, 5, 5, 5], {"a": 1, "b": 1})
    before = dict(homes.slot_of)
    homes.rebalance({"a": 1, "b": 1})
    assert (homes.slot_of, homes.moved) == (before, {})


def test_a_piece_that_another_thread_of_its_worker_takes_stays_on_the_worker():
    homes = Homes({0: 5, 1: 5}, {0: ("a", 0), 1: ("a", 0)})
    homes.rebalance({"a": 2})
    assert set(homes.slot_of.values()) == {("a", 0), ("a", 1)}
    assert homes.moved == {}
