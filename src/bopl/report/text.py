"""The parts of the page that are text and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bopl._html import Markup, element, join
from bopl.report.plain import number_text, percent_text, signed_text

Summary = Mapping[str, Any]


def fragments(summary: Summary) -> dict[str, Markup]:
    """Return what the placeholders of the page stand for, for all parts that the summary has."""
    shown = {"verdict": _verdict(summary), "confidence": _confidence(summary), "footer": _footer(summary)}
    shown |= {"estimates": _estimates(summary), "notes": _notes(summary)}
    if "training" in summary:
        shown["training"] = _training(summary["training"])
    if "config" in summary:
        shown["config"] = _config(summary["config"])
    return shown


def _confidence(summary: Summary) -> Markup:
    return join(f"{100.0 * summary['evaluation']['confidence']:.4g}%")


# -- Verdict ------------------------------------------------------------------------------------------------------


def _verdict(summary: Summary) -> Markup:
    verdict = summary["verdict"]
    return join(
        element("span", verdict["verdict"], class_=f"badge {verdict['verdict'].replace(' ', '-')}"),
        element("h1", verdict["headline"]),
        element("p", verdict["sentence"], class_="sentence"),
        element("p", verdict["agreement"], class_="agreement") if verdict["agreement"] else None,
        element("dl", *_tiles(verdict), class_="tiles"),
    )


def _tiles(verdict: Summary) -> list[Markup]:
    level = f"{100.0 * verdict['confidence']:.4g}% interval"
    value_range = f"{_number(verdict['ci_lower'])} to {_number(verdict['ci_upper'])}"
    return [
        _tile("Difference", _relative(verdict, "uplift"), f"{level} {_uplift_range(verdict)}"),
        _tile("New policy", _number(verdict["value"]), f"reward per decision, {level} {value_range}"),
        _tile("Logging policy", _number(verdict["logging_value"]), "reward per decision in the log"),
        _tile(
            "Effective decisions",
            f"{verdict['effective_samples']:,.0f}",
            f"what {verdict['n_samples']:,} held-out decisions are worth to the new policy",
        ),
    ]


def _relative(verdict: Summary, name: str) -> str:
    """Return a difference in % of what the logging policy earns, or as it is if that is not positive."""
    base, value = verdict["logging_value"], verdict[name]
    if value is None or base is None or base <= 0.0:
        return _signed(value)
    return percent_text(value / base, signed=True)


def _tile(name: str, value: str, note: str) -> Markup:
    return element("div", element("dt", name), element("dd", value), element("dd", note))


def _uplift_range(verdict: Summary) -> str:
    return f"{_relative(verdict, 'uplift_ci_lower')} to {_relative(verdict, 'uplift_ci_upper')}"


def _number(value: float | None) -> str:
    return "–" if value is None else number_text(value)


def _signed(value: float | None) -> str:
    return "–" if value is None else signed_text(value)


# -- Estimates ----------------------------------------------------------------------------------------------------


def _estimates(summary: Summary) -> Markup:
    heads = ("policy", "estimator", "reward", "interval", "difference", "interval", "effective", "verdict")
    rows = [
        (
            row["policy"],
            row["estimator"],
            _number(row["value"]),
            f"{_number(row['ci_lower'])} to {_number(row['ci_upper'])}",
            _signed(row["uplift"]),
            f"{_signed(row['uplift_ci_lower'])} to {_signed(row['uplift_ci_upper'])}",
            f"{row['ess']:,.0f}",
            row["verdict"],
        )
        for row in summary["evaluation"]["rows"]
    ]
    return table(heads, rows, numeric=range(2, 7))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, numeric: Sequence[int] = ()) -> Markup:
    """Return a table; the columns at the positions ``numeric`` are flush right."""
    return element("table", element("thead", _row("th", heads, numeric)), element("tbody", *_rows(rows, numeric)))


def _rows(rows: Sequence[Sequence[str]], numeric: Sequence[int]) -> list[Markup]:
    return [_row("td", row, numeric) for row in rows]


def _row(name: str, cells: Sequence[str], numeric: Sequence[int]) -> Markup:
    looks = ["number" if position in numeric else None for position in range(len(cells))]
    return element("tr", *(element(name, cell, class_=look) for cell, look in zip(cells, looks, strict=True)))


def _notes(summary: Summary) -> Markup:
    evaluation = summary["evaluation"]
    kind = f"Intervals: {evaluation['interval'].replace('_', ' ')}."
    return element("ul", *(element("li", note) for note in (kind, *evaluation["notes"])), class_="notes")


# -- Training and settings ----------------------------------------------------------------------------------------


def _training(training: Summary) -> Markup:
    made, chosen = training["n_rounds"], training["chosen_round"]
    ended = f"Boosting ended after {made:,} rounds: {training['stop_reason']}."
    if not training["is_validated"]:
        return join(ended)
    return join(f"{ended} The policy keeps the first {chosen:,}, up to the best value on validation decisions.")


def _config(config: Summary) -> Markup:
    return table(("setting", "value"), flattened(config))


def flattened(settings: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Return nested settings as names with dots and their values as text."""
    if not isinstance(settings, Mapping):
        return [(prefix, _setting_text(settings))]
    found: list[tuple[str, str]] = []
    for name, value in settings.items():
        found += flattened(value, f"{prefix}.{name}" if prefix else str(name))
    return found


def _setting_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_setting_text, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _footer(summary: Summary) -> Markup:
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    return join(f"Made from {summary['log']['n_samples']:,} held-out decisions by {versions}.")
