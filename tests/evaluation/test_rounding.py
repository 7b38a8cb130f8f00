"""Rounded propensities do not make the logging policy better than itself, and exact ones change nothing."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import bopl
from bopl.log.propensity_grid import find_grid
from bopl.objective.softmax import softmax
from bopl.policy.policy import draw_actions


def verdicts(decimals, n_logs=20, n=20_000):
    found = []
    for seed in range(n_logs):
        rng = np.random.default_rng(seed)
        prob = 0.9 * softmax(rng.normal(size=(n, 8)) * 1.2) + 0.1 / 8
        action = draw_actions(prob, rng)
        own = prob[np.arange(n), action]
        log = bopl.BanditLog(np.ones((n, 1)), action, rng.random(n) < 0.3, own.round(decimals), actions=range(8))
        found += [row["verdict"] for row in bopl.evaluate(log, own, estimators=["ips", "snips"]).rows]
    return found


@pytest.mark.parametrize("decimals", [2, 3])
def test_the_logging_policy_is_not_better_than_itself_where_propensities_are_rounded(decimals):
    assert verdicts(decimals).count("better") <= 2


@pytest.mark.parametrize(
    ("values", "n_actions", "is_rounded"),
    [
        ([0.25], 4, False),
        ([0.5], 2, False),
        ([0.02, 0.92], 5, False),
        ([0.05, 0.85], 4, False),
        ([0.1, 0.3, 0.6], 3, False),
        ([0.33, 0.34], 3, False),
        ([0.33], 3, True),
        ([0.333], 3, True),
        ([0.33, 0.67], 2, True),
        ([0.14], 7, True),
        (np.arange(1, 60) / 100, 5, True),
    ],
)
def test_designs_with_round_numbers_are_told_from_rounded_ones(values, n_actions, is_rounded):
    assert find_grid(np.array(values)).may_be_rounded(n_actions) == is_rounded


OTHER_FORMS = {
    "16-bit floats": lambda p: p.astype(np.float16).astype(float),
    "bfloat16": lambda p: np.round(p * 2.0 ** -(np.frexp(p)[1] - 8)) * 2.0 ** (np.frexp(p)[1] - 8),
    "bytes": lambda p: np.round(p * 255.0) / 255.0,
    "logarithms": lambda p: np.exp(np.log(p).round(2)),
    "inverses": lambda p: 1.0 / (1.0 / p).round(1),
}


@pytest.mark.parametrize("form", OTHER_FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_propensities_rounded_in_another_form_are_within_its_half_unit_and_look_rounded(form, dtype):
    rng = np.random.default_rng(0)
    few = softmax(np.array([[0.3, 0.9, -0.4, 0.0]]))[0]
    for exact in (few, rng.dirichlet(np.ones(5), 500)[:, 0].clip(0.01, 0.9)):
        logged = OTHER_FORMS[form](exact).astype(dtype).astype(float)
        grid = find_grid(logged)
        assert grid.may_be_rounded(5)
        assert (np.abs(logged - exact) <= grid.half_unit(logged) * 1.001 + 1e-7 * exact).all()


@pytest.mark.parametrize("form", [*OTHER_FORMS, "decimals"])
def test_the_logging_policy_is_neither_better_nor_worse_than_itself_in_whatever_form_propensities_were_rounded(form):
    rng = np.random.default_rng(1)
    prob = np.tile(softmax(np.array([[0.3, 0.9, -0.4, 0.0]])), (20_000, 1))
    action = draw_actions(prob, rng)
    click = rng.random(20_000) < np.array([0.1, 0.5, 0.3, 0.2])[action]
    logged = (OTHER_FORMS | {"decimals": lambda p: p.round(3)})[form](prob[np.arange(20_000), action])
    log = bopl.BanditLog(np.ones((20_000, 1)), action, click, logged, actions=range(4))
    for row in bopl.evaluate(log, prob, estimators=["ips", "snips"]).rows:
        assert row.verdict not in ("better", "worse")
    assert (form == "decimals") == (log.audit()["rounding"].status == "ok")


def test_exact_designs_with_many_decimals_are_not_taken_for_rounded():
    for n_actions in (*range(2, 60), 128, 255, 1000, 1024):
        for share in (0.0, 0.05, 0.1, 0.2, 0.5):  # of a policy that takes one action, and all alike this often
            other = share / n_actions or 1.0 / n_actions
            for values in ([other, 1.0 - (n_actions - 1) * other], np.float32([other, 1.0 - (n_actions - 1) * other])):
                grid = find_grid(np.asarray(values, dtype=float))
                assert grid is None or not grid.form or not grid.may_be_rounded(n_actions)


def grid_log(**settings):
    """Return a log of a softmax whose probabilities are whole percentages by design."""
    rng = np.random.default_rng(3)
    prob = np.stack([rng.multinomial(84, rng.dirichlet(np.ones(16))) for _ in range(3000)]) / 100.0 + 0.01
    action = draw_actions(prob, rng)
    own = prob[np.arange(3000), action]
    return bopl.BanditLog(np.ones((3000, 1)), action, rng.random(3000), own, **settings), prob


def test_a_grid_that_is_exact_by_the_user_s_word_widens_nothing(tmp_path):
    log, prob = grid_log()
    exact, _ = grid_log(exact_propensity=True)
    policy = np.roll(prob, 1, axis=1)
    widened, plain = (bopl.evaluate(one, policy, estimators="ips").row() for one in (log, exact))
    assert "say so with exact_propensity" in widened["reason"]
    assert "rounded" not in plain["reason"]
    assert plain["ci_upper"] - plain["ci_lower"] < widened["ci_upper"] - widened["ci_lower"]
    asked = bopl.evaluate(log, policy, estimators="ips", exact_propensity=True).row()
    assert (asked["ci_lower"], asked["ci_upper"]) == (plain["ci_lower"], plain["ci_upper"])
    doubted = bopl.evaluate(exact, policy, estimators="ips", exact_propensity=False).row()
    assert (doubted["ci_lower"], doubted["ci_upper"]) == (widened["ci_lower"], widened["ci_upper"])
    frame = log.to_frame("pyarrow")
    pq.write_table(
        frame.append_column("mine", pa.array(policy[np.arange(3000), log.action_idx])), tmp_path / "l.parquet"
    )
    roles = {"action": "action", "reward": "reward", "propensity": "propensity"}
    for is_exact, row in ((True, plain), (False, widened)):
        found = bopl.evaluate_parquet(
            tmp_path / "l.parquet", "mine", **roles, estimators="ips", exact_propensity=is_exact
        ).row()
        assert found["ci_lower"] == pytest.approx(row["ci_lower"])


def test_an_audit_passes_a_grid_that_is_exact_by_the_user_s_word():
    found = {is_exact: grid_log(exact_propensity=is_exact)[0].audit()["rounding"] for is_exact in (True, False)}
    assert (found[True].status, found[False].status) == ("ok", "problem")
    assert "exact_propensity" in found[False].sentence


def test_exact_propensity_is_a_flag():
    with pytest.raises(TypeError, match="exact_propensity must be True or False; got 'yes'"):
        bopl.BanditLog([[1.0], [2.0]], ["a", "b"], [1, 0], [0.5, 0.5], exact_propensity="yes")


def test_digits_and_decimals_give_the_half_unit():
    assert find_grid(np.random.default_rng(0).random(50)) is None
    grid = find_grid(np.float32([0.34, 0.012, 0.0051]).astype(float))
    np.testing.assert_allclose(grid.half_unit(np.array([0.34, 0.012, 0.0051])), [0.005, 0.0005, 0.00005])


def test_exact_propensities_widen_nothing_and_rounded_ones_say_so():
    rng = np.random.default_rng(0)
    action = rng.integers(4, size=2000)
    policy = np.tile([0.4, 0.3, 0.2, 0.1], (2000, 1))
    log = bopl.BanditLog(np.ones((2000, 1)), action, rng.random(2000), np.full(2000, 0.25))
    row = bopl.evaluate(log, policy, estimators="ips").row()
    assert "rounded" not in row["reason"]
    third = bopl.BanditLog(np.ones((2000, 1)), action % 3, rng.random(2000), np.full(2000, 0.33))
    assert "look rounded" in bopl.evaluate(third, policy[:, :3] / 0.9, estimators="snips").row()["reason"]


def readers(folder):
    """Return everything that reads a log from files, by name."""
    roles = {"action": "action", "reward": "reward", "propensity": "propensity"}
    batch = pq.read_table(folder / "l.parquet")
    return {
        "read": lambda **how: bopl.BanditLog.read(folder / "l.parquet", **roles, **how),
        "from_frame": lambda **how: bopl.BanditLog.from_frame(batch, **roles, **how),
        "from_parquet": lambda **how: bopl.BanditLog.from_parquet(folder / "l.parquet", **roles, **how),
        "from_csv": lambda **how: bopl.BanditLog.from_csv(folder / "l.csv", **roles, **how),
        "scan_parquet": lambda **how: bopl.BanditLog.scan_parquet(folder / "l.parquet", **roles, **how).sample(3000, 0),
        "from_batches": lambda **how: bopl.PartitionedLog.from_batches([batch], **roles, **how).sample(3000, 0),
    }


@pytest.fixture(scope="module")
def grid_files(tmp_path_factory):
    """The log of a grid, as other tools write it, in a Parquet file of three row groups and in a CSV file."""
    folder = tmp_path_factory.mktemp("grid")
    table = grid_log()[0].to_frame("pyarrow").replace_schema_metadata(None)
    pq.write_table(table, folder / "l.parquet", row_group_size=1000)
    csv.write_csv(table, folder / "l.csv")
    return folder


@pytest.mark.parametrize("reader", ["read", "from_frame", "from_parquet", "from_csv", "scan_parquet", "from_batches"])
def test_every_reader_takes_the_user_s_word_that_a_grid_is_exact(grid_files, reader):
    read = readers(grid_files)[reader]
    assert read(exact_propensity=True).audit()["rounding"].status == "ok"
    assert read().audit()["rounding"].status == "problem"
    with pytest.raises(TypeError, match="exact_propensity must be True or False; got 1"):
        read(exact_propensity=1)


def test_a_log_in_pieces_takes_the_user_s_word_as_one_in_memory_does(grid_files):
    roles = {"action": "action", "reward": "reward", "propensity": "propensity"}
    log, prob = grid_log()
    policy = np.roll(prob, 1, axis=1)
    pieces = bopl.BanditLog.scan_parquet(grid_files / "l.parquet", **roles)
    said = bopl.BanditLog.scan_parquet(grid_files / "l.parquet", **roles, exact_propensity=True)
    plain = bopl.evaluate(log, policy, estimators="ips", exact_propensity=True).row()
    widened = bopl.evaluate(log, policy, estimators="ips").row()
    for found, row in (
        (bopl.evaluate(said, policy, estimators="ips"), plain),
        (bopl.evaluate(pieces, policy, estimators="ips", exact_propensity=True), plain),
        (bopl.evaluate(said, policy, estimators="ips", exact_propensity=False), widened),
    ):
        assert found.row()["ci_lower"] == pytest.approx(row["ci_lower"])
    assert said.audit()["rounding"].status == "ok"
