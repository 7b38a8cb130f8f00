"""Which samples judge a race: the latest ones where times are known, groups whole, and what is said of it."""

import numpy as np
import pytest

import bopl
from bopl.race import auto as auto_module
from bopl.race.leaderboard import Leaderboard
from bopl.race.race import RaceSettings, make_panel
from helpers import informative_log

N = 600
MIXED = np.random.default_rng(3).permutation(N) // 4  # times in no order, four samples at each


def log_of(**columns):
    log = informative_log(n_samples=N)
    return bopl.BanditLog(log.context, log.action, log.reward, log.propensity, actions=log.actions.tolist(), **columns)


def arena_of(log):
    panel = make_panel(log, RaceSettings(n_folds=2, n_jobs=1))
    return panel.arenas[0], panel.judged_by


def test_the_latest_samples_judge_and_those_of_one_time_stay_together():
    arena, said = arena_of(log_of(time=MIXED))
    first = MIXED[arena.rows].min()
    assert arena.workbench.log.time.max() < first
    assert len(arena.rows) == (first <= MIXED).sum()
    assert abs(len(arena.rows) - 150) <= 4
    assert said == f"Judged by the latest {len(arena.rows)} samples from {first} to {MIXED.max()}."


def test_groups_that_the_judging_samples_have_as_well_do_not_train():
    group = np.random.default_rng(0).integers(0, 400, size=N)
    arena, said = arena_of(log_of(time=MIXED, group=group))
    judging = np.zeros(N, bool)
    judging[arena.rows] = True
    n_left_out = int((~judging & np.isin(group, group[judging])).sum())
    assert n_left_out > 0
    assert arena.workbench.log.n_samples == N - len(arena.rows) - n_left_out
    assert arena.workbench.log.time.max() < MIXED[judging].min()
    assert f"{n_left_out} earlier samples of" in said


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({}, ""),
        ({"time": np.zeros(N)}, ", as all samples have the same time"),
        ({"time": MIXED, "group": np.arange(N) % 20}, ", as every group has samples in the latest part"),
        (
            {"time": MIXED, "group": np.random.default_rng(0).integers(0, 180, size=N)},
            ", as most groups have samples in the latest part",
        ),
    ],
)
def test_where_time_cannot_divide_whole_groups_are_drawn_and_it_is_said(columns, why):
    arena, said = arena_of(log_of(**columns))
    assert said == f"Judged by {len(arena.rows)} samples, drawn at random{why}."
    assert arena.workbench.log.n_samples + len(arena.rows) == N  # nothing is dropped
    if "group" in columns:
        judged = columns["group"][arena.rows]
        assert np.isin(columns["group"], judged).sum() == len(arena.rows)


def test_a_cross_validation_keeps_groups_whole_and_looks_at_no_time():
    group = np.arange(N) % 50
    panel = make_panel(log_of(time=MIXED, group=group), RaceSettings(n_parts=3, n_folds=2, n_jobs=1))
    assert sorted(np.concatenate([arena.rows for arena in panel.arenas])) == list(range(N))
    for arena in panel.arenas:
        assert np.isin(group, group[arena.rows]).sum() == len(arena.rows)
    assert panel.judged_by == "Judged by cross-validation: all 600 samples in turn, in 3 parts."


def test_the_leaderboard_says_which_samples_judged_and_keeps_it_in_files(monkeypatch, tmp_path):
    monkeypatch.setattr(auto_module, "CROSS_VALIDATE_BELOW", 100)
    policy = bopl.AutoPolicy(["regression"], progress=False, n_jobs=1, random_state=0).fit(log_of(time=MIXED))
    said = policy.leaderboard_.judged_by
    assert said.startswith("Judged by the latest 15")
    assert str(policy.leaderboard_).endswith(said)
    policy.save(tmp_path / "policy.bopl")
    assert bopl.load(tmp_path / "policy.bopl").leaderboard_.judged_by == said
    before = policy.leaderboard_.to_dict()
    del before["judged_by"]  # as it was written before
    assert Leaderboard.from_dict(before).judged_by == ""


def test_the_validation_part_of_a_single_policy_is_the_latest_as_well():
    seen = []

    class Watch(bopl.boosting.Callback):
        def on_start(self, state):
            seen.append(state.log)

    log = log_of(time=MIXED)
    policy = bopl.BoostedPolicy(
        "ips", n_rounds=2, reward_translation=-0.3, validation_fraction=0.25, progress=False, random_state=0
    )
    policy.fit(log, callbacks=[Watch()])
    assert seen[0].time.max() < np.sort(MIXED)[450]
    assert set(seen[0].time) == set(range(int(seen[0].time.max()) + 1))
