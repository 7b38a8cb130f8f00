"""The summary is plain JSON, and the page is made from it alone."""

import json
import re

import numpy as np
import pytest

import bopl
from bopl.report import SCHEMA, render_page, summarise, write_page
from helpers import informative_log


@pytest.fixture(scope="module")
def run():
    train, test = informative_log(n_samples=900).split(0.4, random_state=0)
    policy = bopl.BoostedPolicy(n_rounds=6, reward_translation=-0.3, validation_fraction=0.2, random_state=0).fit(train)
    evaluation = bopl.evaluate(test, {"new": policy})
    return policy, test, evaluation


def test_summary_survives_json_and_gives_the_same_page(run, tmp_path):
    policy, test, evaluation = run
    summary = summarise(policy, test, evaluation, audit=test.audit(policy), config={"a": {"b": np.float32(0.5)}})
    again = json.loads(json.dumps(summary, allow_nan=False))
    assert again == summary
    assert summary["schema"] == SCHEMA
    write_page(again, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf8") == render_page(summary)


def test_page_without_optional_parts_has_no_trace_of_them(run):
    policy, test, evaluation = run
    page = render_page(summarise(policy, test, evaluation))
    assert "Configuration" not in page
    assert "{{" not in page
    assert "<!-- part" not in page


def test_page_says_what_the_run_chose(run):
    policy, test, evaluation = run
    page = render_page(summarise(policy, test, evaluation, config={"reward_translation": "auto", "context": None}))
    assert "translated by −0.3." in page
    assert "<td>not set</td>" in page


def test_other_columns_are_named_only_where_there_are_some(bare_summary):
    example = {"from": "a", "to": "b", "share": 0.2, "from_prob": 0.1, "to_prob": 0.8, "general": 0.5}
    example["parts"] = [{"feature": "hour", "value": "3", "effect": 1.2}]
    for rest, is_named in ((0.0, False), (-0.3, True)):
        page = render_page({**bare_summary, "examples": [{**example, "rest": rest}]})
        assert "hour = 3" in page
        assert ("all other columns" in page) == is_named


def test_page_says_whose_verdict_it_is(shop_summary, bare_summary):
    assert "The verdict is that of “Doubly robust”" in render_page(shop_summary)
    one = {**bare_summary, "evaluation": {**bare_summary["evaluation"], "rows": bare_summary["evaluation"]["rows"][:1]}}
    assert "The verdict is that of" not in render_page(one)


def test_page_asks_nothing_of_the_network(run):
    page = render_page(summarise(*run))
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)""", page)
    assert "default-src 'none'" in page
    assert not re.findall(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)


def test_numbers_that_cannot_be_trusted_are_not_on_top(bare_summary):
    doubtful = {**bare_summary, "verdict": {**bare_summary["verdict"], "verdict": "not trustworthy"}}
    assert render_page(bare_summary).count("<dd>unknown</dd>") == 0
    assert render_page(doubtful).count("<dd>unknown</dd>") == 2


def test_names_cannot_end_the_script_or_start_an_element(nasty_summary):
    page = render_page(nasty_summary)
    assert page.count("</script>") == 2  # of the data and of the charts
    assert "<script>document" not in page
    data = page.split('id="summary">')[1].split("</script>")[0]
    assert json.loads(data) == nasty_summary


def test_guards_comparisons_and_segments_are_tables_where_there_are_some(run):
    policy, test, evaluation = run
    assert not re.search("<h3>(Guards|Head to head|Segments)</h3>", render_page(summarise(policy, test, evaluation)))
    bad = "<b>bold</b>"
    log = bopl.BanditLog(
        test.context,
        test.action,
        test.reward,
        test.propensity,
        actions=list(test.actions),
        other_rewards={"revenue": 2.0 * test.reward},
        segment=np.where(np.arange(len(test)) % 2, bad, "other"),
    )
    found = bopl.evaluate(log, {"new": policy, bad: test.propensity}, guards=["revenue>=-5%"], head_to_head=True)
    page = render_page(json.loads(json.dumps(summarise(policy, log, found))))
    for title in ("Guards", "Head to head", "Segments"):
        rows = page.split(f"<h3>{title}</h3>")[1].split("</table>")[0]
        assert "&lt;b&gt;bold&lt;/b&gt;" in rows
        assert rows.count("<tr>") > 1
    assert bad not in page.split('<script type="application/json"')[0]
    assert "revenue&gt;=-5%" in page or "revenue &gt;=" in page
