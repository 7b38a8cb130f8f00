import io

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import bopl
from bopl.boosting import ProgressBar, TimeLimit
from helpers import informative_log, make_log

LEARNER = DecisionTreeRegressor(max_depth=3)


def policy(**settings):
    return bopl.BoostedPolicy("surrogate", LEARNER, random_state=0, **({"n_rounds": 8} | settings))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_validation_truncates_to_the_best_round():
    train, validation = informative_log(0), informative_log(1)
    fitted = policy(n_rounds=40).fit(train, validation=validation)
    values = fitted.history_["validation_value"]
    assert len(values) == 40
    assert fitted.n_rounds_ == values.argmax() + 1
    assert fitted.score(validation) == pytest.approx(values.max())


def test_early_stopping_waits_for_its_patience():
    fitted = policy(n_rounds=200, early_stopping_rounds=5).fit(informative_log(0), validation=informative_log(1))
    values = fitted.history_["validation_value"]
    assert fitted.stop_reason_ == "the validation value stopped improving"
    assert len(values) == values.argmax() + 1 + 5
    assert fitted.n_rounds_ == values.argmax() + 1


def test_validation_fraction_sets_samples_aside():
    fitted = policy(validation_fraction=0.25).fit(informative_log(0))
    assert np.isfinite(fitted.history_["validation_value"]).all()
    again = policy(validation_fraction=0.25).fit(informative_log(0))
    np.testing.assert_array_equal(fitted.history_["validation_value"], again.history_["validation_value"])


def test_without_validation_its_column_is_missing_and_all_rounds_are_kept():
    fitted = policy().fit(informative_log())
    assert np.isnan(fitted.history_["validation_value"]).all()
    assert fitted.n_rounds_ == 8
    assert fitted.stop_reason_ == "all rounds were made"


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (make_log(n_features=5, n_actions=3), "other context columns than the training log: 5 against 4"),
        (make_log(n_features=4, n_actions=5), "other actions than the training log"),
    ],
)
def test_validation_log_must_match_the_training_log(validation, message):
    with pytest.raises(ValueError, match=message):
        policy().fit(informative_log(), validation=validation)


def test_time_limit_stops_after_the_round_in_which_it_is_reached():
    fitted = policy().fit(informative_log(), callbacks=[TimeLimit(0.0)])
    assert fitted.stop_reason_ == "the time limit was reached"
    assert fitted.n_rounds_ == 1
    assert policy().fit(informative_log(), callbacks=[TimeLimit(1e9)]).n_rounds_ == 8


def test_any_function_can_watch_and_stop():
    seen = []

    def stop_at_three(state):
        seen.append(state.records[-1]["alpha"])
        return bopl.CallbackAction.STOP if len(state.rounds) == 3 else bopl.CallbackAction.CONTINUE

    fitted = policy().fit(informative_log(), callbacks=[stop_at_three])
    assert seen == fitted.history_["alpha"].tolist()
    assert fitted.n_rounds_ == 3
    assert fitted.stop_reason_ == "a callback asked to stop"


def test_every_callback_sees_the_last_round():
    seen = []

    def watch(state):
        seen.append(len(state.rounds))
        return bopl.CallbackAction.CONTINUE

    policy().fit(informative_log(), callbacks=[TimeLimit(0.0), watch])
    assert seen == [1]


def test_ctrl_c_keeps_the_rounds_made_so_far():
    def interrupt(state):
        if len(state.rounds) == 4:
            raise KeyboardInterrupt
        return bopl.CallbackAction.CONTINUE

    fitted = policy().fit(informative_log(), callbacks=[interrupt])
    assert fitted.stop_reason_ == "interrupted by the user"
    assert fitted.n_rounds_ == 4
    assert fitted.predict(informative_log().context).shape == (400,)
    full = policy(n_rounds=4).fit(informative_log())
    np.testing.assert_array_equal(
        fitted.decision_function(informative_log().context), full.decision_function(informative_log().context)
    )


def test_ctrl_c_before_the_first_round_says_that_nothing_was_learned():
    class Early(bopl.Callback):
        def on_start(self, state):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        policy().fit(informative_log(), callbacks=[Early()])


def test_progress_bar_shows_rounds_and_values_on_a_terminal_and_is_silent_elsewhere():
    log = informative_log()
    terminal, pipe = Terminal(), io.StringIO()
    policy(progress=False).fit(log, validation=informative_log(1), callbacks=[ProgressBar(terminal), ProgressBar(pipe)])
    assert "8/8" in terminal.getvalue()
    assert "validation 0." in terminal.getvalue()
    assert pipe.getvalue() == ""


def test_an_error_in_a_callback_still_ends_the_others():
    ended = []

    class Watcher(bopl.Callback):
        def on_end(self, state):
            ended.append(len(state.rounds))

    def fail(state):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        policy().fit(informative_log(), callbacks=[Watcher(), fail])
    assert ended == [1]


@pytest.mark.parametrize("callbacks", [lambda state: None, [3], [bopl.boosting.Callback], 7])
def test_callbacks_of_a_wrong_type_are_one_sentence(callbacks):
    with pytest.raises(TypeError, match="callbacks must be a list of functions or Callback objects; got"):
        bopl.BoostedPolicy("ips", n_rounds=1, random_state=0).fit(make_log(), callbacks=callbacks)


def test_a_callback_that_answers_like_those_of_other_libraries_is_told_what_to_return():
    with pytest.raises(TypeError, match=r"a callback must return a CallbackAction, or None to continue; got True"):
        bopl.BoostedPolicy("ips", n_rounds=2, random_state=0).fit(make_log(), callbacks=[lambda state: True])
