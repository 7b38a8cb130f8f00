"""The page of a running loop: one document, made for every request, without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from bopl._html import Markup, element, short, table
from bopl.report.plain import number_text
from bopl.serving.record import LATE, OK, UNIFORM, UNKNOWN, PromotionRow
from bopl.serving.settings import APPRENTICE

REFRESH_S = 15
STATUS_TEXT = {
    OK: "counted",
    LATE: "after the window; kept, never trained on",
    UNKNOWN: "without a decision; kept, never trained on",
}
BADGES = ("better", "worse", "inconclusive")


def render_page(summary: Mapping[str, Any]) -> str:
    """Return the page of what `LiveFigures.summary` returned."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name_="color-scheme", content="light dark"),
        element("meta", http_equiv="refresh", content=str(REFRESH_S)),
        Markup('<link rel="icon" href="data:,">'),
        element("title", f"{summary['folder']} · bopl"),
        element("style", _read("bopl.report", "style.css"), _read("bopl.serving", "page.css")),
    )
    body = element("body", _top(summary), element("main", *_sections(summary)), _foot(summary))
    return f'<!doctype html>\n<html lang="en">{head}{body}</html>\n'


@cache
def _read(package: str, name: str) -> Markup:
    return Markup((files(package) / name).read_text(encoding="utf8"))


def _top(summary: Mapping[str, Any]) -> Markup:
    brand = element("span", "bopl ", element("span", "running loop", class_="muted"), class_="brand")
    moment = element("span", f"{_moment(summary['time'])} UTC", class_="muted")
    return element("header", brand, moment, class_="top")


def _sections(summary: Mapping[str, Any]) -> list[Markup]:
    return [
        element("section", *_headline(summary), _tiles(summary), id="loop", class_="verdict"),
        element("section", *_traffic(summary), id="traffic"),
        element("section", *_value(summary), id="value"),
        element("section", *_rewards(summary), id="rewards"),
        element("section", *_promotions(summary), id="promotions"),
        element("section", *_verdicts(summary), id="verdicts"),
    ]


# -- The loop ---------------------------------------------------------------------------------------------------------


def _headline(summary: Mapping[str, Any]) -> list[Markup]:
    promotion: PromotionRow = summary["promotion"]
    is_ramp = promotion.share < 1.0
    if summary["problem"] is not None:
        badge = element("span", "needs attention", class_="badge worse")
    elif summary["mode"] == APPRENTICE:
        badge = element("span", "apprentice", class_="badge inconclusive")
    else:
        badge = element("span", "on trial" if is_ramp else "serving", class_="badge better")
    rest = f", {_policy(promotion.baseline)} decides the rest" if is_ramp else ""
    explored = f"{_percent(promotion.exploration)} of all decisions explore"
    if promotion.policy == promotion.baseline == UNIFORM:
        rest, explored = ": there is no policy yet", "`bopl loop FOLDER step` learns one from them"
    if summary["mode"] == APPRENTICE:
        sentence = "Callers decide; the loop records their decisions and what it would have done."
    else:
        sentence = (
            f"{_sentence_case(_policy(promotion.policy))} decides {_percent(promotion.share)} of the requests{rest}; "
            f"{explored}."
        )
    parts = [badge, element("h1", short(summary["folder"], 40)), element("p", sentence, class_="sentence")]
    if summary["problem"] is not None:
        parts.append(element("p", _sentence_case(summary["problem"]), class_="agreement"))
    return parts


def _tiles(summary: Mapping[str, Any]) -> Markup:
    promotion: PromotionRow = summary["promotion"]
    recent = sum(count for _, count in summary["traffic"])
    hours = len(summary["traffic"]) * summary["bucket_s"] / 3600.0
    joined, policy, n_closed = summary["rewarded_share"], summary["policy"], summary["n_closed"]
    weight = None if policy is None else policy["mean_weight"]
    return element(
        "dl",
        _tile("Decisions", f"{summary['n_decisions']:,}", f"{recent:,} in the last {hours:g} hours"),
        _tile("Traffic share", _percent(promotion.share), short(_policy(promotion.policy), 24)),
        _tile(
            "Rewards joined",
            "–" if joined is None else _percent(joined),
            f"of {n_closed:,} decisions whose window has closed" if n_closed else "no window has closed yet",
        ),
        _tile("Mean weight", "–" if weight is None else number_text(weight), "near 1 where propensities are right"),
        class_="tiles",
    )


def _tile(name: str, value: str, below: str) -> Markup:
    return element("div", element("dt", name), element("dd", value), element("dd", below))


# -- Sections ---------------------------------------------------------------------------------------------------------


def _traffic(summary: Mapping[str, Any]) -> list[Markup]:
    traffic, minutes = summary["traffic"], summary["bucket_s"] // 60
    most = max((count for _, count in traffic), default=0)
    bars = [
        element(
            "span", style=f"height:{100.0 * count / most if most else 0.0:.1f}%", title=f"{_hour(start)}: {count:,}"
        )
        for start, count in traffic
    ]
    fallbacks = f"{summary['n_fallbacks']:,} fell back" if summary["n_fallbacks"] else "None fell back"
    return [
        element("h2", "Traffic"),
        element(
            "p",
            f"Decisions every {minutes} minutes, up to {most:,}. {fallbacks} to the baseline or to chance.",
            class_="lead",
        ),
        element(
            "figure",
            element("div", *bars, class_="traffic", role="img", aria_label=f"decisions every {minutes} minutes"),
            element(
                "div",
                *(element("span", f"{_hour(start)} UTC") for start, _ in (traffic[0], traffic[-1])),
                class_="ends",
            ),
        ),
    ]


def _value(summary: Mapping[str, Any]) -> list[Markup]:
    window, policy = _duration(summary["reward_window_s"]), summary["promotion"].policy
    lead = (
        f"Reward per decision since promotion {summary['promotion'].id}, from decisions whose window of {window} has "
        f"closed. The {_percent(summary['confidence'])} intervals hold at all times at once: look as often as you like."
    )
    rows = [
        _range("What is served", summary["served"], summary["reward_range"]),
        _range(f"{_sentence_case(_policy(policy))} alone", summary["policy"], summary["reward_range"]),
    ]
    rows = rows[:1] if policy == UNIFORM else rows  # what is served is chance itself
    shown = [row for row in rows if row is not None]
    below = (
        element("div", *shown, class_="ranges") if shown else element("p", "No window has closed yet.", class_="lead")
    )
    return [element("h2", "Running value"), element("p", lead, class_="lead"), below]


def _range(name: str, running: Mapping[str, Any] | None, limits: tuple[float, float]) -> Markup | None:
    if running is None:
        return None
    low, high = running["interval"]
    figures = (
        f"{number_text(running['value'])}, from {number_text(low)} to {number_text(high)}, "
        f"{running['n_samples']:,} decisions"
    )
    start, end, dot = (_place(one, limits) for one in (low, high, running["value"]))
    bar = element(
        "div",
        element("span", class_="span", style=f"left:{start:.2f}%;width:{max(end - start, 0.5):.2f}%"),
        element("span", class_="dot", style=f"left:{dot:.2f}%"),
        class_="range",
        role="img",
        aria_label=f"{name}: {figures}",
    )
    label = element("div", element("strong", name), element("span", figures), class_="name")
    ends = element("div", *(element("span", number_text(end)) for end in limits), class_="ends")
    return element("div", label, bar, ends)


def _place(value: float, limits: tuple[float, float]) -> float:
    return 100.0 * min(max((value - limits[0]) / (limits[1] - limits[0]), 0.0), 1.0)


def _rewards(summary: Mapping[str, Any]) -> list[Markup]:
    rows = [(status, f"{summary['rewards'].get(status, 0):,}", text) for status, text in STATUS_TEXT.items()]
    rows.append(("duplicate", f"{summary['n_duplicates']:,}", "sent again since the server started; the first counts"))
    return [element("h2", "Rewards"), _scrolling(table(("status", "rewards", ""), rows, numeric=(1,)))]


def _promotions(summary: Mapping[str, Any]) -> list[Markup]:
    rows = [
        (
            _moment(one.time)[:-3],
            short(_policy(one.policy).removeprefix("policy "), 24),
            _percent(one.share),
            _why(one),
        )
        for one in summary["promotions"]
    ]
    heads = ("since (UTC)", "policy", "share", "because")
    return [element("h2", "Promotions"), _scrolling(table(heads, rows, numeric=(2,)))]


def _verdicts(summary: Mapping[str, Any]) -> list[Markup]:
    heading = element("h2", "Last verdicts")
    rows = [
        (short(one["name"].lstrip("0"), 40), _verdict(one["verdict"]), _finding(one)) for one in summary["verdicts"]
    ]
    if not rows:
        return [
            heading,
            element("p", "None yet: `bopl loop FOLDER step` trains a policy and judges it.", class_="lead"),
        ]
    return [heading, _scrolling(table(("", "verdict", "because"), rows))]


def _scrolling(found: Markup) -> Markup:
    return element("figure", element("div", found, class_="scroll"))


def _why(promotion: PromotionRow) -> Markup:
    """Return the reason of a promotion, with its verdict where there is one."""
    verdict = (promotion.verdict or {}).get("verdict")
    if not isinstance(verdict, str):
        return element("span", short(promotion.reason, 90))
    reason = promotion.reason.removesuffix(f": {verdict}")  # the badge says it
    return element("span", _verdict(verdict), " ", short(reason, 90), class_="why")


def _finding(entry: Mapping[str, Any]) -> str:
    """Return what a verdict is on, its reason and what followed."""
    policy, share = entry.get("candidate"), entry.get("next_share")
    what = f"{_sentence_case(_policy(str(policy)))}: " if policy else ""
    share_text = _percent(share) if isinstance(share, int | float) else "a share"
    followed = {
        "start": f"It began with {share_text} of the traffic.",
        "raise": f"It got {share_text} of the traffic.",
        "lower": f"It was lowered to {share_text} of the traffic.",
        "roll back": "It was rolled back.",
        "keep": "Nothing changed.",
    }.get(str(entry.get("action")), "")
    return short(f"{what}{entry['reason']} {followed}".strip(), 320)


def _verdict(verdict: str) -> Markup:
    look = verdict if verdict in BADGES else "not-trustworthy"
    return element("span", short(verdict, 24), class_=f"badge {look}")


def _foot(summary: Mapping[str, Any]) -> Markup:
    text = f"Up since {_moment(summary['started'])} UTC. The page reloads every {REFRESH_S} seconds."
    return element("footer", text, class_="muted")


# -- Words ------------------------------------------------------------------------------------------------------------


def _policy(policy: str) -> str:
    return "chance" if policy == UNIFORM else f"policy {policy}"


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g}%"


def _moment(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _hour(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M")


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} second{'' if seconds == 1.0 else 's'}"
