"""DRR and BanditNet: gradients, scaling, lockstep, early stopping, files, refusals."""

import sys

import numpy as np
import pytest

import bopl
from bopl.baseline.network import Network, fit_scaling, layer_widths
from bopl.objective import IPS, TrainingData
from bopl.objective.softmax import log_softmax
from bopl.simulation import simulate_digits
from helpers import informative_log, make_log

torch = pytest.importorskip("torch", reason="torch is an optional dependency")

from bopl.baseline import BanditNetPolicy, DeepRewardPolicy, fit_together  # noqa: E402
from bopl.baseline.network_training import Columns, Training, ips_risk, squared_error  # noqa: E402

SMALL = {"n_hidden_layers": 2, "first_layer_width": 16, "n_epochs": 4, "batch_size": 20, "random_state": 0}
POLICIES = [DeepRewardPolicy, BanditNetPolicy]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def columns_of(log, mask=None):
    as_tensor = {
        name: torch.tensor(np.array(getattr(log, name)))[None] for name in ("action_idx", "reward", "propensity")
    }
    return Columns(**as_tensor, action_mask=None if mask is None else torch.tensor(np.array(mask))[None])


# -- Losses ---------------------------------------------------------------------------------------------------------


def test_gradient_of_banditnets_loss_is_that_of_the_ips_objective():
    log = make_log(3, n_samples=30)
    score = np.random.default_rng(0).normal(size=(30, 4))
    tensor = torch.tensor(score[None], requires_grad=True)
    ips_risk(tensor, columns_of(log), -0.3).sum().backward()
    ascent = IPS().bind(TrainingData(log.translated(-0.3))).gradient(log_softmax(score))
    np.testing.assert_allclose(tensor.grad[0].numpy(), -ascent / 30, atol=1e-12)


def test_gradient_of_banditnets_loss_matches_finite_differences_also_under_a_mask():
    log = make_log(4, n_samples=6)
    mask = np.ones((6, 4), bool)
    mask[np.arange(6), (log.action_idx + 1) % 4] = False
    score = torch.tensor(np.random.default_rng(1).normal(size=(1, 6, 4)), requires_grad=True)
    columns = columns_of(log, mask)
    assert torch.autograd.gradcheck(lambda value: ips_risk(value, columns, -0.2), (score,))
    (gradient,) = torch.autograd.grad(ips_risk(score, columns, -0.2).sum(), score)
    assert (gradient[0].numpy()[~mask] == 0.0).all()


def test_losses_are_the_formulas_they_name():
    log = make_log(5, n_samples=12)
    score = np.random.default_rng(0).normal(size=(12, 4))
    action_prob = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    rows = np.arange(12)
    risk = -np.mean((log.reward - 0.4) / log.propensity * action_prob[rows, log.action_idx])
    assert ips_risk(torch.tensor(score[None]), columns_of(log), -0.4).item() == pytest.approx(risk)
    logged = score[rows, log.action_idx]
    error = squared_error(torch.tensor(logged[None]), columns_of(log), 0.0).item()
    assert error == pytest.approx(np.mean((logged - log.reward) ** 2))


# -- Network --------------------------------------------------------------------------------------------------------


def naive_score(training, log):
    """Score pair by pair on ``[x; onehot(a)]``, layer by layer, with the running statistics of batch normalisation."""
    net = training.network
    number = lambda tensor: tensor.detach().double().numpy()  # noqa: E731
    score = np.zeros((log.n_samples, log.n_actions))
    for i in range(log.n_samples):
        for a in range(log.n_actions):
            hidden = np.concatenate([training.scalings[0](log.context[i : i + 1])[0], np.eye(log.n_actions)[a]])
            for layer in range(len(net.widths)):
                hidden = number(net.weights[layer][0]) @ hidden
                hidden = (hidden - number(net.means[layer])) / np.sqrt(number(net.variances[layer]) + 1e-5)
                hidden = np.maximum(hidden * number(net.gammas[layer]) + number(net.betas[layer]), 0.0)
            score[i, a] = number(net.weights[-1][0])[0] @ hidden + number(net.output_bias).item()
    return score


@pytest.mark.parametrize("policy_class", POLICIES)
def test_plain_arrays_score_as_the_trained_network_and_as_a_naive_loop(policy_class):
    log = make_log(0, n_samples=50)
    training = Training([log], policy_class(**SMALL)._settings(), [7], "cpu", owner="it")
    training._train_epoch()
    network = training.network.to_network(training.network.state, 0, training.scalings[0])
    expected = naive_score(training, log)
    np.testing.assert_allclose(network.score(log.context), expected, atol=1e-5)
    with torch.no_grad():
        score = training.network.forward(training.context, None, dropout=0.0, generator=None)
    np.testing.assert_allclose(score[0].numpy(), expected, atol=1e-5)
    logged = training.network.forward(training.context, training.columns.action_idx, dropout=0.0, generator=None)
    np.testing.assert_allclose(logged[0].detach().numpy(), expected[np.arange(50), log.action_idx], atol=1e-5)


@pytest.mark.parametrize("policy_class", [DeepRewardPolicy, BanditNetPolicy])
def test_records_of_a_batch_have_the_propensities_that_they_have_alone(policy_class):
    log = make_log(3, n_samples=60)
    policy = policy_class(**SMALL).fit(log)
    together = policy.records_proba(log.context)
    assert together.tobytes() == np.concatenate([policy.record_proba(row)[None] for row in log.context]).tobytes()
    eligible = [[0, 1]] * 60
    decided = policy.decide_many(log.context, eligible=eligible, random_state=0)
    draws = np.random.default_rng(0).random(60)
    alone = [
        policy.decide(row, eligible=[0, 1], draw=float(draw)) for row, draw in zip(log.context, draws, strict=True)
    ]
    assert [(one.action, one.propensity) for one in decided] == [(one.action, one.propensity) for one in alone]
    np.testing.assert_allclose(together, policy.predict_proba(log.context), atol=1e-5)


def test_widths_are_halved_down_to_thirty_two():
    assert layer_widths(6, 512) == [512, 256, 128, 64, 32, 32]
    assert layer_widths(3, 8) == [8, 8, 8]


def test_standard_scaling_leaves_columns_in_the_unit_interval_and_standardises_the_others():
    rng = np.random.default_rng(0)
    context = np.column_stack([rng.integers(0, 2, 500), rng.random(500), rng.normal(50, 9, 500), np.full(500, 7)])
    context = context.astype(np.float32)
    scaled = fit_scaling(context, "standard")(context)
    np.testing.assert_array_equal(scaled[:, :2], context[:, :2])
    np.testing.assert_allclose([scaled[:, 2].mean(), scaled[:, 2].std()], [0, 1], atol=1e-5)
    np.testing.assert_allclose(scaled[:, 3], 0.0)
    assert np.abs(fit_scaling(context, "max")(context)).max() == pytest.approx(1.0)
    np.testing.assert_array_equal(fit_scaling(context, "none")(context), context)


@pytest.mark.parametrize("policy_class", POLICIES)
def test_standardising_by_hand_and_inside_the_policy_give_the_same_policy(policy_class):
    log = make_log(1, n_samples=80)
    scaled = fit_scaling(log.context, "standard")(log.context)
    by_hand = bopl.BanditLog(scaled, log.action, log.reward, log.propensity, actions=log.actions)
    inside = policy_class(**SMALL).fit(log)
    outside = policy_class(**SMALL, scaling="none").fit(by_hand)
    np.testing.assert_allclose(inside.decision_function(log.context), outside.decision_function(scaled), atol=1e-6)


# -- Training -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy_class", POLICIES)
def test_the_seed_decides_the_policy_to_the_last_bit(policy_class):
    log = make_log(0, n_samples=90)
    one, two = (policy_class(**SMALL).fit(log).decision_function(log.context) for _ in range(2))
    assert one.tobytes() == two.tobytes()
    other = policy_class(**(SMALL | {"random_state": 1})).fit(log).decision_function(log.context)
    assert not np.allclose(one, other)


@pytest.mark.parametrize("policy_class", POLICIES)
def test_logs_trained_in_lockstep_get_the_networks_they_would_get_alone(policy_class):
    logs = [make_log(seed, n_samples=70) for seed in range(3)]
    settings = SMALL | {"dropout": 0.0}  # dropout draws for all logs at once
    alone = [policy_class(**(settings | {"random_state": seed})).fit(log) for seed, log in enumerate(logs)]
    together = fit_together([policy_class(**(settings | {"random_state": seed})) for seed in range(3)], logs)
    for one, other, log in zip(alone, together, logs, strict=True):
        np.testing.assert_allclose(
            other.decision_function(log.context), one.decision_function(log.context), rtol=1e-3, atol=1e-4
        )
        np.testing.assert_allclose(other.history_["loss"], one.history_["loss"], rtol=1e-3)


def test_a_log_that_stopped_early_keeps_its_best_epoch_while_others_train_on():
    logs = [make_log(seed, n_samples=60) for seed in range(4)]
    settings = SMALL | {"n_epochs": 60, "early_stopping_patience": 2}
    policies = fit_together([DeepRewardPolicy(**(settings | {"random_state": seed})) for seed in range(4)], logs)
    for policy in policies:
        value = policy.history_["snips_value"]
        first_stop = next(
            (end for end in range(1, len(value) + 1) if end - 1 - int(value[:end].argmax()) >= 2), len(value)
        )
        assert policy.best_epoch_ == int(value[:first_stop].argmax()) + 1
    assert len({policy.best_epoch_ for policy in policies}) > 1


def test_training_stops_when_the_training_reward_has_not_improved_for_so_many_epochs():
    policy = DeepRewardPolicy(**(SMALL | {"n_epochs": 200, "early_stopping_patience": 3})).fit(informative_log())
    value = policy.history_["snips_value"]
    assert len(value) < 200
    assert len(value) - policy.best_epoch_ == 3
    assert value[policy.best_epoch_ - 1] == value.max()


def test_kept_network_earns_the_training_reward_of_its_best_epoch():
    log = informative_log()
    for policy_class in POLICIES:
        policy = policy_class(**(SMALL | {"n_epochs": 8})).fit(log)
        assert policy.score(log) == pytest.approx(policy.history_["snips_value"].max(), abs=1e-5)


def test_weight_decay_shrinks_the_weights():
    log = informative_log()
    sizes = []
    for weight_decay in (0.0, 5.0):
        training = Training(
            [log], BanditNetPolicy(**SMALL, weight_decay=weight_decay)._settings(), [0], "cpu", owner="BanditNetPolicy"
        )
        for _ in range(3):
            training._train_epoch()
        sizes.append(sum(float((weight.detach() ** 2).sum()) for weight in training.network.weights))
    assert sizes[1] < 0.5 * sizes[0]


def test_adagrad_moves_as_its_formula_says():
    log = make_log(0, n_samples=40)
    settings = BanditNetPolicy(**SMALL, weight_decay=0.1, dropout=0.0)._settings()
    training = Training([log], settings, [0], "cpu", owner="BanditNetPolicy")
    net = training.network
    before = [parameter.detach().clone() for parameter in net.parameters]
    at = torch.arange(20)[None]
    gradients = torch.autograd.grad(training.batch_loss(at).sum(), net.parameters)
    training.optimizer.step(training.batch_loss(at).sum())
    for number, (old, gradient, new) in enumerate(zip(before, gradients, net.parameters, strict=True)):
        decay = 0.1 if number < len(net.weights) else 0.0
        expected = old - 0.01 * (gradient / torch.sqrt(gradient**2 + 1e-7) + decay * old)
        torch.testing.assert_close(new.detach(), expected, rtol=1e-4, atol=1e-6)


def test_networks_learn_the_digits():
    problem = simulate_digits(random_state=0)
    settings = {"n_hidden_layers": 2, "first_layer_width": 128, "scaling": "max", "random_state": 0}
    drr = DeepRewardPolicy(**settings, n_epochs=30).fit(problem.train)
    net = BanditNetPolicy(**settings, n_epochs=40, reward_translation=-0.2).fit(problem.train)
    assert problem.true_value(drr) >= 0.85
    assert problem.true_value(net) >= 0.85


@pytest.mark.parametrize("policy_class", POLICIES)
def test_a_subclass_is_trained_as_its_base_whatever_its_name(policy_class):
    log, subclass = informative_log(), type("Mine", (policy_class,), {})
    ours, theirs = (kind(**SMALL).fit(log).decision_function(log.context) for kind in (policy_class, subclass))
    np.testing.assert_array_equal(ours, theirs)


def test_a_last_batch_of_one_sample_is_left_for_another_epoch():
    log = make_log(0, n_samples=41)
    assert np.isfinite(DeepRewardPolicy(**SMALL).fit(log).history_["loss"]).all()


@pytest.mark.parametrize("policy_class", POLICIES)
def test_masked_actions_are_neither_learned_from_nor_chosen(policy_class):
    log = make_log(0, n_samples=60)
    mask = np.ones((60, 4), bool)
    mask[np.arange(60), (log.action_idx + 1) % 4] = False
    masked = bopl.BanditLog(log.context, log.action, log.reward, log.propensity, actions=log.actions, action_mask=mask)
    policy = policy_class(**SMALL).fit(masked)
    action_prob = policy.predict_proba(log.context, action_mask=mask)
    assert (action_prob[~mask] == 0.0).all()
    np.testing.assert_allclose(action_prob.sum(axis=1), 1.0)


def test_action_features_reach_the_network():
    log = make_log(0, n_samples=60)
    featured = bopl.BanditLog(
        log.context, log.action, log.reward, log.propensity, actions=log.actions, action_features=np.eye(4)[:, :2]
    )
    assert not np.allclose(
        DeepRewardPolicy(**SMALL).fit(featured).decision_function(log.context),
        DeepRewardPolicy(**SMALL).fit(log).decision_function(log.context),
    )


def test_sparse_contexts_train_as_dense_ones_do():
    from scipy.sparse import csr_array

    log = make_log(0, n_samples=60, distinct=2)
    sparse = bopl.BanditLog(csr_array(log.context), log.action, log.reward, log.propensity, actions=log.actions)
    one, other = (DeepRewardPolicy(**SMALL).fit(each) for each in (log, sparse))
    np.testing.assert_array_equal(one.decision_function(log.context), other.decision_function(sparse.context))


# -- Refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": -0.1}, r"learning_rate must be greater than 0; got -0\.1"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\)"),
        ({"n_hidden_layers": 0}, "n_hidden_layers must be at least 1"),
        ({"batch_size": 1}, "batch_size must be at least 2"),
        ({"scaling": "unit"}, "scaling must be one of 'standard', 'max', 'none'; got 'unit'"),
        ({"device": "tpu9"}, "device must be 'auto', 'cpu' or 'cuda'; got 'tpu9'"),
    ],
)
@pytest.mark.parametrize("policy_class", POLICIES)
def test_settings_out_of_range_are_refused_by_name(policy_class, settings, message):
    with pytest.raises(ValueError, match=message):
        policy_class(**(SMALL | settings)).fit(make_log())


def test_cuda_without_a_gpu_is_refused_in_one_sentence():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(ValueError, match="PyTorch finds no GPU here; use device='cpu'"):
        BanditNetPolicy(**SMALL, device="cuda").fit(make_log())


def test_missing_torch_is_one_sentence_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"DeepRewardPolicy needs PyTorch: pip install 'bopl\[deep\]'\."):
        DeepRewardPolicy(**SMALL).fit(make_log())


def test_policies_that_differ_cannot_train_together():
    logs = [make_log(seed) for seed in range(2)]
    with pytest.raises(ValueError, match="must agree in class and settings"):
        fit_together([DeepRewardPolicy(**SMALL), DeepRewardPolicy(**SMALL, dropout=0.5)], logs)
    with pytest.raises(ValueError, match="same numbers of samples"):
        fit_together([DeepRewardPolicy(**SMALL)] * 2, [logs[0], make_log(n_samples=50)])
    with pytest.raises(ValueError, match="one policy per log; got 1 policies and 2 logs"):
        fit_together([DeepRewardPolicy(**SMALL)], logs)


def test_a_network_file_with_wrong_shapes_is_refused(tmp_path):
    policy = DeepRewardPolicy(**SMALL).fit(make_log())
    net = policy.network_
    policy.network_ = Network(net.scaling, net.context_weight[:-1], net.action_offset, net.weights, net.biases)
    policy.save(tmp_path / "policy.bopl")
    with pytest.raises(ValueError, match="array 'context_weight' must hold finite numbers of shape"):
        bopl.load(tmp_path / "policy.bopl")
