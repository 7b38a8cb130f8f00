"""Write policies and a checkpoint of today's formats to ``policy/files/``, with what they predict now.

Run it once when a format number moves, and keep the files: every later version has to read them.

    python tests/kept_files.py
"""

from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge

import bopl
from bopl.boosting.checkpoint import FORMAT_NUMBER as CHECKPOINT_FORMAT
from bopl.policy.model_file import FORMAT_NUMBER
from bopl.reward import NetworkRewardModel
from helpers import informative_log

FILES = Path(__file__).parent / "policy" / "files"
NAMES = ("dr", "surrogate", "blend", "auto", "reward", "logging", "uniform")
EXTRA_NAMES = ("linear", "sparse_tree", "network", "xgb_reward", "deep_reward", "bandit_net")
# Products of matrices add up in an order that depends on the processor: of float64, and of float32.
ROUGH = {"linear": 1e-12, "network": 1e-5, "deep_reward": 1e-5, "bandit_net": 1e-5}
N_ROUNDS = 3  # of the checkpoint; resuming goes on to twice as many


def small_log():
    """Return the log that all files are made of."""
    return informative_log(5, n_samples=120)


def small_tree():
    return bopl.HistTree(2, min_child_weight=5.0, n_jobs=1)


def checkpointed_policy(n_rounds):
    """Return the policy, not fitted, whose fit the checkpoint is of."""
    return bopl.BoostedPolicy("ips", small_tree(), n_rounds, reward_translation=-0.2, progress=False, random_state=3)


def policies(log):
    """Return fitted policies of the classes that need no further package, by the name of their file."""
    model = bopl.BoostedRewardModel(small_tree(), n_rounds=2)
    dr = bopl.BoostedPolicy("dr", small_tree(), 2, reward_model=model, progress=False, random_state=0).fit(log)
    surrogate = bopl.BoostedPolicy("surrogate", small_tree(), 2, progress=False, random_state=0).fit(log)
    auto = bopl.AutoPolicy(include=["regression"], n_jobs=1, progress=False, random_state=0).fit(log)
    blend = bopl.BlendedPolicy.of([dr, surrogate], [0.25, 0.75])
    reward = bopl.baseline.BoostedRewardPolicy(small_tree(), n_rounds=2, n_jobs=1).fit(log)
    others = (kind().fit(log) for kind in (bopl.baseline.LoggingPolicy, bopl.baseline.UniformPolicy))
    return dict(zip(NAMES, (dr, surrogate, blend, auto, reward, *others), strict=True))


def extra_policies(log):
    """Return policies whose fits need PyTorch or XGBoost, and kinds of predictors that the others do not have."""
    settings = {"progress": False, "random_state": 0}
    sparse = bopl.BanditLog(csr_array(log.context), log.action, log.reward, log.propensity, actions=log.actions)
    network = NetworkRewardModel((4,), n_epochs=2, device="cpu", random_state=0)
    small = {"first_layer_width": 4, "n_hidden_layers": 1, "n_epochs": 2, "device": "cpu"}
    made = (
        bopl.BoostedPolicy("ips", Ridge(), 2, **settings).fit(log),
        bopl.BoostedPolicy("ips", bopl.XGBTree(max_depth=2, n_jobs=1), 2, **settings).fit(sparse),
        bopl.BoostedPolicy("dr", small_tree(), 1, start="reward_model", reward_model=network, **settings).fit(log),
        bopl.baseline.XGBRewardPolicy(2, 2, n_jobs=1, random_state=0).fit(log),
        bopl.baseline.DeepRewardPolicy(**small, **settings).fit(log),
        bopl.baseline.BanditNetPolicy(**small, **settings).fit(log),
    )
    return dict(zip(EXTRA_NAMES, made, strict=True))


def main():
    """Write the files."""
    log = small_log()
    context = log.context[:20]
    for name, policy in (policies(log) | extra_policies(log)).items():
        path = FILES / f"format-{FORMAT_NUMBER}-{name}.bopl"
        policy.save(path)
        predicted = {"context": context, "action_prob": policy.predict_proba(context), "id": policy.policy_id}
        rough = {"rtol": ROUGH[name]} if name in ROUGH else {}
        np.savez_compressed(path.with_suffix(".npz"), **predicted, **rough)
    path = FILES / f"checkpoint-{CHECKPOINT_FORMAT}.ckpt"
    checkpointed_policy(N_ROUNDS).fit(log, callbacks=[bopl.Checkpoint(path, every=N_ROUNDS)])
    whole = checkpointed_policy(2 * N_ROUNDS).fit(log)
    np.savez_compressed(path.with_suffix(".npz"), context=context, action_prob=whole.predict_proba(context))


if __name__ == "__main__":
    main()
