"""A short run of the fuzzers; ``make fuzz`` makes the long one."""

import json

import numpy as np
import pytest

import bopl
from fuzz.run import BAD, Tally, fuzz, write_results
from fuzz.tables import mutate_csv, mutate_json, write_odd_table
from fuzz.targets import FOREIGN, HARNESS, NOT_FINITE, NotFiniteError, Target, is_ours, outcome_of


@pytest.mark.slow
def test_two_thousand_spoiled_files_are_refused_or_used_without_a_fault():
    tally = fuzz(2000, seed=1, n_jobs=2)
    assert tally.n_bad == 0, "\n".join(map(str, tally.faults))
    assert all(count["refused"] > 0 for count in tally.counts.values())


def test_two_hundred_spoiled_files_are_refused_or_used_without_a_fault():
    tally = fuzz(200, seed=2, n_jobs=1, seconds=300.0, has_bounds_checks=False)
    assert tally.n_bad == 0, "\n".join(map(str, tally.faults))
    assert sum(tally.counts["policy"].values()) == 120
    assert BAD[0] == "crash"


def test_a_sentence_of_the_package_is_told_from_another_library_s_exception(tmp_path):
    with pytest.raises(FileNotFoundError) as ours:
        bopl.load(tmp_path / "none.bopl")
    assert is_ours(ours.value)
    with pytest.raises(ValueError, match="operands could not be broadcast") as foreign:
        np.zeros(2) + np.zeros(3)
    assert not is_ours(foreign.value)


class BadColumn:
    """What looks like an array and is none."""

    def __array__(self, dtype=None, copy=None):
        raise KeyError("another library's")


def _in_package(rng, seeds, work):
    bopl.BanditLog(BadColumn(), ["a"], [1.0], [0.5])


def test_faults_are_counted_as_what_they_are(tmp_path):
    def fail(error):
        def run(rng, seeds, work):
            raise error

        return Target("made", run, 1.0, lambda seeds, work: None)

    assert outcome_of(fail(KeyError("x")), 0, 0, tmp_path, tmp_path)[0] == HARNESS
    assert outcome_of(Target("made", _in_package, 1.0, print), 0, 0, tmp_path, tmp_path)[0] == FOREIGN
    assert outcome_of(fail(NotFiniteError("scores")), 0, 0, tmp_path, tmp_path)[0] == NOT_FINITE


def test_a_fault_is_written_with_the_command_that_repeats_it(tmp_path):
    tally = Tally()
    tally.add("log", 17, "crash", "exit code -11")
    tally.add("log", 18, "refused", "")
    write_results(tally, 7, tmp_path / "faults.json")
    found = json.loads((tmp_path / "faults.json").read_text(encoding="utf8"))
    assert found["counts"] == {"log": {"crash": 1, "refused": 1}}
    assert found["faults"][0]["command"].endswith("--seed 7 --target log --first 17 --files 1")


def test_odd_tables_and_lines_are_the_same_for_the_same_seed(tmp_path):
    text = b'{"x": 1, "action": "a"}\n{"x": 2, "action": "b"}'
    for number in range(50):
        made = []
        for _ in range(2):
            rng = np.random.default_rng(number)
            path = write_odd_table(rng, tmp_path)
            made.append(
                (b"" if path is None else path.read_bytes(), mutate_json(rng, text), mutate_csv(rng, b"a,b\n1,2"))
            )
        assert made[0] == made[1]
