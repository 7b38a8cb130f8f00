"""A candidate in a race: its runs on the training parts, and its judgements after given numbers of rounds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

import numpy as np

from bopl._typing import AnyArray, FloatArray
from bopl.boosting import Workbench
from bopl.boosting.checkpoint import write_checkpoint
from bopl.boosting.loop import BoostingRun, Problem, result_of
from bopl.boosting.workbench import Keeper
from bopl.log import BanditLog
from bopl.objective.softmax import softmax
from bopl.policy import BoostedPolicy
from bopl.race.candidate import Candidate
from bopl.race.judge import Judge, Standing, compare
from bopl.reward.logging_model import LoggingModel

SNAPSHOTS = (0, 10, 25, 50, 100, 200)  # rounds after which the candidates are judged
SHARPNESS = 3.0  # inverse temperature at which policies are judged: greedy ones would be judged by too few samples
N_STD_ERR = 0.5  # policies are ranked by their cautious uplift minus this many standard errors


@dataclass(frozen=True, eq=False)
class Arena:
    """One division of the samples: a training part and a judging part."""

    workbench: Workbench  # of the training part
    judge: Judge  # of the other part
    rows: AnyArray  # positions of the judged samples in the race's log


@dataclass(frozen=True, eq=False)
class Verdict:
    """The judgement on a policy after some rounds."""

    n_rounds: int
    action_prob: FloatArray  # (n_judged, n_actions): probabilities on all judged samples
    cautious: FloatArray  # (n_judged,): terms by which policies are ranked
    estimate: Standing  # doubly robust, compared with the logging policy
    rank: float  # cautious uplift over the logging policy, minus a fraction of a standard error


class Panel:
    """All judges of a race.

    Parameters
    ----------
    arenas : list of Arena
    log : BanditLog
        The judged samples of all arenas, one after another.
    logging_model : LoggingModel
    judged_by : str
        Description of the judging samples.
    keeper : Keeper
        Stores the rounds of the contenders.
    """

    def __init__(
        self,
        arenas: list[Arena],
        log: BanditLog,
        logging_model: LoggingModel,
        judged_by: str,
        keeper: Keeper,
    ) -> None:
        self.arenas = arenas
        self.log = log
        self.logging_model = logging_model
        self.judged_by = judged_by
        self.keeper = keeper
        self._ends = np.cumsum([arena.judge.log.n_samples for arena in arenas])[:-1]
        weights = [arena.judge.sample_weight for arena in arenas if arena.judge.sample_weight is not None]
        self._sample_weight = np.concatenate(weights) if weights else None

    def verdict(self, action_prob: FloatArray, n_rounds: int = 0) -> Verdict:
        """Return the judgement on given probabilities."""
        judged = list(zip(self.arenas, np.split(action_prob, self._ends), strict=True))
        estimates = np.concatenate([arena.judge.estimates(part) for arena, part in judged])
        cautious = np.concatenate([arena.judge.cautious(part) for arena, part in judged])
        # The logging policy's terms are the logged rewards: nothing has to be estimated.
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
        self._unkept = [0.0] * len(panel.arenas)  # seconds of work that are not yet stored
        self._added = 0
        self._falls = 0

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do."""
        return self.stop_reason is not None or self.n_rounds >= self.candidate.n_rounds

    @property
    def n_trained_on(self) -> int:
        """Number of samples of a training part."""
        return min(arena.workbench.log.n_samples for arena in self._panel.arenas)

    def begin(self) -> None:
        """Prepare the runs, and judge the start."""
        for number, arena in enumerate(self._panel.arenas):
            problem, run = self._recall(number) or self._policy.begin(arena.workbench, seed=self._seed)
            self._runs.append((problem, run))
            context = arena.judge.log.context
            self._scores.append(problem.start.score(context, arena.judge.log.n_actions))
        # Equal scores need no judgement if rounds follow.
        if self.candidate.n_rounds == 0 or any(problem.start.predictors for problem, _ in self._runs):
            self._ask(0)

    def advance(self, n_rounds: int) -> None:
        """Add rounds up to this number, and judge on the way.

        Recalled rounds are already there; they are judged as if they were new.
        """
        for target in [one for one in SNAPSHOTS if self.n_rounds < one <= n_rounds]:
            if self.is_over:
                return
            reasons = [self._add_rounds(number, target) for number in range(len(self._runs))]
            if all(reason is not None for reason in reasons):
                self.stop_reason = reasons[0]
            self.n_rounds = max(min(len(run.state.rounds), target) for _, run in self._runs)
            self._ask(target)
            if self._falls >= 2:
                self.stop_reason = "the judges saw it getting worse"

    def _add_rounds(self, number: int, target: int) -> str | None:
        """Add the rounds of one arena, and store them; return the reason if boosting ended early."""
        _, run = self._runs[number]
        n_before, began = len(run.state.rounds), time.monotonic()
        reason = run.add_rounds(min(target, self.candidate.n_rounds))
        self._unkept[number] += time.monotonic() - began
        if len(run.state.rounds) > n_before:
            writing = partial(write_checkpoint, state=run.state)
            if self._panel.keeper.keep(self._name(number), writing, seconds=self._unkept[number]):
                self._unkept[number] = 0.0
        return reason

    def _recall(self, number: int) -> tuple[Problem, BoostingRun] | None:
        """Return the run of one arena with the stored rounds; None if there are none."""
        workbench = self._panel.arenas[number].workbench
        return self._panel.keeper.recall(
            self._name(number), lambda path: self._policy.begin(workbench, seed=self._seed, resume_from=path)
        )

    def _name(self, number: int) -> str:
        return f"{self.candidate.name} in arena {number}"

    def _ask(self, n_rounds: int) -> None:
        """Judge the first rounds, up to this number."""
        for k, (_, run) in enumerate(self._runs):
            context = self._panel.arenas[k].judge.log.context
            for entry in run.state.rounds[self._added : n_rounds]:
                self._scores[k] += entry.step.size * entry.predictor.predict(context)
        self._added = max(min(len(run.state.rounds), n_rounds) for _, run in self._runs)
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
        """Return the policy of the first arena, with its best number of rounds."""
        assert self.best is not None
        problem, run = self._runs[0]
        arena = self._panel.arenas[0]
        policy = self._policy.set_params(inverse_temperature=SHARPNESS)
        result = result_of(run.state, problem.objective, self.stop_reason)
        return policy.adopt(
            result, arena.workbench.log, min(self.best.n_rounds, len(run.state.rounds)), arena.judge.log
        )

    def unfitted(self, *, n_jobs: int | None) -> BoostedPolicy:
        """Return the policy with its best number of rounds, to be trained on more samples."""
        assert self.best is not None
        policy = self.candidate.make(n_jobs=n_jobs, random_state=self._seed)
        return policy.set_params(n_rounds=self.best.n_rounds, inverse_temperature=SHARPNESS)
