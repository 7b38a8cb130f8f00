"""The page in a real browser: it renders without errors, its controls work, nothing is cut or too pale."""

from pathlib import Path

import pytest

LOOKS = (Path(__file__).parent / "looks.js").read_text(encoding="utf8")
WIDTHS = [1280, 390]
CASES = ["shop", "nasty", "bare"]


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


def test_page_prints_in_light_colours_without_controls(browser, pages):
    browser.open(pages["shop"], dark=True)
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert browser.evaluate("getComputedStyle(document.querySelector('.controls')).display") == "none"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
