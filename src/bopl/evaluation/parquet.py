"""Evaluation of a log that does not fit into memory: one pass over Parquet row groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bopl._settings import check_number
from bopl.evaluation.accumulate import conclude
from bopl.evaluation.batches import Columns, find_batches
from bopl.evaluation.evaluation_settings import EvaluationSettings
from bopl.evaluation.evaluation_task import EvaluationTask
from bopl.evaluation.log_sums import add_part
from bopl.evaluation.margin import parse_guards
from bopl.evaluation.result import Evaluation
from bopl.evaluation.sources import named_policies
from bopl.log.format.columnar import open_parquet


def evaluate_parquet(
    path: str | Path | Sequence[str | Path],
    policies: object,
    *,
    action: str,
    reward: str,
    propensity: str,
    context: Sequence[str] | None = None,
    actions: object | None = None,
    group: str | None = None,
    estimators: object = None,
    interval: str = "normal",
    confidence: float = 0.95,
    min_uplift: object = 0.0,
    guards: object = (),
    segment: str | None = None,
    against: str | None = None,
    head_to_head: bool = False,
    simultaneous: bool = True,
    reward_model: object = None,
    logging_policy: object = None,
    n_replicates: int = 1000,
    reward_range: tuple[float, float] | None = None,
    min_propensity: float | None = None,
    exact_propensity: bool = False,
    random_state: int = 0,
    n_jobs: int | None = None,
    batch_rows: int = 1 << 18,
) -> Evaluation:
    """Evaluate policies on a log in Parquet files in one pass, a batch of rows at a time.

    The result is that of `evaluate` on the whole log, but for rounding; with ``interval="bootstrap"`` too, because a
    sample is drawn by its number.

    Parameters
    ----------
    path : str or Path, or a sequence of them
        Files of one log, in order.
    policies : policy, column name, or mapping of name to one of them
        An object with ``predict_proba``, or the name of a column with the policy's probability of the logged action.
    action, reward, propensity : str
        Names of the columns.
    context : sequence of str, optional
        Names of the context columns that policies and reward model look at; by default those that the policies
        remember, with their categories, else all without another role.
    actions : sequence of labels, optional
        All actions; by default those of the first policy that knows them, else those that occur (the action column is
        then read once more beforehand).
    group : str, optional
        Name of the column with the group of each sample, such as a user: intervals then allow for dependent samples. A
        group may be spread over batches and files. Memory grows with the number of groups, and the column is read once
        more beforehand.
    guards : sequence of str or Guard, optional
        As for `evaluate`; the rewards they name are columns, which are not part of the context.
    segment : str, optional
        Name of the column with the segment of each sample.
    reward_model : fitted model, optional
        For estimators that need one: fitted on other samples than these.
    batch_rows : int, default=262144
        Rows in memory at a time.
    estimators, interval, confidence, min_uplift, against, head_to_head, simultaneous, logging_policy, n_replicates, \
    reward_range, min_propensity, exact_propensity, random_state, n_jobs
        As for `evaluate`; ``against`` is the name of one of the policies.
    """
    check_number("batch_rows", batch_rows, low=1, integer=True)
    files = [open_parquet(one) for one in ([path] if isinstance(path, str | Path) else path)]
    if not files:
        raise ValueError("there is no file to evaluate on: path is empty.")
    named = named_policies(policies)
    guards = parse_guards(guards)
    columns = Columns(
        roles={"action": action, "reward": reward, "propensity": propensity} | ({"group": group} if group else {}),
        policies={name: policy for name, policy in named.items() if isinstance(policy, str)},
        guards=tuple(guard.reward for guard in guards),
        segment=segment,
    )
    columns.check(files, context)
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
    n_samples = sum(file.metadata.num_rows for file in files)
    task = EvaluationTask(settings, named, reward_model, logging_policy, n_samples=n_samples)
    batches = find_batches(files, columns, task, context, actions, batch_rows)
    sums = None
    for batch, prob, numbers in batches.read():
        sources = task.read(batch.with_exact_propensity(exact_propensity), prob, numbers)
        sums = add_part(task, sums, sources)
    return conclude(task, sums)
