"""Logs, policies, evaluations and audits show themselves in notebooks as one family of cards."""

import sys
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn import config_context

import bopl
from bopl._html import Markup, element, join
from helpers import informative_log

NAME = "<script>alert(1)</script>"


class Checker(HTMLParser):
    """Counts elements, and complains about those that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def checked(markup):
    checker = Checker()
    checker.feed(markup)
    assert checker.open == []
    return checker


@pytest.fixture(scope="module")
def log():
    plain = informative_log(n_samples=300)
    labels = np.array([NAME, "b" * 300, "c"])[plain.action_idx]
    return bopl.BanditLog(
        plain.context,
        labels,
        plain.reward,
        plain.propensity,
        feature_names=[NAME, "x", "y", "z"],
        group=plain.action_idx,
    )


@pytest.fixture(scope="module")
def policy(log):
    return bopl.BoostedPolicy(n_rounds=4, reward_translation=-0.3, validation_fraction=0.2, random_state=0).fit(log)


@pytest.fixture(scope="module")
def cards(log, policy):
    evaluation = bopl.evaluate(log, {NAME: policy, "uniform": np.full(len(log), 1 / 3)})
    shown = {"log": log, "evaluation": evaluation, "audit": log.audit(policy), "history": policy.history_}
    return {name: value._repr_html_() for name, value in shown.items()} | {
        "policy": policy._repr_mimebundle_()["text/html"],
        "unfitted": bopl.BoostedPolicy()._repr_html_(),
    }


@pytest.mark.parametrize("name", ["log", "policy", "unfitted", "evaluation", "audit", "history"])
def test_cards_are_well_formed_and_escaped(cards, name):
    checker = checked(cards[name])
    assert "script" not in checker.seen
    assert checker.seen[:2] == ["div", "style"]


@pytest.mark.parametrize("name", ["log", "policy", "evaluation"])
def test_names_are_shown_as_they_are(cards, name):
    assert NAME in checked(cards[name]).text


def test_a_log_shows_its_size_and_what_actions_earned(cards, log):
    text = checked(cards["log"]).text
    assert "300 samples, 4 features, 3 actions" in text
    assert "b" * 300 not in text
    assert f"{log.reward[log.action_idx == 2].mean():.4g}" in text


def test_a_log_without_propensities_says_so(log):
    unknown = bopl.BanditLog(log.context, log.action, log.reward, None, time=np.arange(len(log)))
    assert "unknown" in unknown._repr_html_()


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        (["2024-05-01T13:30:05.123456789", "2024-05-01T13:30:06"], "2024-05-01 13:30:05 to 2024-05-01 13:30:06"),
        (["2024-05-01", "2024-05-02"], "2024-05-01 to 2024-05-02"),
    ],
)
def test_times_of_a_log_are_shown_to_the_second_and_days_as_days(times, shown):
    columns = ([[0.0]] * 2, [0, 1], [1.0] * 2, [0.5] * 2)
    timed = bopl.BanditLog(*columns, time=np.array(times, dtype="datetime64"))
    assert shown in checked(timed._repr_html_()).text
    assert "7 to 8" in checked(bopl.BanditLog(*columns, time=[7, 8])._repr_html_()).text


def test_a_log_of_many_actions_names_the_most_frequent():
    many = bopl.BanditLog([[0.0]] * 40, list(range(40)), [1.0] * 40, [0.1] * 40)
    assert "32 more" in checked(many._repr_html_()).text


def test_a_policy_respects_the_display_of_scikit_learn(policy):
    with config_context(display="text"):
        assert set(policy._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(policy, "_repr_html_")
    assert "4 rounds" in policy._repr_html_() or "rounds of 4 made" in policy._repr_html_()


def test_an_evaluation_draws_one_interval_per_row(cards):
    checker = checked(cards["evaluation"])
    assert checker.seen.count("svg") == checker.seen.count("circle") == 4


def test_an_audit_shows_every_finding(cards, log, policy):
    text = checked(cards["audit"]).text
    assert all(finding.sentence in text for finding in log.audit(policy).findings)


def test_children_are_escaped_unless_they_are_markup():
    assert element("p", "<b>", Markup("<i>x</i>"), None, title='"') == '<p title="&quot;">&lt;b&gt;<i>x</i></p>'
    assert join("a & b", element("br")) == "a &amp; b<br>"


# -- Figures ----------------------------------------------------------------------------------------------------------


def figures(log, policy):
    return [policy.history_.plot(), bopl.evaluate(log, policy).plot()]


def test_figures_draw_themselves_where_no_magic_command_was_given(log, policy):
    for figure in figures(log, policy):
        assert figure._repr_png_().startswith(b"\x89PNG")


def test_figures_are_not_drawn_a_second_time_at_the_end_of_a_cell(log, policy):
    before = plt.get_fignums()
    figures(log, policy)
    assert plt.get_fignums() == before


def test_plots_say_what_to_install_where_matplotlib_is_missing(policy, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "bopl._figure", raising=False)
    with pytest.raises(ImportError, match=r"plots need matplotlib: pip install 'bopl\[plot\]'"):
        policy.history_.plot()


# -- Cards in a browser -----------------------------------------------------------------------------------------------

# Words of labels and cells that do not stand on one line.
BROKEN_WORDS = r"""(() => {
  const found = [];
  const texts = document.createTreeWalker(document.querySelector(".bopl"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (text.parentElement.closest("style, details")) continue;
    for (const word of text.data.matchAll(/\w+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].filter((one) => one.width).map((one) => Math.round(one.top)));
      if (word[0].length <= 24 && lines.size > 1) found.push(word[0]);
    }
  }
  return found;
})()"""
# What notebooks do to the text of their outputs.
HOST = ".host { word-break: break-word; overflow-wrap: anywhere; hyphens: auto } .host td, .host th { max-width: 0 }"


@pytest.fixture(scope="module")
def shown_cards(log, policy):
    auto = bopl.AutoPolicy(include=["regression"], progress=False, random_state=0).fit(log)
    blend = bopl.BlendedPolicy.of([policy, policy])
    policies = {"effective-samples": np.full((len(log), 3), 1 / 3), "the one that runs now": policy}
    values = {"log": log, "audit": log.audit(policy), "history": policy.history_, "policy": policy, "blend": blend}
    values |= {"auto": auto, "evaluation": bopl.evaluate(log, policies, estimators="all")}
    return {name: value._repr_html_() for name, value in values.items()}


@pytest.mark.parametrize("name", ["log", "audit", "history", "policy", "blend", "auto", "evaluation"])
def test_cards_break_no_word_whatever_the_notebook_allows(browser, shown_cards, name, tmp_path):
    page = tmp_path / "card.html"
    page.write_text(f"<!doctype html><style>{HOST}</style><div class=host>{shown_cards[name]}</div>", encoding="utf8")
    for width in (320, 480, 1100):
        browser.open(page, width=width)
        assert browser.evaluate(BROKEN_WORDS) == []
