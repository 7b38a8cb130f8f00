"""The parts of the page that are text and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bopl._html import Markup, element, join, short, table
from bopl.report.answers import answers, held_out
from bopl.report.plain import fixed_text, number_text, percent_text, signed_text, within_text

Summary = Mapping[str, Any]


def fragments(summary: Summary) -> dict[str, Markup]:
    """Return what the placeholders of the page stand for, for all parts that the summary has."""
    confidence = join(f"{100.0 * summary['evaluation']['confidence']:.4g}%")
    shown = {"verdict": _verdict(summary), "confidence": confidence, "footer": _footer(summary)}
    shown |= {"estimates": _estimates(summary), "notes": _notes(summary), "primary": _primary(summary)}
    shown |= {"answers": answers(summary["evaluation"])}
    for part, describe in PARTS.items():
        if part in summary:
            shown |= describe(summary)
    return shown


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
    value_range = f"{_within(verdict, 'ci_lower')} to {_within(verdict, 'ci_upper')}"
    ends = f"{_relative(verdict, 'uplift_ci_lower')} to {_relative(verdict, 'uplift_ci_upper')}"
    difference = _relative(verdict, "uplift"), f"{level} {ends}"
    value = _within(verdict, "value"), f"reward per decision, {level} {value_range}"
    if verdict["verdict"] == "not trustworthy":  # no number that could be taken away from here
        difference = value = "unknown", "estimates from this log cannot be relied on"
    return [
        _tile("Difference", *difference),
        _tile("New policy", *value),
        _tile("Logging policy", _within(verdict, "logging_value"), "reward per decision in the log"),
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
        return signed_text(value)
    return percent_text(value / base, signed=True)


def _within(verdict: Summary, name: str) -> str:
    """Return a reward with the digits that the interval of the new policy's leaves meaning to."""
    value = verdict[name]
    return "–" if value is None else within_text(value, verdict["ci_lower"], verdict["ci_upper"])


def _tile(name: str, value: str, note: str) -> Markup:
    return element("div", element("dt", name), element("dd", value), element("dd", note))


# -- Estimates ----------------------------------------------------------------------------------------------------


def _estimates(summary: Summary) -> Markup:
    heads = ("policy", "estimator", "reward", "interval", "difference", "interval", "effective", "verdict")
    rows = [
        (
            row["policy"],
            row["estimator"],
            number_text(row["value"]),
            f"{number_text(row['ci_lower'])} to {number_text(row['ci_upper'])}",
            signed_text(row["uplift"]),
            f"{signed_text(row['uplift_ci_lower'])} to {signed_text(row['uplift_ci_upper'])}",
            f"{row['ess']:,.0f}",
            row["verdict"],
        )
        for row in summary["evaluation"]["rows"]
    ]
    return table(heads, rows, numeric=range(2, 7))


def _primary(summary: Summary) -> Markup:
    verdict, rows = summary["verdict"], summary["evaluation"]["rows"]
    if len(rows) == 1:
        return join("")
    title = next(row["title"] for row in rows if row["estimator"] == verdict["estimator"])
    return join(f" The verdict is that of “{title}”: which estimator decides is settled before the answers are known.")


def _notes(summary: Summary) -> Markup:
    evaluation = summary["evaluation"]
    kind = f"Intervals: {evaluation['interval'].replace('_', ' ')}."
    return element("ul", *(element("li", note) for note in (kind, *evaluation["notes"])), class_="notes")


# -- What changes, and why ------------------------------------------------------------------------------------------


def _shift(summary: Summary) -> dict[str, Markup]:
    actions = summary["actions"]
    moved = 0.5 * sum(abs(new - old) for new, old in zip(actions["new"], actions["logging"], strict=True))
    n_actions = summary["log"]["n_actions"]
    sentence = (
        f"In total, {percent_text(moved)} of the decisions move from one of the {n_actions:,} actions to another. "
        "Decision by decision, the new policy would take the logged action again with a probability of "
        f"{percent_text(actions['agreement'])} on average."
    )
    return {"shift": join(sentence)}


def _importance(summary: Summary) -> dict[str, Markup]:
    importance = summary["importance"]
    names, n_features = importance["features"], importance["n_features"]
    listed = ", ".join(f"“{short(name)}”" for name in names[:3])
    if not names:
        sentence = "The policy looks at no context column: it does the same everywhere."
    elif n_features == 1:
        sentence = f"There is one context column, {listed}."
    else:
        sentence = f"Of {n_features:,} context columns, {listed} matter most."
    return {
        "importance": join(sentence),
        "in_general": join(_in_general(importance)),
        "n_contexts": join(f"{importance['n_contexts']:,}"),
    }


def _in_general(importance: Summary) -> str:
    """Return how much the choice of the action depends on no context at all."""
    if importance["action_shap"] is not None:
        general = (
            f" Whatever the context, actions differ by {importance['action_shap']:.2g} on the scale of SHAP "
            "values: some are preferred everywhere."
        )
        path = (
            " The part of a score that was learned from the logging policy is divided by integrated gradients instead."
        )
        return general + (path if importance.get("knows_logging") else "")
    return f" {percent_text(importance['action_gain'])} of all gain came from telling actions apart in every context."


def _effects(summary: Summary) -> dict[str, Markup]:
    if summary["effects"].get("is_greedy"):
        return {"odds": join("The policy always takes the action with the highest score.")}
    return {"odds": join("A bar of +0.7 doubles the odds that the action is chosen, one of −0.7 halves them.")}


def _examples(summary: Summary) -> dict[str, Markup]:
    has_parts = any("parts" in example for example in summary["examples"])
    why = "The bars show what in that context favours the new action over the logged one."
    return {
        "why": join(f" {why}" if has_parts else ""),
        "examples": join(*(_card(example) for example in summary["examples"])),
    }


def _card(example: Summary) -> Markup:
    old, new = short(example["from"]), short(example["to"])
    story = (
        f"{percent_text(example['share'])} of the decisions. In this one the new policy takes “{new}” with probability "
        f"{percent_text(example['to_prob'])}, and “{old}”, which was logged, with {percent_text(example['from_prob'])}."
    )
    return element(
        "article",
        element("h3", old, element("span", " → ", class_="muted"), new),
        element("p", story, class_="caption"),
        _part_bars(example) if "parts" in example else None,
        class_="card",
    )


def _part_bars(example: Summary) -> Markup:
    rows = [(f"{short(part['feature'])} = {short(part['value'])}", part["effect"]) for part in example["parts"]]
    if example["rest"]:
        rows.append(("all other columns", example["rest"]))
    most = max((abs(effect) for _, effect in rows), default=0.0) or 1.0
    general = element(
        "li",
        element("span", f"“{short(example['to'])}” against “{short(example['from'])}” in general"),
        element("span", fixed_text(example["general"], most), class_="effect"),
        class_="general",
    )
    return element("ul", *(_bar(name, effect, most) for name, effect in rows), general, class_="bars")


def _bar(name: str, effect: float, most: float) -> Markup:
    """Return one line with a bar that starts in the middle: to the right what favours it, to the left what does not."""
    share = effect / most
    start = 50.0 if share >= 0.0 else 50.0 + 50.0 * share
    style = f"left:{start:.1f}%;width:{50.0 * abs(share):.1f}%"
    bar = element("span", element("span", class_="for" if share >= 0.0 else "against", style=style), class_="bar")
    number = element("span", fixed_text(effect, most), class_="effect")
    return element("li", element("span", name), bar, number)


# -- Trust ----------------------------------------------------------------------------------------------------------


def _weights(summary: Summary) -> dict[str, Markup]:
    weights = summary["weights"]
    n_samples, effective = weights["n_samples"], weights["effective"]
    sentence = (
        "The new policy does not do what the logging policy did, so some logged decisions say more about it than "
        f"others. To it {n_samples:,} decisions are worth {effective:,.0f}. The heaviest 1% of them carry "
        f"{percent_text(weights['top_share'])} of the estimate; the largest weight is {number_text(weights['max'])}, "
        f"the mean {number_text(weights['mean'])} where 1 is expected."
    )
    share = effective / n_samples
    bar = element("span", element("span", style=f"width:{100.0 * min(share, 1.0):.2f}%"), class_="meter")
    note = f"{effective:,.0f} effective of {n_samples:,} held-out decisions ({percent_text(share)})"
    return {"weights": join(sentence), "worth": join(bar, element("span", note))}


STATUS = {"problem": "problem", "note": "note", "ok": "fine"}  # what matters first


def _audit(summary: Summary) -> dict[str, Markup]:
    audit = summary["audit"]
    by_status = {status: [f for f in audit["findings"] if f["status"] == status] for status in STATUS}
    n_notes, fine = len(by_status["note"]), by_status["ok"]
    found = _counted(audit["n_problems"], "problem") + (f" and {_counted(n_notes, 'note')}" if n_notes else "")
    worth_reading = by_status["problem"] + by_status["note"]
    all_fine = element(
        "details", element("summary", f"{_counted(len(fine), 'check')} without findings"), _findings(fine)
    )
    return {
        "audited": join(f"{_counted(len(audit['findings']), 'check')} of {audit['n_samples']:,} decisions: {found}."),
        "audit": join(_findings(worth_reading) if worth_reading else None, all_fine if fine else None),
    }


def _findings(findings: Sequence[Summary]) -> Markup:
    rows = (
        element(
            "li",
            element("span", STATUS[finding["status"]], class_=f"status {finding['status']}"),
            element("span", finding["sentence"]),
        )
        for finding in findings
    )
    return element("ul", *rows, class_="findings")


def _counted(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"


# -- The run --------------------------------------------------------------------------------------------------------


def _race(summary: Summary) -> dict[str, Markup]:
    race = summary["race"]
    judged = f"{race['n_judged']:,} validation decisions"
    if race["n_parts"] > 1:
        judged += f", all of them in turn by {race['n_parts']}-fold cross-validation"
    n_candidates = sum(entry["candidate"] != "blend" for entry in race["entries"])
    sentence = f"{_counted(n_candidates, 'candidate')} raced on {judged}. {race['verdict']}"
    if race["n_parts"] == 1 and race.get("judged_by"):
        sentence += f" {race['judged_by']}"
    if race["is_interrupted"]:
        sentence += " The race was interrupted: it was decided by what had been trained until then."
    heads = ("candidate", "what it is", "reward", "difference", "95% interval", "rounds", "time", "status")
    rows = [
        (
            entry["candidate"],
            entry["about"],
            number_text(entry["value"]),
            signed_text(entry["uplift"]),
            "–" if entry["uplift"] is None else f"{signed_text(entry['lower'])} to {signed_text(entry['upper'])}",
            f"{entry['rounds']:,}",
            _seconds(entry["seconds"]),
            entry["status"],
        )
        for entry in race["entries"]
    ]
    return {"race": join(sentence), "leaderboard": table(heads, rows, numeric=range(2, 7))}


def _training(summary: Summary) -> dict[str, Markup]:
    training = summary["training"]
    sentence = f"Boosting ended after {training['n_rounds']:,} rounds: {training['stop_reason']}."
    if training.get("n_parts", 1) > 1:
        sentence = f"This is the first of the {training['n_parts']} policies in the blend. {sentence}"
    if training["is_validated"]:
        chosen = training["chosen_round"]
        kept = f"keeps the first {chosen:,}" if chosen else "keeps none of them, only what boosting started from"
        sentence += f" The policy {kept}, up to the best value on validation decisions."
    if training.get("reward_translation"):
        sentence += f" Rewards were translated by {number_text(training['reward_translation'])}."
    return {"training": join(sentence)}


def _steps(summary: Summary) -> dict[str, Markup]:
    steps = summary["steps"]
    rows = [(step["step"], _seconds(step.get("seconds")), _memory(step.get("peak_mib"))) for step in steps]
    if len(steps) > 1 and all(step.get("seconds") is not None for step in steps):
        peaks = [step["peak_mib"] for step in steps if step.get("peak_mib") is not None]
        rows.append(("all", _seconds(sum(step["seconds"] for step in steps)), _memory(max(peaks, default=None))))
    return {"steps": table(("step", "time", "peak memory"), rows, numeric=(1, 2))}


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 60.0:
        return f"{seconds:.1f} s" if seconds >= 0.1 else f"{1000.0 * seconds:.0f} ms"
    return f"{int(seconds // 60)} min {seconds % 60:02.0f} s"


def _memory(mebibytes: float | None) -> str:
    if mebibytes is None:
        return "–"
    return f"{mebibytes:,.0f} MiB" if mebibytes < 1024.0 else f"{mebibytes / 1024.0:.2f} GiB"


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
        return {None: "not set", True: "yes", False: "no"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _footer(summary: Summary) -> Markup:
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    return join(f"Made from {summary['log']['n_samples']:,} held-out decisions by {versions}.")


PARTS: dict[str, Callable[[Summary], dict[str, Markup]]] = {
    "actions": _shift,
    "importance": _importance,
    "examples": _examples,
    "weights": _weights,
    "audit": _audit,
    "split": held_out,
    "effects": _effects,
    "race": _race,
    "training": _training,
    "steps": _steps,
    "config": lambda summary: {"config": table(("setting", "value"), flattened(summary["config"]))},
}
