"""The page of a running loop, in a real browser."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bopl.serving.events import EventStore
from bopl.serving.page import render_page
from bopl.serving.record import PromotionRow
from loops import Server, make_loop, wait_until

LOOKS = (Path(__file__).parents[1] / "report" / "looks.js").read_text(encoding="utf8")
SCRIPT = "<script>document.title='owned'</script>"
RAISED = {
    "name": "000012",
    "verdict": "better",
    "reason": "It earns more.",
    "candidate": "3f2a",
    "action": "raise",
    "next_share": 0.5,
}
WIDTHS = [1280, 390, 320]


@pytest.fixture(scope="module")
def busy(tmp_path_factory, first, policies):
    """The address of a server that has decided, been rewarded and seen windows close."""
    folder = make_loop(tmp_path_factory.mktemp("page") / "corner-shop", first, reward_window_s=0.5, random_state=1)
    second = list(policies)[1]
    folder.add_policy(policies[second])
    verdict = {"verdict": "better", "reason": "the interval of the uplift lies above zero"}
    with EventStore(folder.events) as store:
        row = store.promotion()
        store.promote(
            replace(row, policy=second, share=0.5, baseline=row.policy, reason="second ramp", verdict=verdict)
        )
    for number, name in enumerate(["better", "worse", "inconclusive", "not trustworthy", SCRIPT]):
        content = {"verdict": name, "reason": f"{SCRIPT} because of reasons that are long " * 3}
        (folder.verdicts / f"2026-01-0{number + 1}.json").write_text(json.dumps(content), encoding="utf8")
    (folder.verdicts / "broken.json").write_text("{", encoding="utf8")
    with Server(folder.path) as server, server.client() as client:
        for number in range(60):
            client.decide(f"e{number}")
            if number % 3:
                client.reward(f"e{number}", number % 2)
        assert wait_until(lambda: "bopl_closed_decisions 60.0" in client.get("/metrics")[1], 30)
        yield f"http://{server.address}/"


def complaints(browser, check):
    return browser.evaluate(f"(() => {{ {LOOKS}; return {check}(); }})()")


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_renders_without_complaints_and_nothing_is_cut(browser, busy, width):
    browser.open(busy, width=width)
    assert browser.complaints() == []
    assert complaints(browser, "badBoxes") == []
    assert complaints(browser, "badTexts") == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_colours_have_enough_contrast(browser, busy, width, dark):
    browser.open(busy, width=width, dark=dark)
    assert complaints(browser, "badContrast") == []


def test_the_page_says_what_is_served_and_how_it_goes(browser, busy, policies):
    browser.open(busy)
    # At once: the page loads itself again every few seconds, and is empty in between.
    title, text, n_ranges = browser.evaluate(
        "[document.title, document.body.innerText, document.querySelectorAll('.range').length]"
    )
    assert f"Policy {list(policies)[1]} decides 50% of the requests" in text
    for words in ("60 in the last 4 hours", "of 60 decisions whose window has closed", "Running value", "second ramp"):
        assert words in text
    assert "66.7%" in text, "two decisions of three were rewarded"
    assert title == "corner-shop · bopl", "nothing of the data is run"
    assert n_ranges == 2


# -- Without a server -------------------------------------------------------------------------------------------------


def summary(**changed):
    promotion = PromotionRow("uniform", 1.0, "uniform", 0.05, 0.001, SCRIPT, time=10**15, id=1)
    return {
        "folder": SCRIPT,
        "mode": "serve",
        "problem": None,
        "time": 10**15,
        "started": 10**15,
        "promotion": promotion,
        "promotions": [promotion],
        "verdicts": [],
        "n_decisions": 0,
        "n_fallbacks": 0,
        "rewards": {},
        "n_duplicates": 0,
        "traffic": [(number * 300, 0) for number in range(48)],
        "bucket_s": 300,
        "n_closed": 0,
        "rewarded_share": None,
        "served": None,
        "policy": None,
        "confidence": 0.95,
        "reward_range": (0.0, 1.0),
        "reward_window_s": 3600.0,
        **changed,
    }


def test_a_loop_that_has_just_begun_has_a_page():
    page = render_page(summary())
    assert "No window has closed yet." in page
    assert "Chance decides 100% of the requests" in page
    assert "<script" not in page


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"problem": "promotion 3 cannot be served: no file"}, "Promotion 3 cannot be served: no file"),
        ({"mode": "apprentice"}, "Callers decide"),
        ({"reward_window_s": 90.0}, "window of 90 seconds"),
        ({}, "there is no policy yet"),
        ({"n_fallbacks": 1200}, "1,200 fell back to the baseline"),
        ({"verdicts": [RAISED]}, "Policy 3f2a: It earns more. It got 50% of the traffic."),
        ({"verdicts": [RAISED | {"action": "roll back"}]}, "It earns more. It was rolled back."),
        ({"verdicts": [RAISED | {"action": "start", "next_share": None}]}, "It began with a share of the traffic."),
        ({"reward_window_s": 172_800.0}, "window of 2 days"),
    ],
)
def test_the_page_tells_of_what_is_special(changed, words):
    assert words in render_page(summary(**changed))
