import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bopl
from bopl.evaluation import ClippedIPS
from bopl.simulation import make_world
from product import click_table

WORLD = make_world("plain")
SAMPLE = WORLD.sample(1, n_samples=1500)
LOG = SAMPLE.log
PROB = SAMPLE.policy_prob[np.arange(1500), LOG.action_idx]
ESTIMATORS = ["ips", "clipped_ips", "snips", "beta_ips"]


class WorldPolicy:
    """The world's policy as an object: looks the context up."""

    actions_ = np.arange(5)

    def predict_proba(self, context):
        at = np.argmin(((WORLD.context[None] - context[:, None]) ** 2).sum(axis=2), axis=1)
        return WORLD.policy_prob[at]


@pytest.fixture
def parquet(tmp_path):
    columns = {f"x{i}": LOG.context[:, i] for i in range(4)}
    columns |= {"item": LOG.action, "click": LOG.reward, "p": LOG.propensity, "new": PROB}
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=400)
    return path


ROLES = {"action": "item", "reward": "click", "propensity": "p"}


@pytest.mark.parametrize("interval", ["normal", "bootstrap", "empirical_bernstein", "log_smoothing", "betting"])
def test_a_pass_over_row_groups_equals_the_whole_log(parquet, interval):
    estimators = ESTIMATORS if interval in ("normal", "bootstrap") else "ips"
    whole = bopl.evaluate(LOG, {"new": PROB}, estimators=estimators, interval=interval, n_replicates=60)
    parts = bopl.evaluate_parquet(
        parquet, {"new": "new"}, estimators=estimators, interval=interval, n_replicates=60, **ROLES
    )
    pd.testing.assert_frame_equal(whole.table, parts.table, rtol=1e-11)


def test_policies_and_models_are_scored_batch_by_batch(parquet):
    model = bopl.BoostedRewardModel(n_rounds=10).fit(WORLD.sample(50, n_samples=800).log)
    arguments = {"estimators": ["ips", "dm", "dr", "sndr"], "reward_model": model}
    whole = bopl.evaluate(LOG, {"new": WorldPolicy()}, **arguments)
    parts = bopl.evaluate_parquet(
        parquet, {"new": WorldPolicy()}, context=["x0", "x1", "x2", "x3"], **arguments, **ROLES
    )
    pd.testing.assert_frame_equal(whole.table, parts.table, rtol=1e-11)


def test_rows_of_a_batch_are_a_setting_without_effect(parquet):
    with pytest.warns(FutureWarning, match="batch_rows has no effect"):
        bopl.evaluate_parquet(parquet, "new", batch_rows=170, **ROLES)


def test_a_column_may_be_a_policy_beside_its_role(parquet):
    row = bopl.evaluate_parquet(parquet, {"logging": "p"}, **ROLES).row("logging", "ips")
    assert (row.uplift, row.mean_weight) == (0.0, 1.0)


def test_several_files_are_one_log(parquet, tmp_path):
    table = pq.read_table(parquet)
    for number in range(3):
        pq.write_table(table.slice(500 * number, 500), tmp_path / f"part{number}.parquet")
    whole = bopl.evaluate_parquet(parquet, "new", interval="bootstrap", n_replicates=40, **ROLES)
    parts = bopl.evaluate_parquet(
        [tmp_path / f"part{number}.parquet" for number in range(3)],
        "new",
        interval="bootstrap",
        n_replicates=40,
        **ROLES,
    )
    pd.testing.assert_frame_equal(whole.table, parts.table, rtol=1e-11)


@pytest.mark.parametrize("interval", ["normal", "bootstrap"])
def test_shards_accumulated_apart_merge_to_the_whole(interval):
    estimators = ["ips", ClippedIPS(5.0), "snips", "beta_ips", "dr", "sndr"]
    arguments = {"estimators": estimators, "interval": interval, "n_replicates": 40}
    whole = bopl.evaluate(LOG, {"new": WorldPolicy()}, reward_model=SAMPLE.reward_hat, **arguments)
    shards = []
    for start, stop in ((0, 400), (400, 401), (401, 1500)):
        shard = bopl.ValueAccumulator({"new": WorldPolicy()}, reward_model=SAMPLE.reward_hat[start:stop], **arguments)
        shard.add(LOG.subset(slice(start, stop)), first_row=start)
        shards.append(shard)
    shards[2].merge(shards[0])
    shards[2].merge(shards[1])
    pd.testing.assert_frame_equal(whole.table, shards[2].result().table, rtol=1e-11)
    for name in ("value", "std_err", "uplift", "ess", "mean_weight"):
        np.testing.assert_allclose(whole.table[name], shards[2].result().table[name], rtol=1e-12)


def test_groups_are_accumulated_too():
    grouped = bopl.BanditLog(LOG.context, LOG.action, LOG.reward, LOG.propensity, group=np.arange(1500) // 7)
    for interval in ("normal", "bootstrap"):
        whole = bopl.evaluate(grouped, PROB, interval=interval, n_replicates=40)
        total = bopl.ValueAccumulator(None, interval=interval, n_replicates=40)
        for rows in (slice(0, 500), slice(500, 1500)):
            total.add(grouped.subset(rows), policies={"policy": PROB[rows]})
        pd.testing.assert_frame_equal(whole.table, total.result().table, rtol=1e-11)


GROUPS = {
    "numbers": (np.arange(1500) * 7919 % 211) * 10_000_000_000,
    "text": np.array([f"user {number}" for number in np.arange(1500) * 7919 % 211]),
    "days": np.datetime64("2024-01-01") + np.arange(1500) * 7919 % 211,
}


@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("interval", ["normal", "bootstrap"])
def test_groups_are_gathered_over_batches_and_files(parquet, tmp_path, kind, interval):
    label = GROUPS[kind]
    table = pq.read_table(parquet).append_column("user", pa.array(label))
    if kind == "text":
        table = table.set_column(table.num_columns - 1, "user", table["user"].dictionary_encode())
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    pq.write_table(table.slice(0, 900), files[0])
    pq.write_table(table.slice(900), files[1])
    arguments = {"interval": interval, "n_replicates": 60}
    parts = bopl.evaluate_parquet(files, {"new": "new"}, group="user", **arguments, **ROLES)
    grouped = bopl.BanditLog(LOG.context, LOG.action, LOG.reward, LOG.propensity, group=pa.chunked_array([label]))
    whole = bopl.evaluate(grouped, {"new": PROB}, **arguments)
    pd.testing.assert_frame_equal(whole.table, parts.table, rtol=1e-11)
    alone = bopl.evaluate(LOG, {"new": PROB}, **arguments)
    assert alone.rows[0]["std_err"] != parts.rows[0]["std_err"]


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_sample_without_a_group_is_refused(parquet, missing):
    labels = pa.array([1.0] * 1499 + [missing])
    table = pq.read_table(parquet).append_column("user", labels)
    pq.write_table(table, parquet)
    with pytest.raises(ValueError, match="group is missing in 1 of 1500 samples, the first at row 1499"):
        bopl.evaluate_parquet(parquet, "new", group="user", **ROLES)


@pytest.mark.parametrize("group", [np.arange(7), np.arange(1500.0), np.arange(1500) - 1])
def test_group_numbers_that_cannot_be_are_refused(group):
    with pytest.raises(ValueError, match="group must hold 1500 integers of at least 0, one per sample"):
        bopl.ValueAccumulator(None).add(LOG, policies={"policy": PROB}, group=group)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group": "user"}, "no column 'user' .given as group."),
        ({"propensity": "q"}, "no column 'q' .given as propensity.; the columns are 'x0'"),
        ({"context": ["age"]}, "no column 'age'"),
        (
            {"context": ["x0", "click"]},
            "context contains 'click', which is also the action, reward, propensity or group",
        ),
        ({"context": ["p"]}, "context contains 'p'"),
        ({"propensity": "click"}, "one column is given two roles"),
        ({"policies": "other"}, "no column 'other' .given as policy 'policy'."),
        ({"path": "missing.parquet"}, "there is no file 'missing.parquet'"),
        ({"path": []}, "there is no file to evaluate on"),
        ({"estimators": "dr"}, "needs the probabilities of all actions"),
        ({"policies": WorldPolicy(), "estimators": "dr"}, "need one that was fitted on other samples"),
    ],
)
def test_bad_requests_are_refused(parquet, change, message):
    arguments = {"path": parquet, "policies": "new", **ROLES, **change}
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        bopl.evaluate_parquet(arguments.pop("path"), arguments.pop("policies"), **arguments)


def test_accumulators_that_do_not_fit_together_are_refused():
    def filled(**settings):
        one = bopl.ValueAccumulator({"a": None}, **settings)
        one.add(LOG, policies={"a": PROB})
        return one

    empty = bopl.ValueAccumulator({"a": None})
    with pytest.raises(ValueError, match="nothing has been added yet"):
        empty.result()
    with pytest.raises(ValueError, match="swap the two"):
        empty.merge(filled())
    with pytest.raises(ValueError, match="different settings"):
        filled(estimators=ClippedIPS(2.0)).merge(filled(estimators=ClippedIPS(3.0)))
    with pytest.raises(ValueError, match="same actions and the same source"):
        filled().add(LOG.with_propensity("uniform"), policies={"a": PROB})
    other_order = bopl.BanditLog(LOG.context, LOG.action, LOG.reward, LOG.propensity, actions=LOG.actions[::-1])
    with pytest.raises(ValueError, match="same actions and the same source"):
        filled().add(other_order, policies={"a": PROB})
    with pytest.raises(ValueError, match="either all parts of a log have groups, or none has"):
        filled().add(LOG, policies={"a": PROB}, group=np.arange(1500))
    for mine, yours in (
        ({}, {"interval": "bootstrap"}),
        ({}, {"confidence": 0.5}),
        ({}, {"reward_range": (0.0, 9.0)}),
        ({}, {"min_propensity": 1e-6}),
        ({"interval": "bootstrap"}, {"interval": "bootstrap", "random_state": 1}),
        ({"interval": "bootstrap"}, {"interval": "bootstrap", "n_replicates": 20}),
    ):
        with pytest.raises(ValueError, match="the shards differ in their policies, actions, interval, confidence"):
            filled(**mine).merge(filled(**yours))
    assert filled().merge(filled()) is None


class RefusingPolicy:
    """A policy that is no policy on contexts with a large first column."""

    def predict_proba(self, context):
        prob = np.tile([0.1, 0.2, 0.3, 0.2, 0.2], (context.shape[0], 1))
        return np.where(context[:, :1] > 100.0, 0.9, prob)


@pytest.mark.parametrize("interval", ["normal", "bootstrap", "betting"])
def test_a_part_or_a_shard_that_is_refused_leaves_nothing_behind(interval, monkeypatch):
    monkeypatch.setattr("bopl._policy_reader.BLOCK_ROWS", 100)
    spoilt_context = LOG.context.copy()
    spoilt_context[-1, 0] = 1e3  # in the last block
    spoilt = bopl.BanditLog(spoilt_context, LOG.action, LOG.reward, LOG.propensity, actions=LOG.actions)

    def filled(parts, estimators="ips"):
        settings = {"interval": interval, "n_replicates": 20, "reward_range": (0.0, 1.0)}
        one = bopl.ValueAccumulator({"a": WorldPolicy(), "b": RefusingPolicy()}, estimators=estimators, **settings)
        for part in parts:
            one.add(part)
        return one

    total, clean = filled([LOG]), filled([LOG, LOG])
    too_high = bopl.BanditLog(LOG.context, LOG.action, LOG.reward + 9.0, LOG.propensity, actions=LOG.actions)
    for part, message in ((spoilt, "do not sum to one"), (too_high, "does not hold the rewards")):
        with pytest.raises(ValueError, match=message):
            total.add(part)
    if interval == "bootstrap":
        with pytest.raises(ValueError, match="were added before"):
            total.merge(filled([LOG]))
    if interval != "betting":
        with pytest.raises(ValueError, match="different settings"):
            total.merge(filled([LOG], estimators=ClippedIPS(3.0)))
    total.add(LOG)
    assert total.result().to_dict() == clean.result().to_dict()
    first = filled([])
    with pytest.raises(ValueError, match="do not sum to one"):
        first.add(spoilt)
    with pytest.raises(ValueError, match="nothing has been added yet"):
        first.result()


def test_samples_of_one_number_would_be_drawn_alike_and_are_refused():
    shards = [bopl.ValueAccumulator({"a": None}, interval="bootstrap", n_replicates=20) for _ in range(2)]
    for shard in shards:
        shard.add(LOG, policies={"a": PROB})
    with pytest.raises(ValueError, match=r"rows 0 to 1499 were added before.*pass first_row"):
        shards[0].merge(shards[1])
    with pytest.raises(ValueError, match=r"rows 1499 to 2998 were added before"):
        shards[0].add(LOG, policies={"a": PROB}, first_row=1499)


def test_policies_that_remember_their_columns_need_no_names(tmp_path):
    roles = {"action": "item", "reward": "click", "propensity": "p"}
    pq.write_table(click_table(600), tmp_path / "log.parquet")
    log = bopl.BanditLog.read(tmp_path / "log.parquet", ignore=["user"], **roles)
    policy = bopl.BoostedPolicy(n_rounds=3, reward_translation=-0.3, random_state=0).fit(log)
    streamed = bopl.evaluate_parquet(tmp_path / "log.parquet", {"new": policy}, **roles)
    whole = bopl.evaluate(log, {"new": policy})
    assert streamed.row("new", "snips")["value"] == pytest.approx(whole.row("new", "snips")["value"], rel=1e-12)
