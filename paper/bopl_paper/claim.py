"""The paper's claims about its results, each checked on ours by the intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bopl_paper.catalogue import DATASETS, METHODS
from bopl_paper.result_line import Cell, Line, collect, collect_direct_method
from bopl_paper.result_table import cell_text

Cells = Mapping[tuple[str, str], Cell]

BRR = ("brr-gb", "brr-xgb")
DEEP = ("drr", "banditnet")
BOPL = ("bopl-regr", "bopl-class", "bopl-s-regr", "bopl-s-class")
NO_FIGURE = "The runs of Figure 1 are missing."
EARLY = 0.1  # share of rounds that counts as early
MOSTLY = 0.9  # share of rounds that counts as almost all
MIN_TRIALS = 2  # of every cell that a claim looks at: a single trial has no interval


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
    tmc = _tmc(cells)
    return [
        _bopl_best_on_two(cells),
        _bopl_above_brr(cells),
        _bopl_above_all(cells),
        *(_network_ahead(cells, method) for method in DEEP),
        _drr_above_bopl(cells),
        _surrogate_regression_is_best_variant(cells),
        _tied(cells, "scene", DEEP[1:], BOPL, "BanditNet is tied with BOPL on Scene"),
        _tied(cells, tmc, ("brr-xgb",), ("drr",), "BRR-xgb is tied with DRR on TMC2007-500"),
        _direct_method_biased(estimates, cells),
        _translation_matters(lines),
        *_figure_claims(lines),
    ]


def _tmc(cells: Cells) -> str:
    """Return the version that stands for the paper's TMC2007-500: the first upload where there are results of it."""
    first = "tmc2007_500_v1"
    return first if any(dataset == first for _, dataset in cells) else "tmc2007_500"


def _four(cells: Cells) -> tuple[str, ...]:
    return "covertype", "fashion_mnist", "scene", _tmc(cells)


def _missing(cells: Cells, methods: Sequence[str], datasets: Sequence[str], what: str = "trials") -> str:
    """Return a sentence that names what has fewer trials than a claim needs, or nothing."""
    gaps = []
    for dataset in datasets:
        few = [
            METHODS[method]
            for method in methods
            if (method, dataset) not in cells or cells[method, dataset].n_trials < MIN_TRIALS
        ]
        if few:
            gaps.append(f"{', '.join(few)} on {DATASETS[dataset]}")
    return f"It needs at least {MIN_TRIALS} {what} of {'; '.join(gaps)}." if gaps else ""


def _best(cells: Cells, methods: Iterable[str], dataset: str) -> tuple[str, Cell]:
    return max(((method, cells[method, dataset]) for method in methods), key=lambda pair: pair[1].mean)


def _named(pair: tuple[str, Cell]) -> str:
    return f"{METHODS[pair[0]]} {cell_text(pair[1])}"


def _bopl_best_on_two(cells: Cells) -> Claim:
    text = "A BOPL variant is best, or tied with the best, on two of the four datasets"
    if missing := _missing(cells, (*BRR, *DEEP, *BOPL), _four(cells)):
        return Claim(text, None, missing)
    among_best, evidence = 0, []
    for dataset in _four(cells):
        ours, best = _best(cells, BOPL, dataset), _best(cells, (*BRR, *DEEP, *BOPL), dataset)
        among_best += ours[1].overlaps(best[1])
        evidence.append(f"{DATASETS[dataset]}: {_named(ours)}, best {_named(best)}")
    return Claim(text, among_best == 2, "; ".join(evidence) + ".")


def _bopl_above_brr(cells: Cells) -> Claim:
    text = "BOPL is above BRR on three of the four datasets"
    if missing := _missing(cells, (*BRR, *BOPL), _four(cells)):
        return Claim(text, None, missing)
    above, evidence = 0, []
    for dataset in _four(cells):
        ours, theirs = _best(cells, BOPL, dataset), _best(cells, BRR, dataset)
        above += ours[1].low > theirs[1].high
        evidence.append(f"{DATASETS[dataset]}: {_named(ours)} against {_named(theirs)}")
    return Claim(text, above >= 3, "; ".join(evidence) + ".")


def _bopl_above_all(cells: Cells) -> Claim:
    text = "BOPL significantly outperforms all baselines on Covertype"
    if missing := _missing(cells, (*BRR, *DEEP, *BOPL), ("covertype",)):
        return Claim(text, None, missing)
    ours = _best(cells, BOPL, "covertype")
    highest = max(((method, cells[method, "covertype"]) for method in (*BRR, *DEEP)), key=lambda pair: pair[1].high)
    return Claim(text, ours[1].low > highest[1].high, f"{_named(ours)} against {_named(highest)}.")


def _network_ahead(cells: Cells, method: str) -> Claim:
    text = f"{METHODS[method]} is ahead of all boosted methods on Fashion-MNIST"
    if missing := _missing(cells, (method, *BRR, *BOPL), ("fashion_mnist",)):
        return Claim(text, None, missing)
    network, rest = cells[method, "fashion_mnist"], _best(cells, (*BRR, *BOPL), "fashion_mnist")
    return Claim(text, network.low > rest[1].high, f"{_named((method, network))} against {_named(rest)}.")


def _drr_above_bopl(cells: Cells) -> Claim:
    text = "DRR is above BOPL on two of the four datasets"
    if missing := _missing(cells, ("drr", *BOPL), _four(cells)):
        return Claim(text, None, missing)
    above, evidence = 0, []
    for dataset in _four(cells):
        drr, ours = cells["drr", dataset], _best(cells, BOPL, dataset)
        above += drr.low > ours[1].high
        evidence.append(f"{DATASETS[dataset]}: {_named(('drr', drr))} against {_named(ours)}")
    return Claim(text, above == 2, "; ".join(evidence) + ".")


def _surrogate_regression_is_best_variant(cells: Cells) -> Claim:
    text = "BOPL-S-regr is always the best BOPL variant or tied with it"
    if missing := _missing(cells, BOPL, _four(cells)):
        return Claim(text, None, missing)
    evidence, holds = [], True
    for dataset in _four(cells):
        best, own = _best(cells, BOPL, dataset), cells["bopl-s-regr", dataset]
        holds = holds and own.overlaps(best[1])
        evidence.append(f"{DATASETS[dataset]}: {cell_text(own)}, best {_named(best)}")
    return Claim(text, holds, "; ".join(evidence) + ".")


def _tied(cells: Cells, dataset: str, one: Sequence[str], other: Sequence[str], text: str) -> Claim:
    if missing := _missing(cells, (*one, *other), (dataset,)):
        return Claim(text, None, missing)
    left, right = _best(cells, one, dataset), _best(cells, other, dataset)
    return Claim(text, left[1].overlaps(right[1]), f"{_named(left)} and {_named(right)}.")


def _curves(lines: Sequence[Line]) -> dict[str, Line]:
    """Return the runs of Figure 1 by method, none of them unless all three are there."""
    found = {line["method"]: line for line in lines if "gradient_norm" in line}
    return found if {"bopl-regr", "bopl-s-regr", "bopl-cs-regr"} <= set(found) else {}


def _translation_matters(lines: Sequence[Line]) -> Claim:
    text = "Reward translation matters on Covertype: BOPL-S ends above BOPL-CS, which has none"
    curves = _curves(lines)
    if not curves:
        return Claim(text, None, NO_FIGURE)
    with_it, without = (curves[method]["test_reward"] for method in ("bopl-s-regr", "bopl-cs-regr"))
    return Claim(text, with_it > without, f"One run each: {with_it:.4f} with, {without:.4f} without.")


def _figure_claims(lines: Sequence[Line]) -> list[Claim]:
    """Return what the paper reads off its Figure 1, of one run each."""
    texts = (
        "BOPL's gradient falls almost all the way",
        "BOPL-CS's gradient rises at first",
        "BOPL-CS's rewards rise faster than BOPL's in early rounds",
    )
    curves = _curves(lines)
    if not curves:
        return [Claim(text, None, NO_FIGURE) for text in texts]
    bopl, convex = curves["bopl-regr"], curves["bopl-cs-regr"]
    falling = float((np.diff(bopl["gradient_norm"]) < 0.0).mean())
    largest = int(np.argmax(convex["gradient_norm"])) + 1
    rewards = [(_early(convex, field), _early(bopl, field)) for field in ("training_reward", "round_reward")]
    told = "; ".join(
        f"{theirs:.4f} and {ours:.4f} on {where}"
        for (theirs, ours), where in zip(rewards, ("the training log", "the test data"), strict=True)
    )
    is_faster = all(theirs > ours for theirs, ours in rewards)
    return [
        Claim(texts[0], falling >= MOSTLY, f"In {falling:.0%} of the rounds."),
        Claim(texts[1], largest > 1, f"It is largest in round {largest}."),
        Claim(texts[2], is_faster, f"Means of the first {EARLY:.0%} of the rounds: {told}."),
    ]


def _early(line: Line, field: str) -> float:
    values = line[field]
    return float(np.mean(values[: max(int(EARLY * len(values)), 1)]))


def _direct_method_biased(estimates: Cells, cells: Cells) -> Claim:
    text = "The direct method's estimate is far below the truth on Scene, and much nearer on TMC2007-500"
    methods, tmc = ("brr-xgb", "bopl-regr"), _tmc(cells)
    missing = _missing(cells, methods, ("scene", tmc)) or _missing(estimates, methods, ("scene", tmc), "estimates")
    if missing:
        return Claim(text, None, missing)
    gaps = {
        (method, dataset): cells[method, dataset].mean - estimates[method, dataset].mean
        for dataset in ("scene", tmc)
        for method in methods
    }
    far = min(gaps[method, "scene"] for method in methods)
    near = max(abs(gaps[method, tmc]) for method in methods)
    evidence = "; ".join(
        f"{METHODS[method]} on {DATASETS[dataset]}: {gap:+.4f}" for (method, dataset), gap in gaps.items()
    )
    return Claim(text, far > 0.05 and near < far, f"Truth less estimate: {evidence}.")
