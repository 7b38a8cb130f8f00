"""The paper's configurations by the paper's names."""

from __future__ import annotations

from typing import Any

from bopl._settings import check_choice
from bopl.learner import XGBTree
from bopl.objective import IPS, Surrogate
from bopl.policy.boosted import BoostedPolicy

PAPER_OBJECTIVES = {"ips": IPS(smoothness="paper"), "surrogate": Surrogate(smoothness="paper")}
# name: (objective, reduction); BOPL-CS is BOPL-S without reward translation.
PAPER_VARIANTS = {
    "bopl-regr": ("ips", "regr"),
    "bopl-class": ("ips", "class"),
    "bopl-s-regr": ("surrogate", "regr"),
    "bopl-s-class": ("surrogate", "class"),
    "bopl-cs-regr": ("surrogate", "regr"),
}


def paper_policy(
    name: str,
    *,
    n_rounds: int = 300,
    max_depth: int = 8,
    min_child_weight: float = 1.0,
    reg_lambda: float = 0.0,
    reward_translation: float = 0.0,
    tree_method: str = "exact",
    n_jobs: int | None = None,
    random_state: Any = None,
) -> BoostedPolicy:
    """Return one of the paper's algorithms, unfitted.

    Parameters
    ----------
    name : {"bopl-regr", "bopl-class", "bopl-s-regr", "bopl-s-class", "bopl-cs-regr"}
        In upper or lower case. The ``-regr`` variants fit XGBoost trees, the ``-class`` variants scikit-learn's
        decision tree classifier, as in the paper.
    n_rounds, max_depth, reward_translation, random_state
        As in the paper's table of hyper-parameters.
    min_child_weight : float
        For ``-regr`` the minimum sum of weights in a leaf; for ``-class``, whose learner has no such setting, the
        minimum number of (context, action) rows in a leaf.
    reg_lambda : float
        Ridge penalty on the leaves of the ``-regr`` variants.
    tree_method : {"exact", "hist"}, default="exact"
        Tree method of XGBoost.
    n_jobs : int, optional
        Threads of XGBoost.

    Examples
    --------
    >>> import bopl
    >>> policy = bopl.paper_policy("BOPL-S-regr", n_rounds=600, max_depth=25, reward_translation=-0.4)
    >>> policy.objective.name
    'surrogate'
    """
    check_choice("name", name.lower(), tuple(PAPER_VARIANTS))
    objective, reduction = PAPER_VARIANTS[name.lower()]
    if name.lower() == "bopl-cs-regr" and reward_translation != 0.0:
        raise ValueError(
            f"bopl-cs-regr is BOPL-S without reward translation; got reward_translation={reward_translation:g}. "
            "Use bopl-s-regr."
        )
    return BoostedPolicy(
        objective=PAPER_OBJECTIVES[objective],
        learner=_learner(reduction, max_depth, min_child_weight, reg_lambda, tree_method, n_jobs),
        n_rounds=n_rounds,
        reward_translation=reward_translation,
        random_state=random_state,
    )


def _learner(
    reduction: str, max_depth: int, min_child_weight: float, reg_lambda: float, tree_method: str, n_jobs: int | None
) -> Any:
    if reduction == "regr":
        return XGBTree(tree_method, max_depth, min_child_weight, reg_lambda, n_jobs=n_jobs)
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=max_depth, min_samples_leaf=max(1, round(min_child_weight)))
