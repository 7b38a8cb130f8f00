"""A candidate in a race: its runs on the training parts, and what the judges say after some rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._typing import AnyArray, FloatArray
from bopl.boosting import Workbench
from bopl.boosting.loop import BoostingRun, Problem, result_of
from bopl.log import BanditLog
from bopl.objective.softmax import softmax
from bopl.policy import BoostedPolicy
from bopl.race.candidate import Candidate
from bopl.race.judge import Judge, Standing, compare
from bopl.reward.logging_model import LoggingModel

SNAPSHOTS = (0, 10, 25, 50, 100, 200)  # rounds after which the judges are asked
SHARPNESS = 3.0  # inverse temperature at which policies are judged: greedy ones would be judged by too few samples
N_STD_ERR = 1.0  # policies are ranked by their cautious uplift less so many standard errors


@dataclass(frozen=True, eq=False)
class Arena:
    """One division of the samples: a part to train on and a part to judge by.

    Attributes
    ----------
    workbench : Workbench
        Of the training part.
    judge : Judge
        Of the other part.
    rows : ndarray of int
        The judged samples' places in the race's log.
    """

    workbench: Workbench
    judge: Judge
    rows: AnyArray


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the judges say of a policy after some rounds.

    Attributes
    ----------
    n_rounds : int
    action_prob : ndarray of shape (n_judged, n_actions)
        Probabilities on all judged samples.
    cautious : ndarray of shape (n_judged,)
        Terms by which policies are ranked.
    estimate : Standing
        Doubly robust, against the logging policy.
    rank : float
        Cautious uplift over the logging policy, less a standard error.
    """

    n_rounds: int
    action_prob: FloatArray
    cautious: FloatArray
    estimate: Standing
    rank: float


class Panel:
    """All judges of a race.

    Parameters
    ----------
    arenas : list of Arena
    log : BanditLog
        The judged samples of all arenas, one after another.
    logging_model : LoggingModel
    """

    def __init__(self, arenas: list[Arena], log: BanditLog, logging_model: LoggingModel) -> None:
        self.arenas = arenas
        self.log = log
        self.logging_model = logging_model
        self._ends = np.cumsum([arena.judge.log.n_samples for arena in arenas])[:-1]
        weights = [arena.judge.sample_weight for arena in arenas if arena.judge.sample_weight is not None]
        self._sample_weight = np.concatenate(weights) if weights else None

    def verdict(self, action_prob: FloatArray, n_rounds: int = 0) -> Verdict:
        """Return what the judges say of some probabilities."""
        judged = list(zip(self.arenas, np.split(action_prob, self._ends), strict=True))
        estimates = np.concatenate([arena.judge.estimates(part) for arena, part in judged])
        cautious = np.concatenate([arena.judge.cautious(part) for arena, part in judged])
        # The logging policy's terms are the logged rewards: nothing of it has to be estimated.
        rank = self.compare(cautious).lower(N_STD_ERR)
        return Verdict(n_rounds, action_prob, cautious, self.compare(estimates), rank)

    def compare(self, terms: FloatArray, reference: FloatArray | None = None) -> Standing:
        """Return how a policy compares with a reference, the logging policy by default."""
        return compare(terms, self.log.reward if reference is None else reference, self.log, self._sample_weight)


class Contender:
    """A candidate with its runs, one per arena.

    Parameters
    ----------
    candidate : Candidate
    panel : Panel
    n_jobs : int, optional
    seed : int
    """

    def __init__(self, candidate: Candidate, panel: Panel, *, n_jobs: int | None, seed: int) -> None:
        self.candidate = candidate
        self.best: Verdict | None = None
        self.n_rounds = 0
        self.seconds = 0.0
        self.stop_reason: str | None = None
        self.status = "raced"
        self._panel = panel
        self._policy = candidate.make(n_jobs=n_jobs, random_state=seed)
        self._seed = seed
        self._runs: list[tuple[Problem, BoostingRun]] = []
        self._scores: list[FloatArray] = []
        self._added = 0
        self._falls = 0

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to be done."""
        return self.stop_reason is not None or self.n_rounds >= self.candidate.n_rounds

    @property
    def n_trained_on(self) -> int:
        """Samples of a training part."""
        return min(arena.workbench.log.n_samples for arena in self._panel.arenas)

    def begin(self) -> None:
        """Prepare the runs, and ask the judges about the start."""
        for arena in self._panel.arenas:
            problem, run = self._policy.begin(arena.workbench, seed=self._seed)
            self._runs.append((problem, run))
            context = arena.judge.log.context
            self._scores.append(problem.start.score(context, arena.judge.log.n_actions))
        # Equal scores are worth no question where rounds are to come.
        if self.candidate.n_rounds == 0 or any(problem.start.predictors for problem, _ in self._runs):
            self._ask()

    def advance(self, n_rounds: int) -> None:
        """Add rounds until there are so many, and ask the judges on the way."""
        for target in [one for one in SNAPSHOTS if self.n_rounds < one <= n_rounds]:
            if self.is_over:
                return
            reasons = [run.add_rounds(min(target, self.candidate.n_rounds)) for _, run in self._runs]
            if all(reason is not None for reason in reasons):
                self.stop_reason = reasons[0]
            self.n_rounds = max(len(run.state.rounds) for _, run in self._runs)
            self._ask()
            if self._falls >= 2:
                self.stop_reason = "the judges saw it getting worse"

    def _ask(self) -> None:
        for k, (_, run) in enumerate(self._runs):
            context = self._panel.arenas[k].judge.log.context
            for entry in run.state.rounds[self._added :]:
                self._scores[k] += entry.step.size * entry.predictor.predict(context)
        self._added = max(len(run.state.rounds) for _, run in self._runs)
        found = self._verdict()
        if self.best is None or found.rank > self.best.rank:
            self.best, self._falls = found, 0
        else:
            self._falls += 1

    def _verdict(self) -> Verdict:
        masks = [arena.judge.log.action_mask for arena in self._panel.arenas]
        action_prob = np.concatenate(
            [
                softmax(score, inverse_temperature=SHARPNESS, action_mask=mask)
                for score, mask in zip(self._scores, masks, strict=True)
            ]
        )
        return self._panel.verdict(action_prob, self._added)

    def trained(self) -> BoostedPolicy:
        """Return the policy of the first arena, cut back to the rounds that the judges liked best."""
        assert self.best is not None
        problem, run = self._runs[0]
        arena = self._panel.arenas[0]
        policy = self._policy.set_params(inverse_temperature=SHARPNESS)
        result = result_of(run.state, problem.objective, self.stop_reason)
        return policy.adopt(
            result, arena.workbench.log, min(self.best.n_rounds, len(run.state.rounds)), arena.judge.log
        )

    def unfitted(self, *, n_jobs: int | None) -> BoostedPolicy:
        """Return the policy with the rounds that the judges liked best, to be trained on more."""
        assert self.best is not None
        policy = self.candidate.make(n_jobs=n_jobs, random_state=self._seed)
        return policy.set_params(n_rounds=self.best.n_rounds, inverse_temperature=SHARPNESS)
