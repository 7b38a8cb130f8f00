import numpy as np
import pytest

from bopl.cluster import Cluster, ThisMachine
from cluster.work import (
    build,
    count,
    fail_halfway,
    first_value,
    multiply,
    numbers,
    plain_story,
    story,
)


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_verbs_equal_a_plain_loop_for_any_number_of_threads(n_threads):
    with ThisMachine(n_threads=n_threads) as cluster, cluster.place(numbers(), build) as placement:
        assert story(placement) == plain_story()


def test_a_state_that_is_lost_is_made_again_from_what_is_settled_and_what_is_not():
    with ThisMachine(n_threads=2) as cluster, cluster.place(numbers(), build) as placement:
        placement.update(multiply, 3)
        placement.settle(3)
        placement.update(multiply, 5)
        expected = placement.gather(first_value)
        cluster.forget(placement.id)
        assert placement.gather(first_value) == expected
        assert placement.traffic.n_built == 2 * len(numbers())


def test_a_function_that_fails_halfway_ends_the_placement_with_its_error():
    with ThisMachine() as cluster, cluster.place(numbers(), build) as placement:
        with pytest.raises(OSError, match="the third file is gone"):
            placement.update(fail_halfway, 2)
        with pytest.raises(RuntimeError, match="closed; place them again"):
            placement.reduce(count, 8)


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_a_stream_yields_what_is_gathered_some_at_a_time_and_makes_missing_states(at_once, monkeypatch):
    monkeypatch.setattr("bopl.cluster.placement.STREAMED", at_once)
    with ThisMachine(n_threads=2) as cluster, cluster.place(numbers(), build) as placement:
        first = list(placement.stream(first_value))  # nothing is built yet
        assert first == placement.gather(first_value)
        placement.update(multiply, 3)
        expected = placement.gather(first_value)
        cluster.forget(placement.id)
        assert list(placement.stream(first_value)) == expected != first


def test_no_pieces_add_up_to_nothing():
    with ThisMachine() as cluster, cluster.place([], build) as placement:
        assert placement.reduce(count, 8) is None
        assert placement.gather(first_value) == []
        assert list(placement.stream(first_value)) == []


def test_two_placements_keep_their_states_apart():
    cluster = ThisMachine(n_threads=2)
    with cluster, cluster.place(numbers(), build) as one, cluster.place(numbers(), build) as other:
        one.update(multiply, 3)
        assert story(other) == plain_story()


def test_rounds_of_a_checkpoint_may_be_settled_from_the_start():
    with ThisMachine() as cluster:
        with cluster.place(numbers(), build) as placement:
            placement.update(multiply, 3)
            expected = placement.gather(first_value)
        with cluster.place(numbers(), build, settled=[3]) as placement:
            assert placement.gather(first_value) == expected


def test_partial_sums_of_floats_are_refused():
    cluster, floats = ThisMachine(n_threads=1), pytest.raises(TypeError, match="must be integers, not float64")
    with cluster, cluster.place(numbers(), build) as placement, floats:
        placement.reduce(mean)


def mean(state):
    return np.asarray(state["values"].mean())


def test_traffic_counts_passes_bytes_and_states():
    with ThisMachine(n_threads=1) as cluster, cluster.place(numbers(), build) as placement:
        placement.reduce(count, 8)
        before = placement.traffic.copy()
        placement.reduce(count, 8)
        since = placement.traffic - before
        assert (since.n_passes, since.n_tasks, since.n_sent, since.n_built) == (1, 1, 0, 0)
        assert 64 < since.n_bytes < 264  # eight integers, and what says so
        assert 0 <= since.waiting_share <= 1


def test_both_are_clusters():
    assert isinstance(ThisMachine(), Cluster)
