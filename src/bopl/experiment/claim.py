"""The paper's claims about its results, each checked on ours by the intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bopl.experiment.config import DATASETS, METHODS
from bopl.experiment.result import Cell, Line, collect, collect_direct_method
from bopl.experiment.table import cell_text

Cells = Mapping[tuple[str, str], Cell]

BRR = ("brr-gb", "brr-xgb")
DEEP = ("drr", "banditnet")
BOPL = ("bopl-regr", "bopl-class", "bopl-s-regr", "bopl-s-class")
# The paper's four datasets; results on the first upload of TMC2007-500 stand for the paper's where they are there.
_FOUR = ("covertype", "fashion_mnist", "scene", "tmc2007_500_v1")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, whether it holds here (None: results are missing), and the numbers that say so."""

    text: str
    holds: bool | None
    evidence: str

    def __str__(self) -> str:
        verdict = {True: "holds", False: "does not hold", None: "cannot be judged yet"}[self.holds]
        return f"{self.text}: {verdict}. {self.evidence}"


def check_claims(lines: Sequence[Line]) -> list[Claim]:
    """Return every claim with a verdict; intervals that overlap count as tied."""
    cells, estimates = collect(lines), collect_direct_method(lines)
    return [
        _bopl_above_brr(cells),
        _deep_ahead(cells),
        _surrogate_regression_is_best_variant(cells),
        _tied(cells, "scene", DEEP[1:], BOPL, "BanditNet is tied with BOPL on Scene"),
        _tied(cells, "tmc2007_500_v1", ("brr-xgb",), ("drr",), "BRR-xgb is tied with DRR on TMC2007-500"),
        _translation_matters(lines),
        _direct_method_biased(estimates, cells),
    ]


def _best(cells: Cells, methods: Iterable[str], dataset: str) -> tuple[str, Cell] | None:
    found = [(method, cells[method, dataset]) for method in methods if (method, dataset) in cells]
    return max(found, key=lambda pair: pair[1].mean) if found else None


def _named(pair: tuple[str, Cell]) -> str:
    return f"{METHODS[pair[0]]} {cell_text(pair[1])}"


def _bopl_above_brr(cells: Cells) -> Claim:
    text = "BOPL is above BRR on three of the four datasets"
    above, evidence = 0, []
    for dataset in _FOUR:
        ours, theirs = _best(cells, BOPL, dataset), _best(cells, BRR, dataset)
        if ours is None or theirs is None:
            return Claim(text, None, f"There are no results for {DATASETS[dataset]}.")
        above += ours[1].low > theirs[1].high
        evidence.append(f"{DATASETS[dataset]}: {_named(ours)} against {_named(theirs)}")
    return Claim(text, above >= 3, "; ".join(evidence) + ".")


def _deep_ahead(cells: Cells) -> Claim:
    text = "The deep methods are ahead on Fashion-MNIST"
    deep, rest = _best(cells, DEEP, "fashion_mnist"), _best(cells, (*BRR, *BOPL), "fashion_mnist")
    if deep is None or rest is None:
        return Claim(text, None, "There are no results for Fashion-MNIST.")
    return Claim(text, deep[1].low > rest[1].high, f"{_named(deep)} against {_named(rest)}.")


def _surrogate_regression_is_best_variant(cells: Cells) -> Claim:
    text = "BOPL-S-regr is always the best BOPL variant or tied with it"
    evidence, holds = [], True
    for dataset in _FOUR:
        best, own = _best(cells, BOPL, dataset), cells.get(("bopl-s-regr", dataset))
        if best is None or own is None:
            return Claim(text, None, f"There are no results for {DATASETS[dataset]}.")
        holds = holds and (best[0] == "bopl-s-regr" or own.overlaps(best[1]))
        evidence.append(f"{DATASETS[dataset]}: {cell_text(own)}, best {_named(best)}")
    return Claim(text, holds, "; ".join(evidence) + ".")


def _tied(cells: Cells, dataset: str, one: Sequence[str], other: Sequence[str], text: str) -> Claim:
    left, right = _best(cells, one, dataset), _best(cells, other, dataset)
    if left is None or right is None:
        return Claim(text, None, f"There are no results for {DATASETS[dataset]}.")
    return Claim(text, left[1].overlaps(right[1]), f"{_named(left)} and {_named(right)}.")


def _translation_matters(lines: Sequence[Line]) -> Claim:
    text = "Reward translation matters on Covertype: BOPL-S ends above BOPL-CS, which has none"
    final = {line["method"]: line["test_reward"] for line in lines if "gradient_norm" in line}
    if not {"bopl-s-regr", "bopl-cs-regr"} <= set(final):
        return Claim(text, None, "The runs of Figure 1 are missing.")
    with_it, without = final["bopl-s-regr"], final["bopl-cs-regr"]
    return Claim(text, with_it > without, f"One run each: {with_it:.4f} with, {without:.4f} without.")


def _direct_method_biased(estimates: Cells, cells: Cells) -> Claim:
    text = "The direct method's estimate is far below the truth on Scene, and much nearer on TMC2007-500"
    gaps = {}
    for dataset in ("scene", "tmc2007_500_v1"):
        for method in ("brr-xgb", "bopl-regr"):
            if (method, dataset) not in estimates or (method, dataset) not in cells:
                return Claim(text, None, f"There are no estimates for {DATASETS[dataset]}.")
            gaps[method, dataset] = cells[method, dataset].mean - estimates[method, dataset].mean
    far = min(gaps[method, "scene"] for method in ("brr-xgb", "bopl-regr"))
    near = max(abs(gaps[method, "tmc2007_500_v1"]) for method in ("brr-xgb", "bopl-regr"))
    evidence = "; ".join(
        f"{METHODS[method]} on {DATASETS[dataset]}: {gap:+.4f}" for (method, dataset), gap in gaps.items()
    )
    return Claim(text, far > 0.05 and near < far, f"Truth less estimate: {evidence}.")
