"""The page in a real browser: it renders without errors, its controls work, nothing is cut or too pale."""

from pathlib import Path

import pytest

import bopl
from bopl.report import write_page
from helpers import informative_log

LOOKS = (Path(__file__).parent / "looks.js").read_text(encoding="utf8")
WIDTHS = [1280, 390, 320]
CASES = ["shop", "nasty", "bare", "race", "blend"]


def complaints(browser, check):
    return browser.evaluate(f"(() => {{ {LOOKS}; return {check}(); }})()")


def text_of(browser, selector):
    return browser.evaluate(f"document.querySelector({selector!r})?.textContent")


def pick(browser, selector, value):
    """Choose an entry of a select, as a reader would."""
    browser.evaluate(
        f"(() => {{ const node = document.querySelector({selector!r}); node.value = {value!r}; "
        "node.dispatchEvent(new Event('change')); })()"
    )
    browser.settle()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("width", WIDTHS)
def test_page_renders_without_complaints(browser, pages, case, width):
    browser.open(pages[case], width=width)
    assert browser.complaints() == []
    n_places, n_drawn = browser.evaluate(
        "[document.querySelectorAll('[data-chart]').length, "
        "[...document.querySelectorAll('[data-chart]')].filter(node => node.querySelector('svg')).length]"
    )
    assert n_drawn == n_places > 0


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("width", WIDTHS)
def test_no_text_is_cut_or_overlaps(browser, pages, case, width):
    browser.open(pages[case], width=width)
    assert complaints(browser, "badTexts") == []
    assert complaints(browser, "badBoxes") == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_colours_have_enough_contrast(browser, pages, width, dark):
    browser.open(pages["shop"], width=width, dark=dark)
    assert complaints(browser, "badContrast") == []


def test_theme_button_switches_and_contrast_stays(browser, pages):
    browser.open(pages["shop"])
    light = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    browser.evaluate("document.getElementById('theme').click()")
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") != light
    assert complaints(browser, "badContrast") == []


def test_names_from_the_data_are_text_not_markup(browser, pages):
    browser.open(pages["nasty"])
    assert browser.evaluate("document.title") != "owned"
    assert browser.evaluate("document.querySelectorAll('main script, main b').length") == 0
    labels = browser.evaluate("[...document.querySelectorAll('#segment-action option')].map(o => o.dataset.label)")
    assert any(label.startswith("<script>") for label in labels)


def test_choosing_an_estimator_explains_it_and_marks_its_line(browser, pages):
    browser.open(pages["shop"])
    assert "Doubly robust (dr)" in text_of(browser, "#forest-detail")
    pick(browser, "#forest-estimator", "1")
    assert "Self-normalised IPS (snips)" in text_of(browser, "#forest-detail")
    assert browser.evaluate("document.querySelector('[data-estimator=snips]').getAttribute('aria-pressed')") == "true"
    browser.evaluate("document.querySelector('[data-estimator=dm]').dispatchEvent(new Event('click'))")
    assert "Direct method" in text_of(browser, "#forest-detail")
    assert browser.evaluate("document.querySelector('#forest-estimator').value") == "3"


def test_forest_plot_shows_uplift_and_reward(browser, pages):
    browser.open(pages["shop"])
    before = text_of(browser, "[data-chart=forest] svg")
    browser.evaluate("document.querySelector('#forest-scale input[value=value]').click()")
    browser.settle()
    after = text_of(browser, "[data-chart=forest] svg")
    assert "in % of its reward" in before
    assert "%" not in after
    assert "reward per decision" in after


def test_choosing_column_and_action_changes_the_segments(browser, pages):
    browser.open(pages["shop"])
    first = text_of(browser, "[data-chart=segmentShares] svg")
    pick(browser, "#segment-action", "5")
    second = text_of(browser, "[data-chart=segmentShares] svg")
    pick(browser, "#segment-feature", "1")
    third = text_of(browser, "[data-chart=segmentShares] svg")
    assert len({first, second, third}) == 3
    assert text_of(browser, "#segment-action option:nth-child(6)") in second


def test_choosing_an_action_changes_its_reasons(browser, pages):
    browser.open(pages["shop"])
    before = text_of(browser, "[data-chart=effects]"), text_of(browser, "#effects-note")
    pick(browser, "#effects-action", "2")
    after = text_of(browser, "[data-chart=effects]"), text_of(browser, "#effects-note")
    assert before[0] != after[0]
    assert text_of(browser, "#effects-action option:nth-child(3)") in after[1]


def test_importance_is_shown_by_shap_value_and_by_gain(browser, pages):
    browser.open(pages["shop"])
    assert "SHAP" in text_of(browser, "[data-chart=importance] svg")
    browser.evaluate("document.querySelector('#importance-kind input[value=gain]').click()")
    assert "gain" in text_of(browser, "[data-chart=importance] svg")


def test_the_race_shows_every_candidate_with_its_status(browser, pages, race_summary):
    browser.open(pages["race"])
    shown = text_of(browser, "[data-chart=race] svg")
    for entry in race_summary["race"]["entries"]:
        assert entry["candidate"] in shown
        assert entry["status"] in shown
    circles = "[...document.querySelectorAll('[data-chart=race] circle')]"
    n_drawn, n_filled = browser.evaluate(
        f"[{circles}.length, {circles}.filter(c => !c.classList.contains('paper-fill')).length]"
    )
    judged = [entry for entry in race_summary["race"]["entries"] if entry["uplift"] is not None]
    assert n_drawn == len(judged) > 1
    assert n_filled == sum(entry["status"] in ("won", "in the blend") for entry in judged)
    assert race_summary["race"]["verdict"] in text_of(browser, "#race .lead")


def test_a_greedy_policy_is_not_said_to_have_odds(browser, pages):
    browser.open(pages["blend"])
    assert "odds" not in text_of(browser, "#reasons")
    assert "always takes the action with the highest score" in text_of(browser, "#reasons")


def test_many_actions_are_folded_and_can_be_unfolded(browser, pages):
    browser.open(pages["nasty"])
    rows = "document.querySelectorAll('[data-chart=shares] .pick').length"
    assert browser.evaluate(rows) == 12
    browser.evaluate("document.querySelector('#shares-all').click()")
    assert browser.evaluate(rows) == 41  # forty by name, and all others together
    assert complaints(browser, "badTexts") == []


def test_hovering_shows_numbers_and_dragging_zooms_into_rounds(browser, pages):
    browser.open(pages["shop"])
    box = browser.evaluate(
        "(() => { const hit = document.querySelector('[data-chart=historyRisk] .hit'); "
        "hit.scrollIntoView({behavior: 'instant'}); const box = hit.getBoundingClientRect(); "
        "return [box.left, box.top, box.width, box.height]; })()"
    )
    left, y = box[0], box[1] + box[3] / 2
    browser.mouse("mouseMoved", left + 0.3 * box[2], y)
    assert text_of(browser, "#tooltip").startswith("Round ")
    browser.mouse("mousePressed", left + 0.3 * box[2], y)
    browser.mouse("mouseMoved", left + 0.8 * box[2], y)
    browser.mouse("mouseReleased", left + 0.8 * box[2], y)
    browser.settle()
    assert browser.evaluate("document.getElementById('history-reset').hidden") is False
    ticks = "document.querySelector('[data-chart=historyValue] svg').textContent"
    zoomed = browser.evaluate(ticks)
    browser.evaluate("document.getElementById('history-reset').click()")
    assert browser.evaluate(ticks) != zoomed
    assert browser.complaints() == []


def press(browser, *keys):
    for key in keys:
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        browser.call("Input.dispatchKeyEvent", type="keyUp", key=key)
    browser.settle()


def test_history_is_read_and_zoomed_with_the_keyboard(browser, pages, shop_summary):
    browser.open(pages["shop"])
    hit = "document.querySelector('[data-chart=historyValue] .hit')"
    browser.evaluate(f"{hit}.focus()")
    press(browser, "Home", "ArrowRight")
    value = shop_summary["training"]["columns"]["validation_value"][1]
    assert text_of(browser, "#tooltip").startswith("Round 2")
    said = browser.evaluate(f"{hit}.getAttribute('aria-valuetext')")
    assert said.startswith("round 2, validation 0.")
    assert float(said.split()[3].rstrip(",")) == pytest.approx(value, rel=1e-3)
    press(browser, "+")
    reset = "document.getElementById('history-reset').hidden"
    assert browser.evaluate(reset) is False
    assert browser.evaluate(f"document.activeElement === {hit}") is True
    press(browser, "Escape")
    assert browser.evaluate(reset) is True
    assert browser.complaints() == []


def test_a_drag_that_the_browser_takes_over_leaves_no_trace(browser, pages):
    browser.open(pages["shop"])
    browser.evaluate(
        "(() => { const hit = document.querySelector('[data-chart=historyRisk] .hit'); "
        "hit.setPointerCapture = () => {}; "
        "const { left, width, top } = hit.getBoundingClientRect(); "
        "const send = (kind, share) => hit.dispatchEvent(new PointerEvent(kind, "
        "{ pointerId: 7, clientX: left + share * width, clientY: top + 9 })); "
        "send('pointerdown', 0.1); send('pointercancel', 0.2); send('pointermove', 0.9); send('pointerup', 0.9); })()"
    )
    brush = "document.querySelector('[data-chart=historyRisk] .brush').getAttribute('visibility')"
    assert browser.evaluate(brush) == "hidden"
    assert browser.evaluate("document.getElementById('history-reset').hidden") is True


def test_zoom_stops_where_few_rounds_are_drawn(browser, shop_summary, tmp_path):
    training = shop_summary["training"]
    thinned = {**training["columns"], "round": [1 + 50 * idx for idx in range(12)]}
    write_page({**shop_summary, "training": {**training, "columns": thinned}}, tmp_path / "long.html")
    browser.open(tmp_path / "long.html")
    hit = "document.querySelector('[data-chart=historyRisk] .hit')"
    browser.evaluate(f"{hit}.focus()")
    for _ in range(6):
        press(browser, "+")
        assert browser.evaluate(f"{hit}.getAttribute('aria-valuetext')").startswith("round ")
    low, high = (float(browser.evaluate(f"{hit}.getAttribute('aria-value{end}')")) for end in ("min", "max"))
    assert high - low >= 100
    assert browser.complaints() == []


def test_the_chosen_round_is_marked_above_the_lines(browser, pages):
    browser.open(pages["shop"])
    covered = browser.evaluate(
        "[...document.querySelectorAll('[data-chart^=history] svg')].filter(svg => { "
        "const mark = [...svg.querySelectorAll('text')].find(text => text.textContent.startsWith('chosen')); "
        "return mark.getBoundingClientRect().bottom > svg.querySelector('.hit').getBoundingClientRect().top; }).length"
    )
    assert covered == 0


def test_controls_within_drawings_are_not_hidden_from_screen_readers(browser, pages):
    browser.open(pages["shop"])
    assert browser.evaluate("document.querySelectorAll('svg[role=img] [tabindex]').length") == 0
    assert browser.evaluate("document.querySelectorAll('svg[role=group] [tabindex]').length") > 4


TICKS = (
    "[...document.querySelectorAll('[data-chart={}] .tick')].filter(n => n.getAttribute('text-anchor') === 'middle')"
    ".map(n => n.textContent)"
)


@pytest.mark.parametrize("width", WIDTHS)
def test_numbers_along_an_axis_differ_however_small_the_shares(browser, shop_summary, tmp_path, width):
    actions = shop_summary["actions"]
    small = {name: [share / 60 for share in actions[name]] for name in ("logging", "new")}
    rows = [{**row} for row in shop_summary["evaluation"]["rows"]]
    for row in rows:  # narrow intervals around a large value
        row |= {"value": 50.1, "ci_lower": 50.06, "ci_upper": 50.14}
        row |= {"uplift": 0.1, "uplift_ci_lower": 0.06, "uplift_ci_upper": 0.14}
    evaluation = {**shop_summary["evaluation"], "rows": rows, "logging_value": 50.0}
    summary = {**shop_summary, "actions": {**actions, **small}, "evaluation": evaluation}
    write_page(summary, tmp_path / "small.html")
    browser.open(tmp_path / "small.html", width=width)
    for chart in ("shares", "forest"):
        ticks = browser.evaluate(TICKS.format(chart))
        assert len(set(ticks)) == len(ticks) > 2
    browser.evaluate("document.querySelector('#forest-scale input[value=value]').click()")
    browser.settle()
    ticks = browser.evaluate(TICKS.format("forest"))
    assert len(set(ticks)) == len(ticks) > 2
    assert "50.100  [50.060, 50.140]" in text_of(browser, "[data-chart=forest] svg")


@pytest.mark.parametrize("width", WIDTHS)
def test_long_names_that_differ_at_their_ends_can_be_told_apart(browser, shop_summary, tmp_path, width):
    actions = shop_summary["actions"]
    address = "https://shop.example.com/" + "a-long-way-down/" * 10
    names = [f"{address}number-{place}" for place, _ in enumerate(actions["labels"])]
    write_page({**shop_summary, "actions": {**actions, "labels": names}}, tmp_path / "names.html")
    browser.open(tmp_path / "names.html", width=width)
    shown = browser.evaluate(
        "[...document.querySelectorAll('[data-chart=shares] svg text')].map(n => n.firstChild.data)"
    )
    labels = [text for text in shown if "…" in text]
    assert len(set(labels)) == len(labels) == len(names)


def test_charts_are_drawn_for_the_width_of_paper_and_name_the_column(browser, pages, shop_summary):
    browser.open(pages["shop"])
    width = "document.querySelector('[data-chart=forest] svg').viewBox.baseVal.width"
    assert browser.evaluate(width) > 900
    on_paper = browser.evaluate(f"window.dispatchEvent(new Event('beforeprint')), {width}")  # before the next frame
    assert 650 < on_paper < 730
    browser.resize(765)
    browser.settle()
    assert complaints(browser, "badTexts") == []
    browser.resize(1280)
    for chart in ("segmentShares", "segmentGain"):
        assert shop_summary["segments"][0]["feature"] in text_of(browser, f"[data-chart={chart}] svg")
    browser.evaluate("window.dispatchEvent(new Event('afterprint'))")
    browser.settle()
    assert browser.evaluate(width) > 900


def test_every_choice_leaves_the_texts_in_place(browser, pages):
    browser.open(pages["shop"], width=390)
    found = []
    for selector in ("#segment-feature", "#segment-action", "#effects-action", "#forest-estimator"):
        for value in browser.evaluate(f"[...document.querySelector('{selector}').options].map(o => o.value)"):
            pick(browser, selector, value)
            found += complaints(browser, "badTexts")
    for value in ("uplift", "value"):
        browser.evaluate(f"document.querySelector('#forest-scale input[value={value}]').click()")
        browser.settle()
        found += complaints(browser, "badTexts")
    assert found == []


@pytest.mark.parametrize("dark", [False, True])
def test_cards_of_a_notebook_fit_and_can_be_read(browser, tmp_path, dark):
    log = informative_log(n_samples=60)
    policy = bopl.BoostedPolicy(n_rounds=4, reward_translation=-0.3, random_state=0).fit(log)
    evaluation = bopl.evaluate(log, {"new policy": policy}, estimators=["snips", "dr"])
    assert "not trustworthy" in evaluation._repr_html_()
    shown = "".join(one._repr_html_() for one in (log, policy, evaluation, log.audit(policy)))
    colours = "background:#111;color:#ddd" if dark else "background:#fff;color:#111"
    page = tmp_path / "cards.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body style='{colours}'>{shown}", encoding="utf8")
    browser.open(page, width=900)
    assert complaints(browser, "badTexts") == []
    assert complaints(browser, "badBoxes") == []
    assert complaints(browser, "badContrast") == []


def test_page_prints_in_light_colours_without_controls(browser, pages):
    browser.open(pages["shop"], dark=True)
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert browser.evaluate("getComputedStyle(document.querySelector('.controls')).display") == "none"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
