"""The lines for a service of one's own, where FastAPI or BentoML is installed: they run as they stand on the pages."""

import asyncio
import re
from pathlib import Path

import pytest

from loops import RECORD, make_policy

DOCS = Path(__file__).parents[2] / "docs"


def run_block(page, word):
    """Run the block of a page that holds a word, and return its names."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf8"), re.DOTALL)
    (block,) = [one for one in blocks if word in one]
    names = {"__name__": "service"}
    exec(block, names)
    return names


async def post(app, body):
    httpx = pytest.importorskip("httpx")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        return await client.post("/decide", json=body)


@pytest.mark.parametrize(
    ("page", "body"), [("deciding.md", RECORD), ("serving.md", {"context": RECORD, "event": "visit-1"})]
)
def test_a_service_of_ones_own_decides_as_the_policy_does(page, body, tmp_path, monkeypatch):
    pytest.importorskip("fastapi")
    monkeypatch.chdir(tmp_path)
    policy = make_policy("policy.bopl")
    answer = asyncio.run(post(run_block(page, "FastAPI()")["app"], body))
    assert answer.status_code == 200
    decided = answer.json()
    position = policy.actions_.tolist().index(decided["action"])
    assert decided["propensity"] == policy.record_proba(RECORD)[position]
    assert decided["policy"] == policy.policy_id
    assert decided["event"] == body.get("event", decided["event"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of BentoML's own making
def test_a_bento_decides_as_the_policy_does(tmp_path, monkeypatch):
    pytest.importorskip("bentoml")
    monkeypatch.chdir(tmp_path)
    policy = make_policy("policy.bopl")
    decided = run_block("deciding.md", "bentoml.service")["Shop"]().decide(record=RECORD)
    position = policy.actions_.tolist().index(decided["action"])
    assert decided["propensity"] == policy.record_proba(RECORD)[position]
    assert decided["policy"] == policy.policy_id
