"""A short run of the fuzzers; ``make fuzz`` makes the long one."""

import numpy as np
import pytest

import bopl
from fuzz.run import BAD, fuzz
from fuzz.targets import FOREIGN, NOT_FINITE, NotFiniteError, Target, is_ours, outcome_of


@pytest.mark.slow
def test_two_thousand_spoiled_files_are_refused_or_used_without_a_fault():
    tally = fuzz(2000, seed=1, n_jobs=2)
    assert tally.n_bad == 0, "\n".join(tally.faults)
    assert all(count["refused"] > 0 for count in tally.counts.values())


def test_two_hundred_spoiled_files_are_refused_or_used_without_a_fault():
    tally = fuzz(200, seed=2, n_jobs=1, seconds=300.0)
    assert tally.n_bad == 0, "\n".join(tally.faults)
    assert sum(tally.counts["policy"].values()) == 120
    assert BAD[0] == "crash"


def test_a_sentence_of_the_package_is_told_from_another_library_s_exception(tmp_path):
    with pytest.raises(FileNotFoundError) as ours:
        bopl.load(tmp_path / "none.bopl")
    assert is_ours(ours.value)
    with pytest.raises(ValueError, match="operands could not be broadcast") as foreign:
        np.zeros(2) + np.zeros(3)
    assert not is_ours(foreign.value)


def test_faults_are_counted_as_what_they_are(tmp_path):
    def fail(error):
        def run(rng, seeds, work):
            raise error

        return Target("made", run, 1.0, lambda seeds, work: None)

    assert outcome_of(fail(KeyError("x")), 0, 0, tmp_path, tmp_path)[0] == FOREIGN
    assert outcome_of(fail(NotFiniteError("scores")), 0, 0, tmp_path, tmp_path)[0] == NOT_FINITE
