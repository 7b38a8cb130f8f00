"""Sound files for the fuzzers to spoil: one of every kind of policy, checkpoint and log, all of them tiny."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
from pyarrow import ipc
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import bopl
from bopl.baseline import (
    BanditNetPolicy,
    BoostedRewardPolicy,
    LoggingPolicy,
    UniformPolicy,
    XGBRewardPolicy,
)
from bopl.baseline.network import Network, fit_scaling
from bopl.boosting import Start
from bopl.log.input_layout import fit_layout
from bopl.reward.network_model import Layers

N_SAMPLES = 120
ROLES = {"action": "action", "reward": "reward", "propensity": "propensity"}


def make_frame(n_samples: int = N_SAMPLES) -> pd.DataFrame:
    """Return a small log with numbers, gaps, text, a flag and a time."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_samples, 2))
    action = rng.integers(0, 3, n_samples)
    gap = np.where(rng.random(n_samples) < 0.1, np.nan, x[:, 1])
    return pd.DataFrame(
        {
            "x": x[:, 0],
            "gap": gap,
            "city": rng.choice(["Rom", "Ulm", "Bern"], n_samples),
            "is_new": rng.random(n_samples) < 0.5,
            "at": pd.Timestamp("2024-05-01") + pd.to_timedelta(np.arange(n_samples), unit="h"),
            "action": np.array(["a", "b", "c"])[action],
            "reward": (action == (x[:, 0] > 0)).astype(float),
            "propensity": np.full(n_samples, 1 / 3),
        }
    )


def frame_log() -> bopl.BanditLog:
    """Return the log of the frame."""
    return bopl.BanditLog.from_frame(make_frame(), **ROLES)


def plain_log(*, n_actions: int = 3, has_features: bool = False) -> bopl.BanditLog:
    """Return a log of three columns of numbers, with features of the actions if asked for."""
    rng = np.random.default_rng(1)
    context, action = rng.normal(size=(N_SAMPLES, 3)), rng.integers(0, n_actions, N_SAMPLES)
    features = rng.normal(size=(n_actions, 2)) if has_features else None
    reward = (action % 2 == (context[:, 0] > 0)).astype(float)
    propensity = np.full(N_SAMPLES, 1 / n_actions)
    return bopl.BanditLog(context, action, reward, propensity, actions=range(n_actions), action_features=features)


def small_tree() -> bopl.HistTree:
    """Return the learner of most seeds."""
    return bopl.HistTree(max_depth=3, min_child_weight=2.0, n_jobs=1)


def write_policies(folder: Path) -> None:
    """Write one policy of every kind that a file can hold."""
    log, plain = frame_log(), plain_log()
    quick = {"n_rounds": 3, "random_state": 0}
    policies = {
        "start": bopl.BoostedPolicy("dr", small_tree(), **quick).fit(log),
        "frame": bopl.BoostedPolicy("ips", small_tree(), reward_translation=-0.1, **quick).fit(log),
        "plain": bopl.BoostedPolicy("surrogate", small_tree(), reward_translation=-0.1, **quick).fit(plain),
        "features": bopl.BoostedPolicy("ips", small_tree(), **quick).fit(plain_log(has_features=True)),
        "many": bopl.BoostedPolicy("ips", small_tree(), **quick).fit(plain_log(n_actions=70)),
        "tree": bopl.BoostedPolicy("ips", DecisionTreeRegressor(max_depth=3), **quick).fit(plain),
        "linear": bopl.BoostedPolicy("ips", Ridge(), **quick).fit(plain),
        "xgb_tree": bopl.BoostedPolicy("ips", bopl.XGBTree("hist", max_depth=2), **quick).fit(plain),
        "reward": BoostedRewardPolicy(small_tree(), n_rounds=3).fit(log),
        "logging": LoggingPolicy().fit(log),
        "uniform": UniformPolicy().fit(log),
        "xgb": XGBRewardPolicy(n_rounds=3, max_depth=2, n_jobs=1).fit(plain),
    }
    policies["blend"] = bopl.BlendedPolicy.of([policies["frame"], policies["start"]])
    policies["auto"] = bopl.AutoPolicy(include=["ips"], n_jobs=1, progress=False, random_state=0).fit(log)
    policies["net"] = _network_policy(plain)
    policies["layers"] = _with_layers(policies["plain"], plain)
    for name, policy in policies.items():
        policy.save(folder / f"{name}.bopl")


def _network_policy(log: bopl.BanditLog) -> BanditNetPolicy:
    """Return a network policy that no PyTorch has trained."""
    rng = np.random.default_rng(2)
    single = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    policy = BanditNetPolicy()
    scaling = fit_scaling(log.context, "standard")
    policy.network_ = Network(
        scaling, single(3, 4), single(log.n_actions, 4), (single(4, 2), single(2, 1)), (single(2), single(1))
    )
    policy.best_epoch_ = 1
    policy.history_ = {name: np.ones(1) for name in ("epoch", "loss", "snips_value")}
    policy._remember(log)
    return policy


def _with_layers(policy: bopl.BoostedPolicy, log: bopl.BanditLog) -> bopl.BoostedPolicy:
    """Return a policy that starts from a network."""
    rng = np.random.default_rng(3)
    single = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    weights, biases = (single(3, 4), single(4, log.n_actions)), (single(4), single(log.n_actions))
    layers = Layers(fit_layout(log.context), single(3), single(3), weights, biases)
    changed = bopl.BoostedPolicy("surrogate", small_tree(), n_rounds=3).fit(log)
    changed.ensemble_ = replace(policy.ensemble_, start=Start("reward_model", (layers,), (0.5,)))
    return changed


def write_checkpoints(folder: Path) -> None:
    """Write checkpoints of fits with trees of the engine and of scikit-learn."""
    for name, learner in (("hist", small_tree()), ("tree", DecisionTreeRegressor(max_depth=3))):
        policy = bopl.BoostedPolicy("ips", learner, n_rounds=3, random_state=0)
        policy.fit(plain_log(), callbacks=[bopl.Checkpoint(folder / f"{name}.ckpt", every=1)])


def write_logs(folder: Path) -> None:
    """Write the same log in every format."""
    frame = make_frame(40)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    coded = table.set_column(2, "city", table["city"].dictionary_encode())
    pq.write_table(table, folder / "plain.parquet", compression="none")
    pq.write_table(coded, folder / "coded.parquet", compression="snappy", write_page_checksum=True)
    pa.feather.write_feather(table, folder / "packed.feather", compression="lz4")
    for name, one in (("plain", table), ("coded", coded)):
        with ipc.new_file(folder / f"{name}.arrow", one.schema) as file:
            file.write_table(one)
        with ipc.new_stream(folder / f"{name}.ipc", one.schema) as stream:
            stream.write_table(one)
    frame.to_csv(folder / "plain.csv", index=False)
    frame.to_csv(folder / "packed.csv.gz", index=False)
    text = frame.assign(at=frame["at"].astype(str)).replace({np.nan: None})
    lines = [json.dumps(row) for row in text.to_dict("records")]
    (folder / "plain.jsonl").write_text("\n".join(lines) + "\n", encoding="utf8")
    _write_vowpal(frame, folder)
    _write_open_bandit(folder)


def _write_vowpal(frame: pd.DataFrame, folder: Path) -> None:
    number = {"a": 1, "b": 2, "c": 3}
    vw, ds = [], []
    for row in frame.itertuples():
        taken = number[row.action]
        vw.append(f"{taken}:{-row.reward}:{row.propensity} |u x:{row.x:.4f} city={row.city} new:{int(row.is_new)}")
        offered = [{"Action": {"id": name}} for name in number]
        ds.append(
            json.dumps(
                {
                    "_label_cost": -row.reward,
                    "_label_probability": row.propensity,
                    "_label_Action": taken,
                    "_labelIndex": taken - 1,
                    "Timestamp": row.at.isoformat() + "Z",
                    "a": [taken, *(other for other in (1, 2, 3) if other != taken)],
                    "p": [row.propensity] * 3,
                    "c": {"User": {"x": row.x, "city": row.city}, "_multi": offered},
                }
            )
        )
    (folder / "plain.vw").write_text("\n".join(vw) + "\n", encoding="utf8")
    (folder / "plain.dsjson").write_text("\n".join(ds) + "\n", encoding="utf8")


def _write_open_bandit(folder: Path) -> None:
    rng = np.random.default_rng(4)
    rows = [",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1"]
    for k in range(40):
        item, click = rng.integers(0, 3), rng.integers(0, 2)
        rows.append(f"{k},2019-11-24 00:{k:02d}:00.0+00:00,{item},1,{click},0.333,u{k % 4},v{k % 3}")
    (folder / "bandit.csv").write_text("\n".join(rows) + "\n", encoding="utf8")


def write_seeds(folder: Path) -> None:
    """Write all seeds into sub-folders by target."""
    for name, write in (("policy", write_policies), ("checkpoint", write_checkpoints), ("log", write_logs)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        write(folder / name)
