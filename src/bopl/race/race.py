"""The race itself: how long each candidate is trained, which are dropped, and which wins."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bopl._typing import AnyArray, FloatArray
from bopl.boosting import Workbench
from bopl.boosting.workbench import Keeper
from bopl.log import BanditLog, SplitFacts
from bopl.log.log_split import divide_latest
from bopl.objective.softmax import softmax
from bopl.race.candidate import Candidate, rewards
from bopl.race.contender import SHARPNESS, Arena, Contender, Panel, Verdict
from bopl.race.judge import Judge, Standing
from bopl.race.leaderboard import Entry, Leaderboard
from bopl.reward import draw_folds
from bopl.reward.kept_models import read_logging_model, write_logging_model
from bopl.reward.logging_model import MAX_BINNED_ACTIONS, LoggingModel, fit_logging_model

RUNGS = (25, 100, 200)  # rounds after which the weaker half is dropped
MIN_UNITS = 3  # folds of a cross-validation; two of them are trained on and cross-fitted
MIN_KEPT = 3
MAX_BLENDED = 5
SAME_POLICY = 0.01  # a part that moves less probability than this is left out of a blend
SHARPENED = (1.0, np.inf)  # factors tried on the winner: as judged, or greedy
FADING = 3.0  # a leader's share in a blend falls by e^-3 for each standard error that it lies behind the first
MIN_SHARE = 0.05  # of the first leader's share; a leader with a smaller share is not worth training
GATE = 1.8  # standard errors by which a policy must beat the logging policy, by the cautious terms
Z95 = 1.959963984540054


@dataclass(frozen=True)
class RaceSettings:
    """Settings of a race."""

    validation_fraction: float = 0.25  # share of the samples that judge
    n_parts: int = 1  # 1, or the number of folds of a cross-validation over all samples
    n_folds: int = 5  # folds of cross-fitting inside a training part
    max_blended: int = MAX_BLENDED  # maximum number of leaders in a blend; 1 takes only the first
    n_jobs: int | None = None
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Outcome:
    """Decision of a race."""

    winners: list[Contender]  # one, or those to blend; only the logging policy if nothing beats it
    weights: list[float]  # their shares in the blend
    sharpness: float  # inverse temperature of the winner, or of the blend
    leaderboard: Leaderboard
    is_logging: bool  # whether the logging policy stays
    is_interrupted: bool
    logging_model: LoggingModel  # learned from the propensities of all raced samples


def make_panel(
    log: BanditLog, settings: RaceSettings, *, sample_weight: FloatArray | None = None, keeper: Keeper | None = None
) -> Panel:
    """Divide the samples and prepare the judges."""
    keeper = keeper or Keeper()
    _check_units(log)
    divisions: list[tuple[AnyArray, AnyArray]]
    if settings.n_parts == 1:
        division = divide_latest(log, settings.validation_fraction, random_state=settings.seed)
        divisions, judged_by = [(division.train, division.test)], _judged_by(division.facts(log))
    else:
        # Blocks in time would not help: most training samples would still be later than the judging ones.
        fold = draw_folds(log, settings.n_parts, settings.seed)
        divisions = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(int(fold.max()) + 1)]
        judged_by = f"Judged by cross-validation: all {log.n_samples:,} samples in turn, in {len(divisions)} parts."
    model = _fit_logging(log, settings, keeper)  # independent of rewards: one for all
    arenas = [
        _make_arena(log, train, judged, settings, sample_weight, model, keeper, f"arena {number}")
        for number, (train, judged) in enumerate(divisions)
    ]
    order = np.concatenate([arena.rows for arena in arenas])
    return Panel(arenas, log.subset(order), model, judged_by, keeper)


def _fit_logging(log: BanditLog, settings: RaceSettings, keeper: Keeper) -> LoggingModel:
    """Return the logging policy, learned or recalled."""
    model = keeper.recall("logging", partial(read_logging_model, log=log))
    if model is None:
        began = time.monotonic()
        model = fit_logging_model(log, seed=settings.seed, n_jobs=settings.n_jobs, pairs=keeper.pairs)
        writing = partial(write_logging_model, model=model, log=log)
        keeper.keep("logging", writing, seconds=time.monotonic() - began)
    return model


def _judged_by(facts: SplitFacts) -> str:
    """Return a sentence or two that describe the judging samples."""
    if facts.by == "random":
        return f"Judged by {facts.test.n_samples:,} samples{facts.drawn}."
    text = f"Judged by the latest {facts.test.text}."
    if not facts.n_dropped:
        return text
    return f"{text} {facts.n_dropped:,} earlier samples of {facts.n_dropped_groups:,} of these groups did not race."


def _check_units(log: BanditLog) -> None:
    n_units = log.n_samples if log.group is None else len(np.unique(log.group))
    if n_units < MIN_UNITS:
        what = "samples" if log.group is None else "groups of samples"
        raise ValueError(
            f"a race judges candidates on samples they have not seen and needs at least {MIN_UNITS} {what}; the log "
            f"has {n_units}. Train one policy instead, with BoostedPolicy."
        )


def _make_arena(
    log: BanditLog,
    train: AnyArray,
    judged: AnyArray,
    settings: RaceSettings,
    sample_weight: FloatArray | None,
    logging_model: LoggingModel,
    keeper: Keeper,
    name: str,
) -> Arena:
    weight = None if sample_weight is None else sample_weight[train] / sample_weight[train].mean()
    workbench = Workbench(
        log.subset(train),
        sample_weight=weight,
        n_folds=settings.n_folds,
        seed=settings.seed,
        logging_model=logging_model,
        keeper=keeper,
        name=name,
    )
    held_out = log.subset(judged)
    if log.n_actions > MAX_BINNED_ACTIONS:
        estimate = np.full((held_out.n_samples, log.n_actions), np.average(workbench.log.reward, weights=weight))
    else:
        estimate = 0.5 * (
            workbench.rewards(rewards(n_jobs=settings.n_jobs)).predict(held_out.context)
            + workbench.rewards(rewards(n_jobs=settings.n_jobs), has_prior=True).predict(held_out.context)
        )
    estimate = np.clip(estimate, log.reward.min(), log.reward.max())  # a line through rare actions may lead anywhere
    # Nothing is known about an action that was never logged: what a model makes up about it must not win a race.
    estimate[:, np.bincount(log.action_idx, minlength=log.n_actions) == 0] = log.reward.min()
    judging = None if sample_weight is None else sample_weight[judged]
    return Arena(workbench, Judge(held_out, estimate, judging), judged)


class Race:
    """Races candidates on one panel, dropping some at each rung.

    Parameters
    ----------
    panel : Panel
    candidates : sequence of Candidate
    settings : RaceSettings
    deadline : float
        Of `time.monotonic`; nothing starts after it.
    report : callable, optional
        Called with the number of the candidate, how many there are, and the share of the work done.
    """

    def __init__(
        self,
        panel: Panel,
        candidates: Sequence[Candidate],
        settings: RaceSettings,
        *,
        deadline: float = np.inf,
        report: Callable[[int, int, float], None] = lambda number, total, share: None,
    ) -> None:
        self.panel = panel
        self.settings = settings
        self.contenders = [Contender(one, panel, n_jobs=settings.n_jobs, seed=settings.seed) for one in candidates]
        self.is_interrupted = False
        self._deadline = deadline
        self._report = report
        self._n_done, self._n_planned = 0.0, float(sum(_work(one) for one in candidates))

    def run(self) -> Outcome:
        """Run the race until it ends, its deadline passes or Ctrl-C comes, and decide."""
        try:
            alive = list(self.contenders)
            for rung, n_rounds in enumerate((0, *RUNGS)):
                self._run_rung(alive, n_rounds, rung)
                alive = self._keep(alive, n_rounds)
        except KeyboardInterrupt:
            if not any(one.best is not None for one in self.contenders):
                raise
            self.is_interrupted = True
        return self._decide()

    def _run_rung(self, alive: list[Contender], n_rounds: int, rung: int) -> None:
        for number, contender in enumerate(alive):
            if time.monotonic() >= self._deadline and any(one.best is not None for one in self.contenders):
                contender.stop_reason = contender.stop_reason or "the time was up"
                continue
            self._report(number + 1, len(alive), min(self._n_done / self._n_planned, 0.99))
            began = time.monotonic()
            if rung == 0:
                contender.begin()
            else:
                contender.advance(n_rounds)
            contender.seconds += time.monotonic() - began
            self._n_done += 10.0 if rung == 0 else min(n_rounds, contender.candidate.n_rounds) / (2.0**rung)

    def _keep(self, alive: list[Contender], n_rounds: int) -> list[Contender]:
        """Return which candidates continue: the better half, and at least a few; finished ones wait."""
        going = [one for one in alive if not one.is_over]
        if n_rounds == 0 or n_rounds == RUNGS[-1]:
            return going
        ranked = sorted(going, key=_rank, reverse=True)
        n_kept = max(MIN_KEPT, -(-len(alive) // 2))
        for one in ranked[n_kept:]:
            one.status = f"dropped after {one.n_rounds} rounds"
            one.stop_reason = "others were better"
        return [one for one in going if one in ranked[:n_kept]]

    # -- The decision ---------------------------------------------------------------------------------------------

    def _decide(self) -> Outcome:
        # Those that surely beat the logging policy come first: a policy that rests on a few lucky samples sometimes has
        # a high rank, and must not keep the others out.
        ranked = sorted(
            (one for one in self.contenders if one.best is not None),
            key=lambda one: (not self._is_sure(one.best), -_rank(one), one.candidate.complexity),
        )
        sure = [one for one in ranked if self._is_sure(one.best)]
        logging = next(one for one in self.contenders if one.candidate.name == "logging")
        chosen, weights, verdict = self._blend(sure or ranked[:1])
        is_logging = not self._is_sure(verdict)
        sharpness, verdict = self._sharpen(verdict)
        if is_logging:
            chosen, weights, sharpness = [logging], [1.0], 1.0
        for one in chosen:
            one.status = "won" if len(chosen) == 1 else "in the blend"
        leaderboard = self._leaderboard(ranked, chosen, verdict, sharpness, is_logging)
        return Outcome(
            chosen, weights, sharpness, leaderboard, is_logging, self.is_interrupted, self.panel.logging_model
        )

    def _is_sure(self, verdict: Verdict | None) -> bool:
        """Return whether a policy beats the logging policy by more than chance allows, by the cautious terms."""
        if verdict is None:
            return False
        gap = self.panel.compare(verdict.cautious)
        return gap.uplift > GATE * gap.std_err

    def _blend(self, ranked: list[Contender]) -> tuple[list[Contender], list[float], Verdict]:
        """Return the leaders that cannot be told from the first, their shares, and the judgement on their mean."""
        leader = ranked[0].best
        assert leader is not None
        chosen, weights, mixed = ranked[:1], [1.0], leader
        for contender in ranked[1:]:
            assert contender.best is not None
            weight = _share(self.panel.compare(contender.best.cautious, leader.cautious))
            if len(chosen) >= self.settings.max_blended or weight < MIN_SHARE:
                continue
            moved = np.abs(contender.best.action_prob - mixed.action_prob).sum(axis=1).mean() / 2.0
            if moved > SAME_POLICY:
                chosen, weights = [*chosen, contender], [*weights, weight]
                parts = [one.best.action_prob for one in chosen if one.best]
                mixed = self.panel.verdict(np.average(parts, axis=0, weights=weights))
        return chosen, weights, mixed

    def _sharpen(self, verdict: Verdict) -> tuple[float, Verdict]:
        """Return how sharply the winner should act, and the judgement on that."""
        score = np.log(np.maximum(verdict.action_prob, 1e-300))
        mask = self.panel.log.action_mask
        tried = [
            (one, self.panel.verdict(softmax(score, inverse_temperature=one, action_mask=mask), verdict.n_rounds))
            for one in SHARPENED
        ]
        return max(tried, key=lambda pair: pair[1].estimate.lower(1.0))

    def _leaderboard(
        self, ranked: list[Contender], chosen: list[Contender], verdict: Verdict, sharpness: float, is_logging: bool
    ) -> Leaderboard:
        entries = [_entry(one.candidate.name, one.candidate.about, one.best, one) for one in ranked]
        if len(chosen) > 1:
            about = "mean of the probabilities of " + ", ".join(one.candidate.name for one in chosen)
            entries.insert(0, replace(_entry("blend", about, verdict, None), sharpness=sharpness))
        elif not is_logging:  # the winner as it acts
            entries[0] = replace(
                _entry(ranked[0].candidate.name, ranked[0].candidate.about, verdict, chosen[0]),
                sharpness=SHARPNESS * sharpness,
            )
        unbegun = [one for one in self.contenders if one.best is None]
        entries += [_entry(one.candidate.name, one.candidate.about, None, one) for one in unbegun]
        names = " + ".join(one.candidate.name for one in chosen)
        names = "The sharpened logging policy" if names == "logging" else names
        gap = verdict.estimate
        if is_logging:
            text = (
                "No candidate beats the logging policy beyond chance on the validation samples; the best is estimated "
                f"at {gap.uplift:+.4g} ± {Z95 * gap.std_err:.2g}. The policy is the logging policy."
            )
        else:
            text = (
                f"{names} won: {gap.uplift:+.4g} ± {Z95 * gap.std_err:.2g} over the logging policy on the validation "
                "samples."
            )
        panel = self.panel
        return Leaderboard(tuple(entries), text, panel.log.n_samples, len(panel.arenas), panel.judged_by)


def _work(candidate: Candidate) -> float:
    """Return the approximate share of a candidate in the work of the race, in rounds."""
    return 10.0 + sum(min(n_rounds, candidate.n_rounds) / 2.0 ** (rung + 1) for rung, n_rounds in enumerate(RUNGS))


def _share(gap: Standing) -> float:
    """Return the share in a blend of a policy this far behind the leader, whose share is 1."""
    if gap.uplift >= 0.0:
        return 1.0
    return float(np.exp(FADING * gap.uplift / gap.std_err)) if gap.std_err > 0.0 else 0.0


def _rank(contender: Contender) -> float:
    return -np.inf if contender.best is None else contender.best.rank


def _entry(name: str, about: str, verdict: Verdict | None, contender: Contender | None) -> Entry:
    seconds = 0.0 if contender is None else contender.seconds
    if verdict is None:
        nan = float("nan")
        return Entry(name, about, nan, nan, nan, nan, 0, 1.0, seconds, "not begun")
    standing = verdict.estimate
    return Entry(
        name,
        about,
        standing.value,
        standing.uplift,
        standing.lower(Z95),
        standing.lower(-Z95),
        verdict.n_rounds,
        SHARPNESS,
        seconds,
        "won" if contender is None else contender.status,
    )
