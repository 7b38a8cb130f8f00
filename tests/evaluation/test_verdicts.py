"""Verdicts: by traits, by size, with guards, by segment, head to head, for many policies, in any unit."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import bopl
from bopl._errors import UsageError
from bopl.cli.output import Output, evaluation_tables
from bopl.evaluation import IPS, ClippedIPS, DirectMethod, Guard, MeanEstimator, Need, ShrinkageDR, SwitchDR

RNG = np.random.default_rng(5)
N = 4000
RATES = np.array([0.2, 0.3, 0.4, 0.5])


def draw_log(seed=0, n=N, *, reward=None, **more):
    """Return a log of four equally likely actions, the later ones better."""
    rng = np.random.default_rng(seed)
    action = rng.integers(4, size=n)
    paid = (rng.random(n) < RATES[action]).astype(float) if reward is None else reward
    return bopl.BanditLog(rng.normal(size=(n, 2)), action, paid, np.full(n, 0.25), actions=[0, 1, 2, 3], **more)


def tilted(prob, n=N):
    return np.tile(prob, (n, 1))


LAST, FIRST, FLAT = [0.1, 0.1, 0.1, 0.7], [0.7, 0.1, 0.1, 0.1], [0.25] * 4
SLIGHT = [0.245, 0.245, 0.255, 0.255]
LOG = draw_log()


# -- Traits -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Renamed(ClippedIPS):
    """Clipped IPS by another name."""

    name: ClassVar[str] = "house_ips"


@dataclass(frozen=True)
class RenamedSwitch(SwitchDR):
    """Switch by another name."""

    name: ClassVar[str] = "house_switch"


@dataclass(frozen=True)
class RenamedModel(DirectMethod):
    """The direct method by another name."""

    name: ClassVar[str] = "house_model"


@pytest.mark.parametrize("limit", [1.5, 2.5, 50.0])
@pytest.mark.parametrize("kinds", [(ClippedIPS, Renamed), (SwitchDR, RenamedSwitch)])
def test_a_subclass_with_the_same_numbers_gets_the_same_verdict_and_reason(kinds, limit):
    model = tilted(RATES)
    rows = [bopl.evaluate(LOG, tilted(LAST), estimators=kind(limit), reward_model=model).decision() for kind in kinds]
    assert rows[0]["verdict"] == rows[1]["verdict"]
    assert rows[0]["reason"] == rows[1]["reason"]
    assert rows[0]["estimator"] != rows[1]["estimator"]


def test_a_subclass_of_the_direct_method_carries_no_verdict_either():
    evaluation = bopl.evaluate(LOG, tilted(LAST), estimators=RenamedModel(), reward_model=tilted(RATES))
    assert evaluation.decision()["verdict"] == "not trustworthy"
    assert "opinion of a reward model" in evaluation.decision()["reason"]


def test_an_estimate_that_is_mostly_left_to_its_model_carries_no_verdict():
    one = bopl.evaluate(LOG, tilted([0.02, 0.02, 0.02, 0.94]), estimators=SwitchDR(1.0), reward_model=tilted(RATES))
    assert one.decision()["verdict"] == "not trustworthy"
    assert "98% of the policy's probability is left to the reward model" in one.decision()["reason"]


def test_bounds_are_drawn_for_subclasses_as_well():
    for interval in ("empirical_bernstein", "normal"):
        plain = bopl.evaluate(LOG, tilted(LAST), estimators=ClippedIPS(2.0), interval=interval).row()
        renamed = bopl.evaluate(LOG, tilted(LAST), estimators=Renamed(2.0), interval=interval).row()
        assert plain["uplift_ci_lower"] == renamed["uplift_ci_lower"]
    with pytest.raises(UsageError, match="works for 'ips' and 'clipped_ips' only; for 'snips'"):
        bopl.evaluate(LOG, tilted(LAST), estimators="snips", interval="empirical_bernstein")


def test_the_estimator_that_decides_does_not_depend_on_the_order_they_are_named_in():
    model = tilted(RATES)
    for names in (["dm", "clipped_ips", "ips", "snips", "dr"], ["dr", "snips", "ips", "clipped_ips", "dm"]):
        evaluation = bopl.evaluate(LOG, tilted(LAST), estimators=names, reward_model=model)
        assert evaluation.decision()["estimator"] == "dr"
        assert [row["estimator"] for row in evaluation.rows if row["is_primary"]] == ["dr"]


# -- The smallest effect of interest ------------------------------------------------------------------------------


def test_better_takes_more_than_the_smallest_uplift_of_interest():
    uplift = bopl.evaluate(LOG, tilted(LAST), estimators="snips").row()
    for least, verdict in (
        (0.0, "better"),
        (uplift["uplift_ci_lower"] * 0.9, "better"),
        (uplift["uplift_ci_lower"] * 1.1, "inconclusive"),
        ("10%", "better"),
        ("28%", "inconclusive"),
    ):
        found = bopl.evaluate(LOG, tilted(LAST), estimators="snips", min_uplift=least).decision()
        assert found["verdict"] == verdict, least
    assert "asked for" in found["reason"]


def test_an_interval_within_the_smallest_effect_says_that_the_two_are_as_good_as_equal():
    found = bopl.evaluate(LOG, tilted(SLIGHT), estimators="snips", min_uplift=0.01).decision()
    assert found["verdict"] == "inconclusive"
    assert "within ±0.01, the smallest difference of interest: the two are as good as equal" in found["reason"]


def test_a_share_of_nearly_nothing_is_no_smallest_uplift():
    centred = draw_log(reward=np.where(np.arange(N) % 2 == 0, 1.0, -1.0))
    assert (
        "can hardly be told from zero: give it per decision"
        in bopl.evaluate(centred, tilted(LAST), min_uplift="5%").notes[-1]
    )
    for log, least in ((LOG, "5%"), (centred, 0.05), (centred, 0.0)):
        assert not any("told from zero" in note for note in bopl.evaluate(log, tilted(LAST), min_uplift=least).notes)


@pytest.mark.parametrize("base", [1.0, -1.0])
def test_a_tiny_difference_is_called_tiny(base):
    rng = np.random.default_rng(0)
    action = rng.integers(4, size=N)
    log = draw_log(reward=base + 1e-6 * action + 1e-7 * rng.normal(size=N))
    log = bopl.BanditLog(log.context, action, log.reward, log.propensity)
    found = bopl.evaluate(log, tilted(LAST), estimators="snips").decision()
    assert found["verdict"] == "better"
    assert "real but tiny: 9" in found["reason"]
    assert bopl.evaluate(log, tilted(LAST), estimators="snips", min_uplift="0.1%").decision()["verdict"] == (
        "inconclusive"
    )


@pytest.mark.parametrize("given", [-0.1, "-1%", "much", float("nan"), True, None])
def test_a_smallest_uplift_that_is_no_size_is_refused(given):
    with pytest.raises(UsageError, match="min_uplift must"):
        bopl.evaluate(LOG, tilted(LAST), min_uplift=given)


# -- Guards -------------------------------------------------------------------------------------------------------


def guarded_log(seed=0, n=N, *, step=0.0):
    """Return a log with revenue that changes by ``step`` per action, and rare complaints."""
    log = draw_log(seed, n)
    rng = np.random.default_rng([seed, 1])
    others = {
        "revenue": 10.0 + step * log.action_idx + rng.normal(size=n),
        "complaints": (rng.random(n) < 0.1).astype(float),
    }
    return bopl.BanditLog(
        log.context, log.action, log.reward, log.propensity, actions=[0, 1, 2, 3], other_rewards=others
    )


@pytest.mark.parametrize(
    ("step", "guard", "verdict", "words"),
    [
        (0.0, "revenue>=-2%", "better", "The guard is kept: revenue>=-2%."),
        (-1.0, "revenue>=-2%", "worse", "The guard revenue>=-2% is broken: revenue changes by between -1"),
        (0.0, "revenue>=-0.1%", "inconclusive", "It is undecided whether the guard revenue>=-0.1% is kept"),
        (0.0, "complaints<=+0.05", "better", "kept: complaints<=+0.05"),
        (0.0, "complaints<=+1%", "inconclusive", "complaints<=+1% is kept: complaints changes by"),
        (1.0, "revenue<=+0.2", "worse", "is broken"),
    ],
)
def test_a_policy_is_better_only_if_its_guards_are_kept(step, guard, verdict, words):
    evaluation = bopl.evaluate(guarded_log(step=step), tilted(LAST), estimators="snips", guards=guard)
    assert evaluation.row()["verdict"] == "better"
    assert evaluation.decision()["verdict"] == verdict
    assert words in evaluation.decision()["reason"]
    state = {"better": "kept", "worse": "broken", "inconclusive": "undecided"}[verdict]
    assert evaluation.guards[0]["state"] == state
    assert state in str(evaluation)


def test_a_guard_on_a_reward_that_says_too_little_is_undecided_for_that_reason():
    log = guarded_log()
    rare = {"refund": (np.arange(N) % 1000 == 0).astype(float)}
    log = bopl.BanditLog(log.context, log.action, log.reward, log.propensity, other_rewards=rare)
    found = bopl.evaluate(log, tilted(LAST), estimators="snips", guards=["refund<=+1%"]).decision()
    assert found["verdict"] == "inconclusive"
    assert found["reason"].startswith("The log cannot say whether the guard refund<=+1% is kept. Rewards are rare")


def test_a_policy_that_is_worse_stays_worse_whatever_its_guards_say():
    found = bopl.evaluate(guarded_log(), tilted(FIRST), estimators="snips", guards=["revenue>=-1%"]).decision()
    assert found["verdict"] == "worse"
    assert "less than the logging policy" in found["reason"]


def test_guards_need_rewards_that_the_log_has():
    with pytest.raises(UsageError, match="no other reward 'profit' to guard \\(it has 'revenue', 'complaints'\\)"):
        bopl.evaluate(guarded_log(), tilted(LAST), guards=["profit>=0"])
    with pytest.raises(UsageError, match="such as 'revenue>=-1%'"):
        Guard.parse("revenue")
    with pytest.raises(UsageError, match="'revenue' is guarded more than once"):
        bopl.evaluate(guarded_log(), tilted(LAST), guards=["revenue>=0", "revenue<=1"])
    with pytest.raises(UsageError, match="need 'normal' or 'bootstrap'"):
        bopl.evaluate(guarded_log(), tilted(LAST), guards=["revenue>=0"], interval="betting")


def test_other_rewards_and_segments_follow_the_samples_and_are_no_context():
    frame = pyarrow.table(
        {
            "x": np.arange(8.0),
            "country": list("abababab"),
            "item": [0, 1] * 4,
            "click": [0.0, 1.0] * 4,
            "p": [0.5] * 8,
            "revenue": np.arange(8.0) * 2,
        }
    )
    log = bopl.BanditLog.from_frame(
        frame, action="item", reward="click", propensity="p", other_rewards=["revenue"], segment="country"
    )
    assert log.feature_names == ("x", "country")
    part = log.subset([3, 5])
    assert part.other_rewards["revenue"].tolist() == [6.0, 10.0]
    assert part.segment.tolist() == ["b", "b"]
    with pytest.raises(UsageError, match="context contains 'revenue'"):
        bopl.BanditLog.from_frame(
            frame, action="item", reward="click", propensity="p", context=["x", "revenue"], other_rewards=["revenue"]
        )
    with pytest.raises(ValueError, match=r"other_rewards\['revenue'\] must be finite"):
        bopl.BanditLog([[1.0]] * 2, [0, 1], [1.0] * 2, [0.5] * 2, other_rewards={"revenue": [np.nan, 1.0]})


# -- Segments -----------------------------------------------------------------------------------------------------


def test_segments_have_uplifts_of_their_own_with_wider_intervals():
    segment = np.where(np.arange(N) % 4 == 0, "small", "large")
    evaluation = bopl.evaluate(LOG, tilted(LAST), estimators="snips", segment=segment)
    rows = {row["segment"]: row for row in evaluation.segments}
    for name, row in rows.items():
        part = LOG.subset(segment == name)
        alone = bopl.evaluate(part, tilted(LAST, part.n_samples), estimators="snips", confidence=0.975).row()
        assert row["n"] == part.n_samples
        assert row["uplift"] == pytest.approx(alone["uplift"], rel=1e-9)
        assert row["uplift_ci_lower"] == pytest.approx(alone["uplift_ci_lower"], rel=1e-9)
        assert "for all 2 segments together" in row["reason"]
    assert evaluation.decision()["verdict"] == "better"
    assert "Segments" in str(evaluation)


def test_a_column_with_too_many_values_makes_no_segments():
    with pytest.raises(UsageError, match="more than 100 segments"):
        bopl.evaluate(LOG, tilted(LAST), segment=np.arange(N))


def test_a_missing_segment_is_a_segment():
    log = LOG.with_segment([None if row % 2 else "a" for row in range(N)])
    assert {row["segment"] for row in bopl.evaluate(log, tilted(LAST)).segments} == {"a", "missing"}


def test_segments_that_differ_by_a_final_null_character_are_two():
    log = LOG.with_segment(["a\0" if row % 2 else "a" for row in range(N)])
    assert {row["segment"] for row in bopl.evaluate(log, tilted(LAST)).segments} == {"a", "a\0"}


# -- Head to head -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["ips", "snips", "dr", "sndr", "beta_ips"])
def test_a_paired_difference_is_that_of_the_values_and_scatters_as_its_influences(estimator):
    policies = {"a": tilted(LAST), "b": tilted([0.1, 0.1, 0.2, 0.6])}
    model = tilted([0.3, 0.3, 0.4, 0.4])
    evaluation = bopl.compare(LOG, policies, estimators=estimator, reward_model=model)
    row = evaluation.comparisons[0]
    values = [evaluation.row(name)["value"] for name in policies]
    assert row["difference"] == pytest.approx(values[0] - values[1], rel=1e-9)
    # Drawn again and again, the difference scatters as wide as the interval says.
    rng, found = np.random.default_rng(0), []
    for _ in range(200):
        rows = rng.integers(N, size=N)
        again = {name: prob[rows] for name, prob in policies.items()}
        part = bopl.evaluate(LOG.subset(rows), again, estimators=estimator, reward_model=model[rows])
        found.append(part.row("a")["value"] - part.row("b")["value"])
    half = 0.5 * (row["ci_upper"] - row["ci_lower"])
    assert half == pytest.approx(1.96 * np.std(found), rel=0.2)
    assert half < 0.7 * 0.5 * (evaluation.row("a")["ci_upper"] - evaluation.row("a")["ci_lower"])


def test_policies_that_are_alike_differ_by_exactly_zero():
    row = bopl.compare(LOG, {"a": tilted(LAST), "b": tilted(LAST)}).comparisons[0]
    assert (row["difference"], row["ci_lower"], row["ci_upper"]) == (0.0, 0.0, 0.0)
    assert row["verdict"] == "inconclusive"
    assert "same policy as b" in row["reason"]


def test_the_verdict_can_be_on_the_difference_to_what_runs_now():
    better = [0.05, 0.05, 0.1, 0.8]
    evaluation = bopl.evaluate(LOG, {"new": tilted(LAST)}, against=tilted(better), estimators="snips")
    assert evaluation.row("new")["verdict"] == "better"
    assert evaluation.decision("new")["verdict"] == "worse"
    assert evaluation.decision("new")["against"] == "running"
    assert "less than running" in evaluation.decision("new")["reason"]
    assert [one["policy"] for one in evaluation.decisions] == ["new"]
    same = bopl.compare(LOG, {"old": tilted(better), "new": tilted(LAST)}, against="old", estimators="snips")
    assert same.decision("new")["verdict"] == "worse"


def test_against_the_logging_policy_itself_the_difference_is_the_uplift():
    evaluation = bopl.evaluate(LOG, {"new": tilted(LAST)}, against=tilted(FLAT), estimators="snips")
    row, pair = evaluation.row("new"), evaluation.comparisons[0]
    assert pair["difference"] == pytest.approx(row["uplift"], rel=1e-9)
    assert pair["ci_lower"] == pytest.approx(row["uplift_ci_lower"], rel=1e-6)


def test_guards_are_held_against_what_runs_now_too():
    log = guarded_log(step=-1.0)
    running = tilted([0.1, 0.1, 0.2, 0.6])
    evaluation = bopl.evaluate(log, {"new": tilted(LAST)}, against=running, estimators="snips", guards=["revenue>=-5%"])
    assert evaluation.guards[0]["state"] == "kept"  # less than logged, but so does what runs now
    assert bopl.evaluate(log, tilted(LAST), estimators="snips", guards=["revenue>=-5%"]).guards[0]["state"] == "broken"


def test_comparisons_need_policies_that_are_there():
    with pytest.raises(ValueError, match="against='old' is not one of the policies, which are 'new'"):
        bopl.evaluate(LOG, {"new": tilted(LAST)}, against="old")
    with pytest.raises(UsageError, match="at least two policies"):
        bopl.compare(LOG, {"new": tilted(LAST)})


def test_a_policy_that_the_log_cannot_answer_for_cannot_be_compared():
    log = draw_log(n=300)
    sharp = np.tile([0.999, 0.001, 0.0, 0.0], (300, 1))
    few = bopl.compare(log.subset(slice(0, 120)), {"a": sharp[:120], "b": tilted(LAST, 120)}).comparisons[0]
    assert few["verdict"] == "not trustworthy"
    assert "The log cannot answer for the policy. To this policy the log is worth" in few["reason"]


# -- Many policies ------------------------------------------------------------------------------------------------


def test_verdicts_on_many_policies_hold_together():
    policies = {f"p{number}": tilted(LAST) for number in range(20)}
    evaluation = bopl.evaluate(LOG, policies, estimators="snips")
    one = bopl.evaluate(LOG, tilted(LAST), estimators="snips", confidence=1.0 - 0.05 / 20).row()
    assert evaluation.row("p3")["uplift_ci_lower"] == pytest.approx(one["uplift_ci_lower"], rel=1e-12)
    assert "with 95% confidence for all 20 policies together" in evaluation.row("p3")["reason"]
    assert "Verdicts and intervals of the uplift hold for all 20 policies together: each is at 99.75%." in (
        evaluation.notes
    )
    apart = bopl.evaluate(LOG, policies, estimators="snips", simultaneous=False).row("p3")
    alone = bopl.evaluate(LOG, tilted(LAST), estimators="snips").row()
    assert apart["uplift_ci_lower"] == alone["uplift_ci_lower"]


def test_answers_that_hold_together_take_more_rewards_that_decide():
    rng = np.random.default_rng(0)
    n = 12 * 250
    action = rng.integers(4, size=n)
    log = bopl.BanditLog(rng.normal(size=(n, 2)), action, rng.random(n) < 0.1, np.full(n, 0.25), actions=[0, 1, 2, 3])
    part, policy = np.repeat(np.arange(12), 250), np.tile([0.1, 0.2, 0.3, 0.4], (n, 1))
    # Of 250 decisions a tenth earns something: worth 30 or so, which is enough for one answer but not for twelve.
    asked = {"estimators": "snips", "segment": part}
    together, apart = (bopl.evaluate(log, policy, simultaneous=one, **asked).segments for one in (True, False))
    enough = {one.segment for one in apart if one.verdict != "not trustworthy"}
    assert enough
    refused = [one for one in together if one.segment in enough]
    assert {one.verdict for one in refused} == {"not trustworthy"}
    assert all("fewer than the 50 that a level of 99.5833% takes" in one.reason for one in refused)
    # The same holds head to head.
    halves = {"a": policy[:500], "b": np.tile([0.4, 0.3, 0.2, 0.1], (500, 1))}
    many = halves | {str(share): np.tile([share, 0.5 - share, 0.3, 0.2], (500, 1)) for share in (0.1, 0.2, 0.3, 0.4)}
    verdicts = [
        bopl.compare(log.subset(slice(0, 500)), one, estimators="snips").comparisons[0].verdict
        for one in (halves, many)
    ]
    assert verdicts[0] != "not trustworthy"
    assert verdicts[1] == "not trustworthy"


def test_of_twenty_candidates_on_noise_one_is_better_in_at_most_a_fortieth_of_the_logs():
    found = 0
    for seed in range(150):
        rng = np.random.default_rng([seed, 9])
        log = draw_log(seed, 600, reward=rng.normal(size=600))
        policies = {str(number): rng.dirichlet(np.full(4, 3.0), size=600) for number in range(20)}
        verdicts = [one["verdict"] for one in bopl.evaluate(log, policies, estimators="snips").decisions]
        found += "better" in verdicts
    assert found <= 10  # 150 / 40 = 3.75 expected at most; beyond 10 in one case of a thousand


# -- Causes first -------------------------------------------------------------------------------------------------


def test_the_reason_given_first_is_the_cause():
    n = 400
    rng = np.random.default_rng(0)
    action = rng.integers(4, size=n)
    sharp = np.where(np.arange(4) == 3, 0.97, 0.01) * np.ones((n, 1))
    few = bopl.BanditLog(rng.normal(size=(n, 1)), action, rng.random(n), np.full(n, 0.25), actions=[0, 1, 2, 3])

    def reason(log, policy, **more):
        return bopl.evaluate(log, policy, estimators="snips", **more).decision()["reason"]

    # Wrong propensities also leave few effective samples: they are what is said.
    assert reason(few.with_propensity(np.full(n, 0.1)), sharp).startswith("The mean weight is 2.")
    assert "the propensities are not those of the logging policy" in reason(few.with_propensity(np.full(n, 0.1)), sharp)
    # Equal rewards tell nothing, however few samples there are.
    same = few.subset(slice(0, 30)).with_reward(np.ones(30))
    assert reason(same, sharp[:30]).startswith("All rewards of the log are the same")
    # Few samples because there are few, or because the policy is far from the log.
    assert "The log has only 60 samples" in reason(few.subset(slice(0, 60)), sharp[:60])
    far = few.with_propensity(np.where(action == 3, 0.25, 0.25))
    far = bopl.BanditLog(
        rng.normal(size=(4000, 1)),
        np.where(rng.random(4000) < 0.005, 1, 0),
        rng.random(4000),
        np.ones(4000),
    )
    far = far.with_propensity(np.where(far.action_idx == 1, 0.005, 0.995))
    assert "few are like what the policy would do" in reason(far, tilted([0.05, 0.95]))
    # Few groups are said before the mean weight, whose scatter comes from them.
    grouped = bopl.BanditLog(
        few.context, action, few.reward, np.full(n, 0.1), actions=[0, 1, 2, 3], group=np.arange(n) % 3
    )
    assert reason(grouped, sharp).startswith("The log has 3 groups")
    # Actions never taken come before what follows from them.
    wider = bopl.BanditLog(few.context, action, few.reward, few.propensity, actions=[0, 1, 2, 3, 4])
    never = np.hstack([sharp * 0.5, np.full((n, 1), 0.5)])
    assert reason(wider, never).startswith("50.0% of the policy's choices are actions that were never taken")


def test_what_a_segment_lacks_is_not_said_of_the_log():
    part = np.where(np.arange(N) < 40, "tiny", np.where(np.arange(N) % 2 == 0, "even", "odd"))
    kept = (part != "odd") | (LOG.action_idx != 3)
    log = LOG.with_reward(np.where(part == "even", 1.0, LOG.reward)).subset(np.flatnonzero(kept))
    policy, part = tilted([0.2, 0.2, 0.3, 0.3], len(log)), part[kept]
    reasons = {one.segment: one.reason for one in bopl.evaluate(log, policy, segment=part).segments}
    assert reasons["even"].startswith("All rewards of the segment are the same")
    assert "never taken in this segment" in reasons["odd"]
    assert "The segment has only 40 samples" in reasons["tiny"]


def test_propensities_that_hold_up_are_not_blamed_for_a_context_that_knows_the_action():
    rng = np.random.default_rng(0)
    action = rng.integers(4, size=N)
    log = bopl.BanditLog(rng.normal(size=(N, 1)), action, rng.random(N), np.full(N, 0.25))
    leaking = np.where(np.arange(4) == action[:, None], 0.4, 0.2)  # looks at a column that is filled in afterwards
    reason = bopl.evaluate(log, leaking, estimators="snips").decision()["reason"]
    assert "or a context column knows the action that was taken" in reason


# -- Units --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["ips", "snips", "beta_ips", "clipped_ips", "dr", "sndr", "switch_dr"])
@pytest.mark.parametrize("factor", [1e-162, 1e-150, 1e-40, 1e40, 1e60, 1e77, 1e150])
def test_verdict_and_interval_do_not_depend_on_the_unit_of_the_rewards(factor, estimator):
    plain = bopl.evaluate(LOG, tilted(LAST), estimators=estimator, reward_model=tilted(RATES))
    scaled = bopl.evaluate(
        LOG.with_reward(LOG.reward * factor), tilted(LAST), estimators=estimator, reward_model=tilted(RATES * factor)
    )
    assert scaled.decision()["verdict"] == plain.decision()["verdict"] == "better"
    for name in ("value", "std_err", "ci_lower", "uplift", "uplift_ci_lower", "uplift_ci_upper"):
        assert scaled.row()[name] / factor == pytest.approx(plain.row()[name], rel=1e-9)
    assert scaled.logging_value / factor == pytest.approx(plain.logging_value)


@pytest.mark.parametrize("factor", [1e-162, 1e77])
def test_a_reward_model_is_cross_fitted_in_any_unit(factor):
    plain, scaled = (
        bopl.evaluate(LOG.with_reward(LOG.reward * one), tilted(LAST), estimators="dr").row() for one in (1.0, factor)
    )
    assert scaled["verdict"] == plain["verdict"] == "better"
    assert scaled["uplift_ci_lower"] / factor == pytest.approx(plain["uplift_ci_lower"], rel=0.05)


@pytest.mark.parametrize("interval", ["bootstrap", "empirical_bernstein", "log_smoothing", "betting"])
def test_other_intervals_do_not_depend_on_the_unit_either(interval):
    found = []
    for factor in (1.0, 1e-162, 1e77):
        log = LOG.with_reward(LOG.reward * factor)
        row = bopl.evaluate(log, tilted(LAST), estimators="ips", interval=interval, reward_range=(0.0, factor)).row()
        found.append((row["verdict"], round(row["uplift_ci_lower"] / factor, 6)))
    assert found[0] == found[1] == found[2]


def test_rewards_of_parts_that_are_in_other_units_are_refused():
    total = bopl.ValueAccumulator({"new": None}, estimators="ips")
    for factor in (1.0, 1e40):
        part = LOG.with_reward(LOG.reward * factor)
        total.add(part, policies={"new": tilted(LAST)})
    with pytest.raises(ValueError, match="differ in size by a factor of more than 1e30"):
        total.result()


# -- Streams ------------------------------------------------------------------------------------------------------


def test_shards_give_the_same_guards_segments_and_comparisons_as_the_whole():
    log = guarded_log(step=-0.1).with_segment(np.where(np.arange(N) % 3 == 0, "a", "b"))
    policies = {"new": tilted(LAST), "old": tilted([0.2, 0.2, 0.3, 0.3])}
    settings = {"estimators": "ips", "guards": ["revenue>=-5%"], "against": "old"}
    whole = bopl.evaluate(log, policies, **settings)
    shards = []
    for rows in (slice(0, 1500), slice(1500, N)):
        shard = bopl.ValueAccumulator(dict.fromkeys(policies), **settings)
        for start in range(rows.start, rows.stop, 500):
            part = slice(start, min(start + 500, rows.stop))
            shard.add(log.subset(part), policies={name: prob[part] for name, prob in policies.items()})
        shards.append(shard)
    shards[0].merge(shards[1])
    merged = shards[0].result()
    for part in ("guards", "segments", "comparisons", "decisions"):
        for mine, theirs in zip(getattr(whole, part), getattr(merged, part), strict=True):
            for name, value in mine.items():
                expected = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
                assert theirs[name] == expected, (part, name)
    other = bopl.ValueAccumulator(dict.fromkeys(policies), **{**settings, "guards": ["revenue>=-4%"]})
    other.add(log, policies=policies)
    with pytest.raises(ValueError, match="guards"):
        shards[0].merge(other)


def test_a_segment_may_begin_in_a_later_part():
    log = draw_log(segment=np.where(np.arange(N) < 2000, "old", "new"), group=np.arange(N) // 2)
    total, prob = bopl.ValueAccumulator({"new": None}), tilted(LAST)
    for rows in (slice(0, 2000), slice(2000, N)):
        total.add(log.subset(rows), policies={"new": prob[rows]})
    whole = bopl.evaluate(log, {"new": prob}).segments
    for part, row in zip(total.result().segments, whole, strict=True):
        assert (part["segment"], part["n"]) == (row["segment"], row["n"])
        assert part["uplift_ci_lower"] == pytest.approx(row["uplift_ci_lower"], rel=1e-12)


def test_files_answer_as_the_log_in_memory_does(tmp_path):
    log = guarded_log().with_segment(np.where(np.arange(N) % 3 == 0, "a", "b"))
    table = pyarrow.table(
        {
            "action": log.action,
            "reward": log.reward,
            "p": log.propensity,
            "revenue": log.other_rewards["revenue"],
            "country": log.segment,
            "new": tilted(LAST)[np.arange(N), log.action_idx],
            "old": tilted(FLAT)[np.arange(N), log.action_idx],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet", row_group_size=700)
    settings = {"estimators": "ips", "guards": ["revenue>=-5%"], "against": "old", "min_uplift": "1%"}
    policies = {"new": np.asarray(table["new"]), "old": np.asarray(table["old"])}
    whole = bopl.evaluate(log, policies, **settings)
    streamed = bopl.evaluate_parquet(
        tmp_path / "log.parquet",
        {"new": "new", "old": "old"},
        action="action",
        reward="reward",
        propensity="p",
        segment="country",
        **settings,
    )
    assert streamed.decision("new")["verdict"] == whole.decision("new")["verdict"] == "better"
    for part in ("guards", "segments", "comparisons"):
        for mine, theirs in zip(getattr(whole, part), getattr(streamed, part), strict=True):
            assert theirs["ci_lower" if part != "segments" else "uplift_ci_lower"] == pytest.approx(
                mine["ci_lower" if part != "segments" else "uplift_ci_lower"], rel=1e-9
            )


def test_a_notebook_shows_guards_segments_and_comparisons_as_the_terminal_does():
    log = draw_log(other_rewards={"revenue": LOG.reward + 1.0}, segment=np.where(np.arange(N) % 2, "north", "south"))
    shown = bopl.compare(log, {"new": tilted(LAST)}, against=tilted(FIRST), guards="revenue>=-1%")._repr_html_()
    for words in ("Guards", "revenue&gt;=-1%", "Head to head", "Segments", "north"):
        assert words in shown


def test_json_holds_all_that_was_decided():
    import json

    log = guarded_log().with_segment(np.full(N, "all"))
    found = json.loads(bopl.evaluate(log, tilted(LAST), estimators="ips", guards=["revenue>=-5%"]).to_json())
    assert found["decisions"][0]["verdict"] == "better"
    assert found["guards"][0]["guard"] == "revenue>=-5%"
    assert found["segments"][0]["segment"] == "all"
    assert found["comparisons"] == []


def test_the_traits_of_every_estimator_are_declared():
    for kind in bopl.evaluation.ESTIMATORS.values():
        assert kind.title
        assert kind.about
    priorities = [kind.priority for kind in bopl.evaluation.ESTIMATORS.values()]
    assert len(set(priorities)) == len(priorities)
    assert IPS.is_weighted_mean
    assert not ClippedIPS.is_weighted_mean


# -- What must not be called better -------------------------------------------------------------------------------


def hidden_rarity(seed, kind):
    """Return a log whose rewards are plentiful, except where (or in what) a policy of the same value differs."""
    rng, n = np.random.default_rng(seed), 8000
    other, is_rare = np.arange(n) % 2 == 1, rng.random(n) < 24 / n
    if kind == "context":  # a handful of costs in the contexts in which the policy differs
        reward, model = np.where(other, -1.0 * is_rare, rng.random(n) < 0.5), np.where(other, -24 / n, 0.5)
    else:  # a handful of costs beyond what the model foresees of every context
        reward, model, other = other + 1.0 - is_rare, other + 1.0 - 24 / n, np.ones(n, dtype=bool)
    log = bopl.BanditLog(np.zeros((n, 1)), rng.integers(10, size=n), reward, np.full(n, 0.1), actions=list(range(10)))
    policy = np.where(other[:, None], np.eye(10)[0], 0.1)
    return log, policy, np.tile(model[:, None], (1, 10))


@pytest.mark.parametrize(("kind", "estimator"), [("context", "ips"), ("context", "dr"), ("model", "dr")])
def test_a_handful_of_rewards_where_a_policy_differs_decides_nothing(kind, estimator):
    for seed in range(12):  # without the check 22% of them are better, or worse
        log, policy, model = hidden_rarity(seed, kind)
        found = bopl.evaluate(log, policy, estimators=estimator, reward_model=model)
        assert found.decision()["verdict"] == "not trustworthy"
        assert "Where the policy differs from the logging policy, rewards are rare" in found.decision()["reason"]
        paired = bopl.evaluate(log, policy, against=tilted([0.1] * 10, 8000), estimators=estimator, reward_model=model)
        assert paired.decision()["verdict"] == "not trustworthy"


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("estimator", [ClippedIPS(10.0), SwitchDR(10.0), ShrinkageDR(50.0)], ids=lambda one: one.name)
def test_what_clipping_hides_of_a_policy_does_not_make_it_better_or_worse(estimator, sign):
    rng, n = np.random.default_rng(0), 20_000
    first = np.where(rng.random(n) < 0.05, 0.02, 0.5)
    action = (rng.random(n) >= first).astype(int)
    reward = sign * (1.0 + 0.2 * rng.normal(size=n))
    log = bopl.BanditLog(
        np.zeros((n, 1)), action, reward, np.where(action == 0, first, 1.0 - first), exact_propensity=True
    )
    found = bopl.evaluate(log, tilted([0.8, 0.2], n), estimators=estimator, reward_model=np.zeros((n, 2)))
    assert found.decision()["verdict"] == "inconclusive"
    assert "the verdict allows 0.0" in found.decision()["reason"]


def test_a_difference_of_two_policies_allows_for_rounded_propensities_too():
    rng, n = np.random.default_rng(0), 50_000
    prob = rng.dirichlet(np.ones(10), size=n) * 0.9 + 0.01
    action = (prob.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    rounded = np.maximum(np.round(prob[np.arange(n), action], 2), 0.01)
    log = bopl.BanditLog(np.zeros((n, 1)), action, 3.0 + (rng.random(n) < 0.5), rounded, actions=list(range(10)))
    found = bopl.evaluate(log, prob, against=rounded, estimators="ips")
    assert found.decision()["verdict"] == "inconclusive"
    assert "look rounded" in found.decision()["reason"]


@dataclass(frozen=True)
class BareModel(MeanEstimator):
    """A model's opinion whose author has not said that it carries no verdict."""

    name: ClassVar[str] = "bare"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.REWARD_MODEL})

    def moments(self, terms):
        """Return what the model says."""
        return np.column_stack([terms.modelled[0], terms.modelled_uplift])


def test_an_estimator_without_propensities_carries_no_verdict_whatever_it_declares():
    model = tilted(RATES)
    assert bopl.evaluate(LOG, tilted(LAST), estimators=BareModel(), reward_model=model).decision()["verdict"] == (
        "not trustworthy"
    )
    both = bopl.evaluate(LOG, tilted(LAST), estimators=[BareModel(), "clipped_ips"], reward_model=model)
    assert both.decision()["estimator"] == "clipped_ips"


@pytest.mark.parametrize("factor", [1.0, 1e200, 1e-200])
def test_a_guard_does_not_depend_on_the_unit_of_the_main_reward(factor):
    revenue = np.random.default_rng(1).random(N) + 1.0
    log = draw_log(reward=np.ones(N) - (np.arange(N) % 2), other_rewards={"revenue": factor * revenue})
    first = bopl.evaluate(log, tilted(LAST), guards="revenue>=-5%").guards[0]
    plain = draw_log(reward=revenue)
    row = bopl.evaluate(plain, tilted(LAST), estimators="snips").row()
    assert first["ci_lower"] == pytest.approx(factor * row["uplift_ci_lower"], rel=1e-9)


def test_a_handful_of_replicates_places_no_end_inside_the_normal_interval():
    few = bopl.evaluate(LOG, tilted(SLIGHT), interval="bootstrap", n_replicates=20)
    for row, normal in zip(few.rows, bopl.evaluate(LOG, tilted(SLIGHT)).rows, strict=True):
        assert row["uplift_ci_lower"] <= normal["uplift_ci_lower"]
        assert row["uplift_ci_upper"] >= normal["uplift_ci_upper"]


def test_a_propensity_that_is_none_is_named():
    propensity = np.full(N, 0.25)
    propensity[7] = 1e-80
    log = bopl.BanditLog(LOG.context, LOG.action, LOG.reward, propensity, actions=[0, 1, 2, 3])
    for ask in (bopl.evaluate, bopl.evaluation.plan):
        with pytest.raises(ValueError, match="propensity 1e-80: nothing was drawn with that probability"):
            ask(log, tilted(LAST))


def test_a_policy_within_a_search_or_a_pipeline_is_known_by_its_training_rows():
    outcomes = bopl.outcomes(LOG.action, LOG.reward, LOG.propensity)
    policy = bopl.BoostedPolicy(n_rounds=2, random_state=0)
    found = [GridSearchCV(policy, {"n_rounds": [2]}, cv=2), make_pipeline(FunctionTransformer(), policy)]
    for one in found:
        reason = bopl.evaluate(LOG, one.fit(LOG.context, outcomes)).decision()["reason"]
        assert "was trained on 100% of these samples" in reason


class Wrapped:
    """A policy of somebody's own around others."""

    def __init__(self, *policies):
        self.parts = [{"policy": policy} for policy in policies]

    def predict_proba(self, context):
        return np.mean([part["policy"].predict_proba(context) for part in self.parts], axis=0)


def test_a_policy_around_others_is_known_by_their_training_rows():
    policy = bopl.BoostedPolicy(n_rounds=2, random_state=0).fit(LOG)
    for one in (Wrapped(policy), Wrapped(policy.sharpened(2.0), policy)):
        assert "was trained on 100% of these samples" in bopl.evaluate(LOG, one).decision().reason
    assert "was trained" not in bopl.evaluate(draw_log(seed=1), Wrapped(policy)).decision().reason


def test_a_group_with_most_of_the_samples_lets_no_verdict_stand():
    rng = np.random.default_rng(0)
    n, n_groups, verdicts = 2000, 400, []
    for share in (0.6, 0.3, 0.05):
        group = np.where(np.arange(n) < share * n, 0, 1 + rng.integers(n_groups, size=n))
        action = rng.integers(2, size=n)
        reward = rng.normal(size=(n_groups + 1, 2))[group, action] + rng.normal(size=n)  # on the whole the same
        log = bopl.BanditLog(rng.normal(size=(n, 1)), action, reward, np.full(n, 0.5), group=group)
        row = bopl.evaluate(log, {"new": np.tile([0.1, 0.9], (n, 1))}, estimators=["ips"]).primary_row()
        verdicts.append(row.verdict)
        if row.verdict == "not trustworthy":
            assert "are worth" in row.reason
    assert verdicts[:2] == ["not trustworthy"] * 2
    assert verdicts[2] != "not trustworthy"


def test_no_control_character_of_a_label_reaches_the_terminal(capsys):
    rng = np.random.default_rng(0)
    n, evil = 400, "\x1b]0;title\x07\u202ered"
    log = bopl.BanditLog(
        rng.normal(size=(n, 1)), rng.integers(2, size=n), rng.random(n), np.full(n, 0.5), segment=[evil, "plain"] * 200
    )
    evaluation = bopl.evaluate(log, {evil: np.tile([0.1, 0.9], (n, 1))})
    output = Output(is_json=False)
    output.say_each([*evaluation_tables(evaluation), evaluation, f"said of {evil}"])
    said = capsys.readouterr().out + str(evaluation)
    assert not set("\x1b\x07\u202e") & set(said)
    assert "said of \\x1b]0;title\\x07\\u202ered" in said
