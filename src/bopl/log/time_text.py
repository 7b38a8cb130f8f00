"""Times written as text: what instant a text stands for, or why that cannot be told."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

_SECOND = 1_000_000_000  # nanoseconds
_EPOCH = date(1970, 1, 1).toordinal()
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?"
_NAME = r"(?P<name>[a-z]{3,9})\.?"
_DATES = (
    r"(?P<year>\d{4})(?P<sep>[-/.])(?P<month>\d{1,2})(?P=sep)(?P<day>\d{1,2})",
    r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)",
    r"(?P<year>\d{4})-?w(?P<week>\d\d)(?:-?(?P<weekday>[1-7]))?",
    r"(?P<year>\d{4})-(?P<ordinal>\d{3})",
    r"(?P<year>\d{4})[-/](?P<month>\d{1,2})",
    r"(?P<year>\d{4})-?q(?P<quarter>[1-4])",
    r"(?P<year>\d{4})",
    rf"{_WEEKDAY}(?P<day>\d{{1,2}})[ -]{_NAME},?[ -](?P<year>\d{{4}})",
    rf"{_WEEKDAY}{_NAME} +(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? +(?P<year>\d{{4}})",
)
_FRACTION = r"(?:[.,](?P<fraction>\d{1,9}))?"
_CLOCKS = (
    rf"(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?::(?P<second>\d\d){_FRACTION})?(?:\s*(?P<half>[ap])\.?m\.?)?",
    rf"(?P<hour>\d\d)(?:(?P<minute>\d\d)(?:(?P<second>\d\d){_FRACTION})?)?",
)
_ZONE = (
    r"(?:\s*(?:(?P<utc>z|utc|gmt)|(?P<sign>[+-])(?P<zone_hour>\d\d):?(?P<zone_minute>\d\d)?)(?:\s*\[[a-z_/+-]+\])?)?"
)
_FORMS = (
    *(re.compile(rf"{day}(?:(?:t|,?\s+)(?:{clock}){_ZONE})?", re.I) for clock in _CLOCKS for day in _DATES),
    re.compile(
        r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?P<hour>\d\d)(?P<minute>\d\d)"
        rf"(?:(?P<second>\d\d){_FRACTION})?{_ZONE}",
        re.I,
    ),
)
_UNIX = re.compile(
    r"(?P<day>[a-z]{3} +[a-z]{3} +\d{1,2}) +(?P<clock>[\d:.]+)(?P<zone> +[a-z]+)? +(?P<year>\d{4})", re.I
)
_NUMERIC = re.compile(r"\d{1,2}[-/. ]\d{1,2}[-/. ]\d{2,4}(\s.*)?")


@dataclass(frozen=True)
class Moment:
    """What a text says of time."""

    nanoseconds: int  # since 1970, in UTC where there is a zone
    has_zone: bool
    is_date: bool  # whether there is no time of day


def parse_moment(text: str) -> Moment:
    """Return what a text says of time, or raise `ValueError` with the reason as a clause.

    Read are ISO 8601 (dates, weeks, ordinal dates, with and without separators, fractions and zones), dates that begin
    with the year, and dates with the English name of the month. ``03/04/2024`` is not: nobody knows which is the month.
    """
    plain = " ".join(text.split())
    unix = _UNIX.fullmatch(plain)
    if unix is not None:  # Wed May 1 10:00:00 UTC 2024
        plain = f"{unix['day']} {unix['year']} {unix['clock']}{unix['zone'] or ''}"
    for form in _FORMS:
        found = form.fullmatch(plain)
        if found is not None:
            return _moment({name: value for name, value in found.groupdict().items() if value is not None})
    if _NUMERIC.fullmatch(plain):
        raise ValueError("in which day, month and year cannot be distinguished for certain")
    if plain.replace(".", "", 1).isdigit():
        raise ValueError("digits with an unknown unit")
    raise ValueError("which is not a known date or time format")


def _moment(part: dict[str, str]) -> Moment:
    day = _day(part)
    if "hour" not in part:
        return Moment((day - _EPOCH) * 86_400 * _SECOND, has_zone=False, is_date=True)
    has_zone = "utc" in part or "sign" in part
    shift = 60 * int(part.get("zone_hour", 0)) + int(part.get("zone_minute", 0))
    if shift >= 24 * 60 or int(part.get("zone_minute", 0)) > 59:
        raise ValueError("whose zone does not exist")
    shift = -shift if part.get("sign") == "-" else shift
    seconds = (day - _EPOCH) * 86_400 + _clock(part) - 60 * shift
    return Moment(seconds * _SECOND + int(part.get("fraction", "0").ljust(9, "0")), has_zone, is_date=False)


def _clock(part: dict[str, str]) -> int:
    """Return the seconds since midnight; 24:00 is the end of the day, and a leap second begins the next one."""
    hour, minute, second = (int(part.get(name, 0)) for name in ("hour", "minute", "second"))
    if "half" in part:
        if not 1 <= hour <= 12:
            raise ValueError("whose hour does not exist")
        hour = hour % 12 + (12 if part["half"].lower() == "p" else 0)
    is_end = hour == 24 and minute == second == 0 and not int(part.get("fraction", 0))
    if (hour > 23 and not is_end) or minute > 59 or second > 60:
        raise ValueError("whose time of day does not exist")
    return 3600 * hour + 60 * minute + second


def _day(part: dict[str, str]) -> int:
    """Return the number of the day; of a week, a month, a quarter or a year its first."""
    year = int(part["year"])
    try:
        if "week" in part:
            return date.fromisocalendar(year, int(part["week"]), int(part.get("weekday", 1))).toordinal()
        if "ordinal" in part:
            found = date(year, 1, 1) + timedelta(days=int(part["ordinal"]) - 1)
            if found.year != year:
                raise ValueError
            return found.toordinal()
        if "quarter" in part:
            return date(year, 3 * int(part["quarter"]) - 2, 1).toordinal()
        month = _month(part["name"]) if "name" in part else int(part.get("month", 1))
        return date(year, month, int(part.get("day", 1))).toordinal()
    except (ValueError, OverflowError):
        raise ValueError("which is not a day of the calendar") from None


def _month(name: str) -> int:
    """Return the number of a month by its English name or the first letters of it."""
    found = [number for number, month in enumerate(_MONTHS, 1) if month.startswith(name.lower())]
    if len(found) != 1:
        raise ValueError
    return found[0]
