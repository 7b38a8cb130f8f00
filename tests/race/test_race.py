"""The race itself: who wins where the best is known, who is dropped, what is blended, whatever the threads."""

import re
from dataclasses import replace
from itertools import pairwise
from zipfile import ZipFile

import numpy as np
import pytest

import bopl
from bopl.race.candidate import candidates, choose
from bopl.race.contender import SNAPSHOTS, Contender, Verdict
from bopl.race.race import MAX_BLENDED, MIN_KEPT, RUNGS, Race, RaceSettings, make_panel
from race_logs import certain_world, knowing_world, noise_world

MODELS = ("regression", "dr")  # what the names of candidates with a reward model begin with


def race_on(log, include, seed=0, **settings):
    return bopl.AutoPolicy(include, random_state=seed, progress=False, n_jobs=1, **settings).fit(log)


def chosen(policy):
    """Return the names of the candidates that won, alone or in the blend."""
    statuses = {entry.candidate: entry.status for entry in policy.leaderboard_ if entry.candidate != "blend"}
    return [name for name, status in statuses.items() if status in ("won", "in the blend")]


# -- Three worlds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_where_the_context_decides_the_reward_a_reward_model_leads_and_nearly_every_action_is_right(seed):
    log, truth = certain_world(seed)
    policy = race_on(log, ["regression", "dr", "likelihood", "surrogate"], seed)
    assert not policy.is_logging_
    leader = next(entry for entry in policy.leaderboard_ if entry.candidate != "blend")
    assert leader.candidate.startswith(MODELS)
    assert leader.status in ("won", "in the blend")
    assert truth.value(policy.predict(truth.context)) > 0.97
    assert policy.leaderboard_.entries[-1].candidate == "logging"


@pytest.mark.parametrize("seed", [0, 1])
def test_where_the_logging_policy_knows_best_and_rewards_are_noisy_nothing_is_lost(seed):
    log, truth = knowing_world(seed)
    policy = race_on(log, ["regression", "regression-logging", "likelihood", "ips"], seed)
    assert truth.logging_value == pytest.approx(0.6)
    assert truth.value(policy.predict(truth.context)) > truth.logging_value - 0.02
    by_rewards_alone = next(entry for entry in policy.leaderboard_ if entry.candidate == "regression")
    assert by_rewards_alone.upper < 0.0
    assert "regression" not in chosen(policy)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_where_actions_do_not_matter_the_policy_is_the_logging_policy_and_says_so(seed):
    log, truth = noise_world(seed)
    policy = race_on(log, ["regression", "regression-logging", "ips"], seed)
    assert policy.is_logging_
    assert policy.leaderboard_.verdict.startswith("No candidate beats the logging policy")
    assert policy.leaderboard_.verdict.endswith("The policy is the logging policy.")
    assert chosen(policy) == ["logging"]
    moved = np.abs(policy.predict_proba(truth.context) - truth.logging_prob).sum(axis=1).mean() / 2
    assert moved < 0.02


# -- Threads and seeds -------------------------------------------------------------------------------------------------


def without_seconds(leaderboard):
    return [replace(entry, seconds=0.0) for entry in leaderboard]


def members(path):
    """Return the parts of a model file; how many threads the learner was given is taken out."""
    with ZipFile(path) as archive:
        return {name: re.sub(rb'"n_jobs": \d', b"", archive.read(name)) for name in archive.namelist()}


def same_race(log, include, tmp_path, **settings):
    """Race with one thread and with two; check that leaderboards and policies are the same to the last bit."""
    policies = []
    for n_jobs in (1, 2):
        policy = bopl.AutoPolicy(include, random_state=3, progress=False, n_jobs=n_jobs, **settings).fit(log)
        policy.best_policy_.save(tmp_path / f"{n_jobs}.bopl")
        policies.append(policy)
    first, second = (policy.leaderboard_ for policy in policies)
    assert without_seconds(first) == without_seconds(second)
    assert (first.verdict, first.n_judged, first.n_parts) == (second.verdict, second.n_judged, second.n_parts)
    assert members(tmp_path / "1.bopl") == members(tmp_path / "2.bopl")


def test_the_number_of_threads_changes_nothing(tmp_path):
    same_race(knowing_world(2, n_samples=900)[0], ["dr-logging", "surrogate", "ips"], tmp_path)


@pytest.mark.slow
def test_the_number_of_threads_changes_nothing_of_a_full_race_on_many_samples(tmp_path):
    same_race(knowing_world(2, n_samples=40_000)[0], None, tmp_path)


def test_the_seed_decides_and_a_race_repeats_itself():
    log = knowing_world(3, n_samples=600)[0]
    boards = [without_seconds(race_on(log, ["regression-logging"], seed).leaderboard_) for seed in (0, 0, 1)]
    assert boards[0] == boards[1]
    assert boards[0] != boards[2]


# -- Halving -----------------------------------------------------------------------------------------------------------

SETTINGS = RaceSettings(n_parts=3, n_folds=2, n_jobs=1)


class Plodder(Contender):
    """A contender whose rank is decided before the race; it makes rounds of nothing and never gets worse."""

    def begin(self):
        self._answer()

    def advance(self, n_rounds):
        for target in [one for one in SNAPSHOTS if self.n_rounds < one <= n_rounds]:
            self.n_rounds = min(target, self.candidate.n_rounds)
            self._answer()

    def _answer(self):
        n, n_actions = self._panel.log.n_samples, self._panel.log.n_actions
        prob = np.full((n, n_actions), 1.0 / n_actions)
        found = self._panel.verdict(prob, self.n_rounds)
        self.best = replace(found, rank=self.n_rounds * 1e-6 + RANKS[self.candidate.name])


RANKS = {}


@pytest.fixture
def plodding(monkeypatch):
    monkeypatch.setattr("bopl.race.race.Contender", Plodder)
    log = knowing_world(4, n_samples=240)[0]
    return make_panel(log, SETTINGS)


def test_the_weaker_half_is_dropped_rung_by_rung(plodding):
    names = [one.name for one in candidates() if not one.needs_network]
    RANKS.update({name: -float(place) for place, name in enumerate(names)})
    race = Race(plodding, choose(names, ()), SETTINGS)
    board = race.run().leaderboard
    rounds = {one.candidate.name: one.n_rounds for one in race.contenders}
    making = [name for name in names if next(one for one in candidates() if one.name == name).n_rounds > 0]
    counts = [sum(rounds[name] >= rung for name in making) for rung in RUNGS]
    assert counts[0] == len(making)
    for before, after in pairwise(counts):
        assert after == max(MIN_KEPT, -(-before // 2))
    # Those that go on are the better ones, and whoever was dropped says so.
    assert [rounds[name] for name in making] == sorted((rounds[name] for name in making), reverse=True)
    for entry in board:
        if 0 < rounds[entry.candidate] < RUNGS[-1]:
            assert entry.status == f"dropped after {rounds[entry.candidate]} rounds"


def test_candidates_without_rounds_are_not_dropped(plodding):
    names = [one.name for one in candidates() if not one.needs_network]
    RANKS.update({name: float(place) for place, name in enumerate(names)})  # the regressions are the last
    race = Race(plodding, choose(names, ()), SETTINGS)
    board = race.run().leaderboard
    for name in ("logging", "regression", "regression-logging"):
        assert next(entry for entry in board if entry.candidate == name).status in ("raced", "won", "in the blend")


def test_in_a_race_of_many_the_dropped_have_made_fewer_rounds():
    policy = race_on(certain_world(1, n_samples=500)[0], ["dr", "dr-clipped", "dr-smooth", "likelihood", "ips"])
    rounds = {entry.candidate: entry.rounds for entry in policy.leaderboard_}
    dropped = [entry for entry in policy.leaderboard_ if entry.status.startswith("dropped after ")]
    assert dropped
    for entry in dropped:
        made = int(entry.status.split()[2])
        assert rounds[entry.candidate] <= made < RUNGS[-1]


# -- Blending ----------------------------------------------------------------------------------------------------------


class Decided:
    """A contender that the judges have seen already."""

    def __init__(self, verdict):
        self.best = verdict


@pytest.fixture(scope="module")
def panel():
    return make_panel(knowing_world(5, n_samples=300)[0], SETTINGS)


def probabilities(panel, seed, *, near=None, weight=0.0):
    drawn = np.random.default_rng(seed).dirichlet(np.ones(panel.log.n_actions), size=panel.log.n_samples)
    return drawn if near is None else (1.0 - weight) * near + weight * drawn


def blend(panel, *action_prob, **settings):
    """Return how many of these policies, the first of them leading, are blended, and their mixture."""
    contenders = [Decided(panel.verdict(one)) for one in action_prob]
    race = Race(panel, choose([], ()), replace(SETTINGS, **settings))
    found, weights, mixed = race._blend(contenders)
    return [contenders.index(one) for one in found], weights, mixed


def test_a_policy_that_moves_no_probability_is_left_out_of_the_blend(panel):
    first = probabilities(panel, 0)
    same, near = first.copy(), probabilities(panel, 1, near=first, weight=0.01)
    other = probabilities(panel, 2, near=first, weight=0.2)
    parts, weights, mixed = blend(panel, first, same, near, other)
    assert parts == [0, 3]
    np.testing.assert_allclose(mixed.action_prob, (first + weights[1] * other) / (1.0 + weights[1]))


def test_the_share_of_a_leader_falls_with_the_standard_errors_it_lies_behind(panel):
    first = probabilities(panel, 0)
    other = probabilities(panel, 2, near=first, weight=0.2)
    gap = panel.compare(panel.verdict(other).cautious, panel.verdict(first).cautious)
    expected = min(1.0, np.exp(4.0 * gap.uplift / gap.std_err))
    assert blend(panel, first, other)[1] == pytest.approx([1.0, expected])


def test_a_clearly_worse_policy_is_left_out_of_the_blend(panel):
    rows = np.arange(panel.log.n_samples)
    best = np.where(panel.log.reward > 0, panel.log.action_idx, (panel.log.action_idx + 1) % panel.log.n_actions)
    worst = np.where(panel.log.reward > 0, (panel.log.action_idx + 1) % panel.log.n_actions, panel.log.action_idx)
    good, bad = np.full((2, len(rows), panel.log.n_actions), 0.02)
    good[rows, best], bad[rows, worst] = 0.92, 0.92
    assert blend(panel, good, bad)[0] == [0]


def test_a_blend_has_a_limited_number_of_parts_and_can_be_forbidden(panel):
    first = probabilities(panel, 0)
    others = [probabilities(panel, seed, near=first, weight=0.2) for seed in range(1, 12)]
    assert len(blend(panel, first, *others)[0]) == MAX_BLENDED
    assert blend(panel, first, *others, max_blended=1)[0] == [0]
    policy = race_on(certain_world(2, n_samples=300)[0], ["regression", "ips"], blend=False)
    assert isinstance(policy.best_policy_, bopl.BoostedPolicy)


@pytest.mark.usefixtures("full_reward_models")
def test_the_judges_see_the_blend_as_it_is_saved():
    log = certain_world(0, n_samples=500)[0]
    policy = race_on(log, ["regression", "surrogate", "ips"])
    parts = chosen(policy)
    assert len(parts) > 1
    entry = policy.leaderboard_[0]
    assert (entry.candidate, entry.status) == ("blend", "won")
    assert entry.about == "mean of the probabilities of " + ", ".join(parts)
    assert isinstance(policy.best_policy_, bopl.BlendedPolicy)
    assert len(policy.best_policy_.policies_) == len(parts)


def test_ties_go_to_the_simpler_candidate(plodding):
    RANKS.update({"logging": -1.0, "dr": 1.0, "surrogate": 1.0, "ips": 1.0})
    race = Race(plodding, choose(["dr", "surrogate", "ips"], ()), replace(SETTINGS, max_blended=1))
    order = [entry.candidate for entry in race.run().leaderboard]
    assert order == ["surrogate", "ips", "dr", "logging"]


def test_a_verdict_ranks_by_the_cautious_terms_less_half_a_standard_error(panel):
    found = panel.verdict(probabilities(panel, 3), 7)
    assert isinstance(found, Verdict)
    gap = found.cautious - panel.log.reward
    assert found.n_rounds == 7
    assert found.rank == pytest.approx(gap.mean() - 0.5 * gap.std(ddof=1) / np.sqrt(len(gap)))
