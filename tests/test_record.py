"""A record is a dataclass for code and a mapping for users."""

from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Annotated

import numpy as np
import pandas as pd
import pytest

import bopl
from bopl._record import Record, column_texts
from bopl.boosting.history import RoundRow
from bopl.evaluation import planning, row
from bopl.race import leaderboard


@dataclass(frozen=True, eq=False)
class Fruit(Record):
    name: Annotated[str, "what it is called"]
    weight: Annotated[float, "in grams"]


APPLE = Fruit("apple", 150.0)


def test_fields_are_read_as_attributes_and_by_name():
    assert (APPLE.name, APPLE["weight"]) == ("apple", 150.0)
    assert list(APPLE) == ["name", "weight"]
    assert len(APPLE) == 2
    assert {**APPLE, "weight": 1.0} == {"name": "apple", "weight": 1.0}
    with pytest.raises(KeyError, match="there is no 'colour'; there are name, weight"):
        APPLE["colour"]
    with pytest.raises(FrozenInstanceError):
        APPLE.name = "pear"


def test_records_equal_each_other_and_dicts_by_their_values():
    assert Fruit("apple", 150.0) == APPLE
    assert dict(APPLE) == APPLE
    assert replace(APPLE, weight=151.0) != APPLE


def test_numbers_that_json_cannot_hold_become_none():
    assert Fruit("pear", np.inf).to_dict() == {"name": "pear", "weight": None}


def test_frames_are_made_of_records():
    pd.testing.assert_frame_equal(pd.DataFrame([APPLE]), pd.DataFrame([dict(APPLE)]))


@pytest.mark.parametrize("kind", [Fruit, row.Estimate, RoundRow, planning.PlanRow, leaderboard.Entry])
def test_every_column_is_described(kind):
    texts = column_texts(kind)
    assert list(texts) == list(kind.__dataclass_fields__)
    assert all(texts.values())


def test_all_rows_of_an_evaluation_are_records():
    rng = np.random.default_rng(0)
    action = rng.integers(2, size=400)
    log = bopl.BanditLog(
        rng.normal(size=(400, 1)), action, action + rng.random(400), np.full(400, 0.5), other_rewards={"cost": action}
    )
    found = bopl.evaluate(
        log,
        {"a": np.tile([0.2, 0.8], (400, 1)), "b": np.tile([0.4, 0.6], (400, 1))},
        guards=["cost<=+5%"],
        head_to_head=True,
        segment=np.where(rng.random(400) < 0.5, "north", "south"),
        confounding=True,
        estimators="snips",
    )
    kinds = {
        "rows": row.Estimate,
        "decisions": row.PolicyVerdict,
        "guards": row.GuardResult,
        "segments": row.SegmentEstimate,
        "comparisons": row.Comparison,
        "confounding": row.TippingPoint,
    }
    plain = found.to_dict()
    for part, kind in kinds.items():
        records = getattr(found, part)
        assert records
        assert all(isinstance(one, kind) for one in records)
        assert plain[part] == [one.to_dict() for one in records]
