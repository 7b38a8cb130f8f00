"""`evaluate`: is the policy better than what runs now, by how much, how sure are we, and can this log answer at all?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bopl._errors import UsageError
from bopl._settings import check_flag, check_number
from bopl._typing import FloatArray
from bopl.evaluation.answer import conclude
from bopl.evaluation.confounding import with_confounding
from bopl.evaluation.evaluation_task import EvaluationSettings, EvaluationTask
from bopl.evaluation.log_sums import sum_part
from bopl.evaluation.pieces import check_suits_pieces, evaluate_pieces
from bopl.evaluation.result import Evaluation
from bopl.evaluation.sources import PropensityOrigin, with_running
from bopl.log import BanditLog, PartitionedLog


def evaluate(
    log: BanditLog | PartitionedLog,
    policies: object,
    *,
    estimators: object = None,
    interval: str = "normal",
    confidence: float = 0.95,
    min_uplift: object = 0.0,
    guards: object = (),
    segment: object = None,
    against: object = None,
    head_to_head: bool = False,
    simultaneous: bool = True,
    reward_model: object = None,
    propensity: str | None = None,
    propensity_model: object = None,
    logging_policy: object = None,
    logger: object = None,
    logger_propensity: object = None,
    exact_propensity: bool | None = None,
    n_folds: int = 5,
    n_replicates: int = 1000,
    reward_range: tuple[float, float] | None = None,
    min_propensity: float | None = None,
    confounding: bool | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    cluster: object = None,
) -> Evaluation:
    """Estimate the value of policies from a log, with intervals and a verdict against the logging policy.

    A log in pieces is read one piece at a time. The numbers are those of the log in memory, but for rounding; settings
    that estimators choose from the data are chosen from the first piece.

    Parameters
    ----------
    log : BanditLog or PartitionedLog
        Samples that the policies were not trained on. If it has groups, intervals and folds respect them.
    policies : policy, or mapping of name to policy
        A policy is an object with ``predict_proba``, an array of shape (n_samples, n_actions), or an array of shape
        (n_samples,) with the probabilities of the logged actions: O(n) memory for any number of actions, enough for
        estimators without a reward model.
    estimators : sequence of names or Estimators, or "all", optional
        Names are ``ips, clipped_ips, snips, dm, dr, sndr, switch_dr, dr_shrinkage, beta_ips``. By default IPS and
        SNIPS, and DR if a reward model is given.
    interval : {"normal", "bootstrap", "empirical_bernstein", "log_smoothing", "betting"}, default="normal"
        The first two hold for many samples and any estimator; the last three for any number of samples, for IPS.
    confidence : float in (0, 1), default=0.95
        Confidence level of the intervals and of the verdict.
    min_uplift : float or str, default=0
        Smallest uplift of interest, per decision (``0.001``) or as a share of what is earned now (``"1%"``): a policy
        is `better` only if the lower bound of its uplift exceeds this.
    guards : sequence of str or Guard, optional
        Other rewards that must not get worse, such as ``["revenue>=-1%", "complaints<=+0.002"]``; the log has them as
        ``other_rewards``. A policy is `better` only if it keeps all of them.
    segment : sequence of shape (n_samples,), optional
        Segment of each sample; by default the log's ``segment``. Every segment gets an uplift with an interval.
    against : policy, or name of one of ``policies``, optional
        The policy that runs now, if it is not the logging policy: verdicts are on the paired difference from it.
    head_to_head : bool, default=False
        Compare every policy with every other one, paired on the same samples.
    simultaneous : bool, default=True
        Make the verdicts on several policies hold together: with twenty candidates, each gets a twentieth of the error.
    reward_model : model or array of shape (n_samples, n_actions), optional
        For estimators that need one. A model that is not fitted is cross-fitted here (`bopl.BoostedRewardModel` by
        default, or any scikit-learn regressor); a fitted one must have been fitted on other samples.
    propensity : {"estimate", "uniform"}, optional
        For a log without propensities (or instead of those it has): fit a model of the logging policy, see
        `bopl.estimate_propensity`, or declare it uniform.
    propensity_model : scikit-learn classifier, optional
        For ``propensity="estimate"``.
    logging_policy : object with ``predict_proba`` or array of shape (n_samples, n_actions), optional
        The policy that wrote the log. If it is given, the uplift of estimators with a reward model is sharper.
    logger, logger_propensity : optional
        For a log that several policies wrote: which one wrote each sample, and the probability that each of them would
        have given to the logged actions, as for `BanditLog.balanced`.
    exact_propensity : bool, optional
        Whether the propensities are exact, however few digits they have: intervals are then not widened for rounding.
        By default what the log says.
    n_folds : int, default=5
        Number of folds for cross-fitting.
    n_replicates : int, default=1000
        Number of bootstrap replicates.
    reward_range : (float, float), optional
        Smallest and largest possible reward, for bounds; by default [0, 1] if all rewards lie there, else the range
        seen.
    min_propensity : float, optional
        Smallest probability with which the logging policy takes an action, for ``"empirical_bernstein"``; by default
        the smallest seen.
    confounding : bool, optional
        Report by how much an unmeasured cause would have to shift the odds of actions to overturn each verdict
        (`bopl.evaluation.confounding`); by default only if propensities are estimated.
    random_state : int, default=0
        Seed of folds and replicates.
    n_jobs : int, optional
        Number of threads for the bootstrap; all cores by default. It does not change the result.
    cluster : distributed.Client, str or Cluster, optional
        A Dask client, or the address of its scheduler, whose workers evaluate the pieces of a log in pieces; the result
        is the same.

    Returns
    -------
    Evaluation
        With ``.table``, ``.plot()``, ``.to_json()``.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> rng = np.random.default_rng(0)
    >>> context, action = rng.normal(size=(2000, 2)), rng.integers(0, 2, size=2000)
    >>> reward = (action == (context[:, 0] > 0)).astype(float)
    >>> log = bopl.BanditLog(context, action, reward, np.full(2000, 0.5))
    >>> good = np.column_stack([context[:, 0] <= 0, context[:, 0] > 0]).astype(float)
    >>> evaluation = bopl.evaluate(log, {"good": good})
    >>> evaluation.row("good", "snips")["value"], evaluation.row("good", "snips")["verdict"]
    (1.0, 'better')
    """
    if not isinstance(log, BanditLog | PartitionedLog):
        raise TypeError(f"evaluate takes a BanditLog or a PartitionedLog; got {type(log).__name__}.")
    check_number("n_folds", n_folds, low=2, integer=True)
    policies, against = with_running(policies, against)
    settings = EvaluationSettings(
        estimators=estimators,
        interval=interval,
        confidence=confidence,
        min_uplift=min_uplift,
        guards=guards,
        against=against,
        head_to_head=head_to_head,
        simultaneous=simultaneous,
        n_replicates=n_replicates,
        reward_range=reward_range,
        min_propensity=min_propensity,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    task = EvaluationTask(settings, policies, reward_model)
    log = log if exact_propensity is None else log.with_exact_propensity(exact_propensity)
    origin = PropensityOrigin(propensity, propensity_model, logging_policy, logger, logger_propensity)
    if isinstance(log, PartitionedLog):
        check_suits_pieces(origin, segment, confounding, reward_model)
        log, logging_policy = origin.on_pieces(log)
        return evaluate_pieces(log, replace(task, logging_policy=logging_policy, n_samples=log.n_samples), cluster)
    if cluster is not None:
        raise UsageError("cluster= evaluates the pieces of a log in pieces: make one with BanditLog.scan_parquet.")
    log, logging_policy = origin.on(log if segment is None else log.with_segment(segment), n_folds, random_state)
    return _evaluate_whole(log, replace(task, logging_policy=logging_policy, n_folds=n_folds), confounding)


def _evaluate_whole(log: BanditLog, task: EvaluationTask, confounding: bool | None) -> Evaluation:
    if confounding is not None:
        check_flag("confounding", confounding)
    sources = task.read(log)
    sums = sum_part(task, sources, 0, settles=True)
    evaluation = conclude(task, sums)
    asks = log.has_estimates if confounding is None else confounding
    return with_confounding(evaluation, task, sums, replace(sources, unit=sums.books.main.unit)) if asks else evaluation


def compare(
    log: BanditLog,
    policies: Mapping[str, object],
    *,
    against: object = None,
    estimators: object = None,
    confidence: float = 0.95,
    min_uplift: object = 0.0,
    guards: object = (),
    segment: object = None,
    reward_model: object = None,
    logging_policy: object = None,
    random_state: int = 0,
) -> Evaluation:
    """Compare policies head to head: each with each other, or all with the one that runs now.

    Differences are paired: both policies are judged by the same samples, and what they share cancels. Intervals and
    verdicts hold for all comparisons together.

    Parameters
    ----------
    log : BanditLog
        Held-out samples.
    policies : mapping of name to policy
        Policies to compare with each other; as for `evaluate`.
    against : policy, or name of one of ``policies``, optional
        The policy that runs now; by default every policy is compared with every other one.
    estimators, confidence, min_uplift, guards, segment, reward_model, logging_policy, random_state
        As for `evaluate`.

    Returns
    -------
    Evaluation
        With ``.comparisons``.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(0, 2, size=2000)
    >>> log = bopl.BanditLog(rng.normal(size=(2000, 1)), action, action + rng.normal(size=2000), np.full(2000, 0.5))
    >>> first, second = np.tile([0.4, 0.6], (2000, 1)), np.tile([0.2, 0.8], (2000, 1))
    >>> row = bopl.compare(log, {"new": second}, against=first).comparisons[0]
    >>> row["policy"], row["other"], row["verdict"]
    ('new', 'running', 'better')
    """
    return evaluate(
        log,
        policies,
        estimators=estimators,
        confidence=confidence,
        min_uplift=min_uplift,
        guards=guards,
        segment=segment,
        against=against,
        head_to_head=against is None,
        reward_model=reward_model,
        logging_policy=logging_policy,
        random_state=random_state,
    )


def off_policy_score(
    log: BanditLog, logged_prob: FloatArray, *, estimator: object = "snips", confidence: float | None = None
) -> float:
    """Return the estimated value of a policy, or a lower confidence bound on it (`bopl.evaluate`).

    The log has held-out samples. A policy that never agrees with it gets the worst reward seen, because no sample
    supports it. ``logged_prob``, of shape (n_samples,), are the policy's probabilities of the logged actions; the
    estimator, by name or as an object, needs no reward model. The lower bound has the one-sided ``confidence``, in
    (0.5, 1); by default the value itself is returned.
    """
    if not logged_prob.any():
        return float(log.reward.min())
    two_sided = 0.95 if confidence is None else 2.0 * confidence - 1.0
    row = evaluate(log, logged_prob, estimators=estimator, confidence=two_sided).row()
    return row.value if confidence is None else row.ci_lower
