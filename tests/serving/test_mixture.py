"""What is served: a mixture whose own probability is logged, with a floor under every eligible action."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bopl._errors import UsageError
from bopl.serving.mixture import ServedMixture
from bopl.serving.record import PromotionRow


class Table:
    """A policy that gives what it is told to, and can refuse."""

    n_features_in_ = 1

    def __init__(self, actions, prob, error=None):
        self.actions_, self.prob, self.error = np.array(actions), np.array(prob), error

    def record_proba(self, record, *, eligible=None):
        if self.error is not None:
            raise self.error
        labels = self.actions_.tolist()
        prob = np.where([eligible is None or label in eligible for label in labels], self.prob, 0.0)
        return prob / prob.sum()


def mixture(policy=None, baseline=None, share=0.25, exploration=0.1, floor=0.0, actions=None):
    row = PromotionRow("p", share, "b", exploration, floor, "test", actions=actions, id=3)
    return ServedMixture(row, policy, baseline)


POLICY, BASELINE = Table(["a", "b"], [0.9, 0.1]), Table(["b", "c"], [0.5, 0.5])


def test_the_propensity_is_that_of_the_mixture():
    served = mixture(POLICY, BASELINE)
    assert served.actions == ("a", "b", "c")
    chosen = served.decide({}, None, 0.0)
    assert chosen.action == "a"
    assert chosen.propensity == 0.9 * (0.25 * 0.9 + 0.75 * 0.0) + 0.1 / 3
    assert (chosen.policy_prob, chosen.baseline_prob) == (0.9, 0.0)


def test_draws_choose_actions_as_often_as_their_propensities_say():
    served = mixture(POLICY, BASELINE)
    draws = (np.arange(3000) + 0.5) / 3000
    chosen = [served.decide({}, None, draw) for draw in draws]
    for action in "abc":
        of_it = [one.propensity for one in chosen if one.action == action]
        assert len(of_it) / 3000 == pytest.approx(of_it[0], abs=1e-3)
        assert served.prob_of({}, None, action) == of_it[0]


def test_only_eligible_actions_are_taken():
    served = mixture(POLICY, BASELINE)
    assert {served.decide({}, ["b", "c"], draw).action for draw in np.linspace(0, 0.999, 50)} == {"b", "c"}
    assert served.decide({}, ["c"], 0.5).propensity == pytest.approx(1.0, abs=1e-15)
    assert served.prob_of({}, ["c"], "a") is None
    assert served.prob_of({}, None, "z") is None


def test_a_policy_that_knows_no_eligible_action_leaves_them_to_chance():
    chosen = mixture(POLICY, None, share=1.0, actions=["x", "y"]).decide({}, ["x", "y"], 0.7)
    assert (chosen.action, chosen.propensity) == ("y", 0.5)


def test_new_actions_are_explored():
    served = mixture(POLICY, None, share=1.0, actions=["new"])
    assert served.actions == ("a", "b", "new")
    assert served.prob_of({}, None, "new") == pytest.approx(0.1 / 3)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 40),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.floats(0.0, 0.02),
    st.floats(0.0, 1.0, exclude_max=True),
)
def test_no_eligible_action_is_below_the_floor(n_actions, share, exploration, floor, draw):
    prob = np.zeros(n_actions)
    prob[0] = 1.0
    served = mixture(Table(range(n_actions), prob), None, share, exploration, floor)
    probs = [served.prob_of({}, None, action) for action in range(n_actions)]
    assert sum(probs) == pytest.approx(1.0, abs=1e-12)
    assert min(probs) >= min(floor, 1.0 / n_actions) * (1.0 - 1e-12)
    chosen = served.decide({}, None, draw)
    assert chosen.propensity == probs[chosen.action]


def test_a_fallback_does_not_ask_the_policy():
    broken = Table(["a", "b"], [0.5, 0.5], RuntimeError("broken"))
    served = mixture(broken, BASELINE)
    with pytest.raises(RuntimeError, match="broken"):
        served.decide({}, None, 0.5)
    chosen = served.decide({}, None, 0.99, "baseline")
    assert chosen.action == "c"
    assert chosen.propensity == pytest.approx(0.9 * 0.5 + 0.1 / 3)
    assert mixture(broken, broken).decide({}, None, 0.5, "uniform").propensity == 0.5


def test_a_baseline_without_a_share_is_not_asked():
    served = mixture(POLICY, Table(["b", "c"], [0.5, 0.5], RuntimeError("broken")), share=1.0)
    assert served.decide({}, None, 0.0).baseline_prob is None


def test_probabilities_that_are_none_are_an_error():
    with pytest.raises(ArithmeticError, match="sum to nan"):
        mixture(Table(["a", "b"], [np.nan, 1.0])).decide({}, None, 0.5)


@pytest.mark.parametrize(
    ("eligible", "sentence"), [(["a", "z"], "eligible lists 'z', unknown here"), ([], "eligible is empty")]
)
def test_wrong_eligible_actions_are_one_sentence(eligible, sentence):
    with pytest.raises(UsageError, match=sentence):
        mixture(POLICY).mask(eligible)


def test_without_any_action_there_is_nothing_to_decide():
    with pytest.raises(UsageError, match="the loop knows no actions"):
        mixture().mask(None)


def test_true_is_not_one():
    served = mixture(Table([0, 1], [0.5, 0.5]))
    with pytest.raises(UsageError, match="unknown here"):
        served.mask([True])
    assert served.mask([1]).tolist() == [False, True]
