"""`AutoPolicy`, the default: candidates race, and the winner is trained on all samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bopl._archive import Archive
from bopl._errors import UsageError
from bopl._settings import check_flag, check_jobs, check_number, seed_of
from bopl._typing import FloatArray
from bopl.boosting import TimeLimit
from bopl.boosting.loop import INTERRUPTED
from bopl.boosting.workbench import Keeper
from bopl.learner.store import Packed
from bopl.log import BanditLog, PartitionedLog
from bopl.log.leak.find import warn_of_leaks
from bopl.log.learnable import check_learnable
from bopl.objective.training_data import check_sample_weight
from bopl.policy.blend import BlendedPolicy
from bopl.policy.boosted import BoostedPolicy
from bopl.policy.scored import as_training_log
from bopl.race.candidate import choose
from bopl.race.contender import SHARPNESS
from bopl.race.delegated import DelegatedPolicy
from bopl.race.final import InMemory, OverPieces, Training, WinnerFit, raced_rows
from bopl.race.leaderboard import Leaderboard, race_card
from bopl.race.progress import RaceProgress
from bopl.race.race import Outcome, Race, RaceSettings, make_panel

MAX_WHOLE = 60_000  # of a log with more samples, only a part races: it is as reliable, and faster
CROSS_VALIDATE_BELOW = 12_000  # with fewer samples, all of them judge, by cross-validation
BLENDED = ((MAX_WHOLE, 5), (300_000, 2), (np.inf, 1))  # leaders trained on all samples, by the size of the log
MIN_RETRAINED = 0.5  # share of its rounds that a winner must make on all samples to replace the policy that raced
RACE_SHARE = 0.6  # of the time limit; the rest trains the winner


class AutoPolicy(DelegatedPolicy):
    """A policy without settings: candidates race on validation samples, and the best is trained on all samples.

    Parameters
    ----------
    include : sequence of str, optional
        Names of the candidates that may race; all by default. The logging policy always races.
    exclude : sequence of str, default=()
        Names of the candidates that may not race.
    minutes : float, optional
        Approximate time limit of the whole fit.
    validation_fraction : float in (0, 1), default=0.25
        Share of the samples that judge: the latest ones if the log has times and that is possible. Small logs
        are cross-validated instead. Groups stay whole.
    blend : bool, default=True
        Whether the mean of the leaders' probabilities may win.
    n_jobs : int, optional
        Threads; all processors by default. The policy does not depend on it, unless ``minutes`` ends the race.
    progress : bool, default=True
        Show a progress line if standard error is a terminal.
    random_state : int, RandomState instance or None, default=None
        Seed of the random numbers.

    Attributes
    ----------
    best_policy_ : BoostedPolicy or BlendedPolicy
        The chosen policy, trained on all samples.
    leaderboard_ : Leaderboard
        The results of every candidate.
    is_logging_ : bool
        Whether nothing beat the logging policy, so that the policy is the logging policy.
    is_interrupted_ : bool
        Whether Ctrl-C ended the race early.
    actions_, n_features_in_, feature_names_in_, history_
        As for `bopl.BoostedPolicy`; the history is that of the winner's training.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> rng = np.random.default_rng(0)
    >>> context, action = rng.normal(size=(500, 2)), rng.integers(0, 2, size=500)
    >>> reward = (action == (context[:, 0] > 0)).astype(float)
    >>> log = bopl.BanditLog(context, action, reward, np.full(500, 0.5))
    >>> policy = bopl.AutoPolicy(include=["regression"], random_state=0).fit(log)
    >>> policy.predict([[1.0, 0.0], [-1.0, 0.0]]).tolist()
    [1, 0]
    """

    def __init__(
        self,
        include: Any = None,
        exclude: Any = (),
        *,
        minutes: float | None = None,
        validation_fraction: float = 0.25,
        blend: bool = True,
        n_jobs: int | None = None,
        progress: bool = True,
        random_state: Any = None,
    ) -> None:
        self.include = include
        self.exclude = exclude
        self.minutes = minutes
        self.validation_fraction = validation_fraction
        self.blend = blend
        self.n_jobs = n_jobs
        self.progress = progress
        self.random_state = random_state

    # -- Fitting --------------------------------------------------------------------------------------------------

    def fit(
        self,
        context: Any,
        action: Any = None,
        *,
        reward: Any = None,
        propensity: Any = None,
        actions: Any = None,
        sample_weight: Any = None,
        keeper: Keeper | None = None,
        cluster: Any = None,
        memory: int | str | None = None,
    ) -> AutoPolicy:
        """Race the candidates on a log, and train the winner on all of it.

        Ctrl-C ends the race with the best candidate so far. Columns that surely leak (`BanditLog.leaks`) are
        not left out, but reported in a `LeakWarning`.

        Parameters
        ----------
        context, action, reward, propensity, actions, sample_weight
            As for `bopl.BoostedPolicy.fit`. A log in pieces races on a random part of it.
        keeper : Keeper, optional
            Stores finished work, so that the same fit can resume after a crash; `bopl train` passes one.
        cluster : Cluster, distributed.Client or str, optional
            Where the winner is trained on a log in pieces; this machine by default.
        memory : int or str, optional
            Memory that a log in pieces may take on this machine, such as ``"4GB"``; half of the free memory by
            default.
        """
        keeper = keeper or Keeper()
        if isinstance(context, PartitionedLog):
            return self._fit_pieces(context, sample_weight, cluster, memory, keeper)
        if cluster is not None or memory is not None:
            raise UsageError(
                "cluster and memory are for logs in pieces, as BanditLog.scan_parquet makes them; this log is in "
                "memory already."
            )
        log = as_training_log(context, action, reward, propensity, actions)
        self._check_settings()
        weight = check_sample_weight(sample_weight, log.n_samples)
        warn_of_leaks(log)
        self._race_and_train(log, weight, partial(InMemory, log, weight), keeper)
        self._remember(log)
        return self

    def _fit_pieces(
        self, log: PartitionedLog, sample_weight: Any, cluster: Any, memory: int | str | None, keeper: Keeper
    ) -> AutoPolicy:
        """Race the candidates on a random part of a log in pieces, and train the winner on all of it."""
        log.require_propensity()
        weight = check_sample_weight(sample_weight, log.n_samples)
        if log.n_samples <= MAX_WHOLE:  # which a race holds in memory
            return self.fit(log.to_log(), sample_weight=weight, keeper=keeper)
        self._check_settings()
        self._race_and_train(log, weight, partial(OverPieces, log, weight, cluster, memory), keeper)
        seen = self.best_policy_.training_rows_
        assert seen is not None
        self._remember_facts(log, seen)
        return self

    def _check_settings(self) -> None:
        if self.minutes is not None:
            check_number("minutes", self.minutes, low=0.0, low_open=True)
        check_number("validation_fraction", self.validation_fraction, low=0.0, high=1.0, low_open=True, high_open=True)
        check_jobs(self.n_jobs)
        check_flag("progress", self.progress)

    def _race_and_train(
        self,
        log: BanditLog | PartitionedLog,
        weight: FloatArray | None,
        trainer: Callable[[Training], WinnerFit],
        keeper: Keeper,
    ) -> None:
        """Race on a log, or on a part of a large one, and train the winners on all of it."""
        seed = seed_of(self.random_state)
        began, n_samples = time.monotonic(), log.n_samples
        deadline = np.inf if self.minutes is None else began + 60.0 * self.minutes
        with RaceProgress(is_shown=self.progress) as progress:
            if n_samples > MAX_WHOLE:
                rows = raced_rows(n_samples, seed)
                log, weight = log.subset(rows), None if weight is None else weight[rows]
            if isinstance(log, PartitionedLog):
                log = log.to_log()
                check_learnable(log)
                warn_of_leaks(log)
            outcome = self._race(log, n_samples, weight, seed, began, progress, keeper)
            training = Training(self.n_jobs, deadline, seed, outcome.logging_model, keeper, self.progress)
            self._finish(outcome, trainer(training), deadline, progress)

    def _race(
        self,
        raced: BanditLog,
        n_samples: int,
        weight: FloatArray | None,
        seed: int,
        began: float,
        progress: RaceProgress,
        keeper: Keeper,
    ) -> Outcome:
        """Return the outcome of the race on a log, or on a part of one with this many samples."""
        names = tuple(one for one in choose(self.include, self.exclude) if one.suits(raced))
        is_whole = raced.n_samples == n_samples
        settings = RaceSettings(
            self.validation_fraction,
            n_parts=3 if raced.n_samples < CROSS_VALIDATE_BELOW else 1,
            n_folds=4,
            max_blended=next(most for size, most in BLENDED if n_samples <= size) if self.blend else 1,
            n_jobs=self.n_jobs,
            seed=seed,
        )
        share = 1.0 if is_whole and self.minutes is None else RACE_SHARE
        deadline = np.inf if self.minutes is None else began + share * 60.0 * self.minutes
        progress.say("preparing the race")
        panel = make_panel(raced, settings, sample_weight=weight, keeper=keeper)
        return Race(panel, names, settings, deadline=deadline, report=progress.report).run()

    def _finish(self, outcome: Outcome, fitting: WinnerFit, deadline: float, progress: RaceProgress) -> None:
        """Train the winners on all samples, or keep the policies that raced if there is no time left."""
        self.leaderboard_: Leaderboard = outcome.leaderboard
        self.is_logging_, self.is_interrupted_ = outcome.is_logging, outcome.is_interrupted
        parts: list[BoostedPolicy] = []
        try:
            if not outcome.is_interrupted and time.monotonic() < deadline:
                for number, winner in enumerate(outcome.winners):
                    progress.say(f"training the winner{'' if len(outcome.winners) == 1 else f' ({number + 1})'}")
                    policy = fitting.fit(winner).set_params(progress=False)  # the race shows it
                    # If training was cut short, all samples teach less than the race did.
                    was_cut = policy.stop_reason_ in (INTERRUPTED, TimeLimit.stop_reason)
                    is_short = was_cut and policy.n_rounds_ < MIN_RETRAINED * policy.n_rounds
                    parts.append(winner.trained() if is_short else policy)
                    if policy.stop_reason_ == INTERRUPTED:
                        raise KeyboardInterrupt
        except KeyboardInterrupt:
            self.is_interrupted_ = True
        parts += [winner.trained() for winner in outcome.winners[len(parts) :]]
        if len(parts) == 1:
            factor = 1.0 if outcome.is_logging else SHARPNESS * outcome.sharpness
            self.best_policy_ = parts[0].set_params(inverse_temperature=factor)
        else:
            self.best_policy_ = BlendedPolicy.of(parts, outcome.weights, inverse_temperature=outcome.sharpness)

    # -- What came of it ------------------------------------------------------------------------------------------

    def sharpened(self, inverse_temperature: float) -> Self:
        """Return a copy whose best policy acts at another inverse temperature; not possible for the logging policy."""
        check_is_fitted(self)
        if self.is_logging_:
            raise TypeError(
                "nothing beat the logging policy in the race, so the policy is the logging policy, which must not be "
                "sharpened. Leave out inverse_temperature."
            )
        sharp = copy(self)
        sharp.best_policy_ = self.best_policy_.sharpened(inverse_temperature)
        return sharp

    # -- Files ----------------------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        """Return the best policy, the leaderboard and the settings as JSON facts and arrays."""
        from bopl.policy.model_file import nest, to_plain

        facts, arrays = nest([self.best_policy_])
        names = ("minutes", "validation_fraction", "blend", "progress", "random_state")
        settings = {name: to_plain(getattr(self, name)) for name in names}
        for name in ("include", "exclude"):
            given = getattr(self, name)
            settings[name] = None if given is None else [str(one) for one in given]
        found = {
            "leaderboard": self.leaderboard_.to_dict(),
            "is_logging": self.is_logging_,
            "is_interrupted": self.is_interrupted_,
        }
        return {**facts, "settings": settings, "race": found}, arrays

    @classmethod
    def from_archive(cls, archive: Archive) -> AutoPolicy:
        """Return the policy of a model file; `bopl.load` calls this."""
        from bopl.policy.model_file import read_settings, restore_common, unnest

        policy = cls(**read_settings(archive.document["settings"], cls().get_params(deep=False)))
        restore_common(policy, archive)
        policy.best_policy_ = unnest(archive, policy, [BoostedPolicy.__name__, BlendedPolicy.__name__])[0]
        found = archive.document["race"]
        policy.leaderboard_ = Leaderboard.from_dict(found["leaderboard"])
        policy.is_logging_, policy.is_interrupted_ = bool(found["is_logging"]), bool(found["is_interrupted"])
        return policy

    # -- Notebooks ------------------------------------------------------------------------------------------------

    def _repr_html_inner(self) -> str:
        """Return the HTML for notebooks, instead of scikit-learn's diagram."""
        return race_card(self, repr(self))
