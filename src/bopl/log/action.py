"""Action labels: any hashable values outside, positions ``0 … n_actions - 1`` inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from typing import Any
from unicodedata import normalize

import narwhals.stable.v1 as nw
import numpy as np

from bopl._errors import quoted, shortened
from bopl._native import is_missing, plain, unmasked
from bopl._typing import AnyArray, IntArray
from bopl.log.column import distinct_values
from bopl.log.frame import TEXT

ACTION_DTYPE = np.int32
MAX_EXACT = 2.0**53  # integers beyond it may share a float with their neighbours


def label_array(labels: Sequence[Hashable]) -> AnyArray:
    """Return labels as a read-only array: of their natural dtype if they share one, otherwise of objects."""
    kinds = {type(label) for label in labels}
    is_plain = len(kinds) == 1 and next(iter(kinds)) in (bool, int, float, str)
    if kinds == {str} and any(label.endswith("\0") for label in labels):  # type: ignore[attr-defined]
        is_plain = False  # numpy's text ends before them, and two labels would be one
    array = np.array(labels) if is_plain else np.empty(0, dtype=object)
    if not is_plain or (kinds == {int} and array.dtype.kind not in "iu"):  # floats would merge integers
        array = object_array(labels)
    array.flags.writeable = False
    return array


def object_array(labels: Sequence[Hashable]) -> AnyArray:
    """Return labels as they are: an array of text and numbers would turn all of them into text."""
    array = np.empty(len(labels), dtype=object)
    for position, label in enumerate(labels):  # one by one: a tuple assigned to a slice would be spread over it
        array[position] = label
    return array


def python_labels(values: object, what: str = "action") -> list[Hashable]:
    """Return a column of labels as plain Python values, whatever it came in; messages call it ``what``."""
    values = unmasked(values)
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return list(series.to_list())
    shape = getattr(values, "shape", None)
    if isinstance(shape, tuple) and len(shape) != 1:  # to Python, a frame is a sequence of the names of its columns
        hint = "" if isinstance(values, np.ndarray) else " Pass one of its columns."
        raise ValueError(f"{what} must have one dimension (n_samples,); y should be a 1d array, got {shape}.{hint}")
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    if isinstance(values, str | bytes | Set | Mapping) or not isinstance(values, Iterable):
        per = "sample" if what == "action" else "action, in order"
        raise TypeError(f"{what} must be a sequence with one label per {per}; got {type(values).__name__}.")
    return [plain(value) for value in values]


def encode_actions(values: object, actions: object | None) -> tuple[IntArray, AnyArray]:
    """Return the position of every sample's action, and the labels of the positions.

    ``actions`` are all labels, in the order of their positions; needed when some were never logged. By default those
    that occur, sorted.
    """
    values = unmasked(values)
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iubU" and actions is None:
        labels_found, position = np.unique(values, return_inverse=True)  # the quick way for plain arrays
        check_action_count(len(labels_found), labels_found.tolist())
        return position.astype(ACTION_DTYPE), label_array(labels_found.tolist())
    if (quick := _encode_column(values, actions)) is not None:
        return quick
    logged = python_labels(values)
    _check_logged(logged)
    labels = sorted_labels(set(logged)) if actions is None else check_action_list(actions)
    check_action_count(len(labels), labels)
    position_of = {label: position for position, label in enumerate(labels)}
    try:
        codes = np.fromiter((position_of[label] for label in logged), dtype=ACTION_DTYPE, count=len(logged))
    except KeyError:
        raise _unknown_label_error(logged, position_of, labels) from None
    return codes, label_array(labels)


def _encode_column(values: object, actions: object | None) -> tuple[IntArray, AnyArray] | None:
    """Encode a column of text or integers by its distinct values; None if the slow way has to raise an error."""
    series = nw.from_native(values, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series) or not (series.dtype in TEXT or series.dtype.is_integer()):
        return None
    logged, position = distinct_values(series)
    labels = sorted_labels(logged) if actions is None else check_action_list(actions)
    position_of = {label: code for code, label in enumerate(labels)}
    if not len(position) or position.min() < 0 or any(label not in position_of for label in logged):
        return None
    check_action_count(len(labels), labels)
    return np.array([position_of[label] for label in logged], dtype=ACTION_DTYPE)[position], label_array(labels)


def _check_logged(logged: list[Hashable]) -> None:
    missing = [row for row, label in enumerate(logged) if is_missing(label)]
    if missing:
        raise ValueError(
            f"action is missing in {len(missing)} of {len(logged)} samples, the first at row {missing[0]} with "
            f"{logged[missing[0]]!r}. A sample without its action carries no information: drop those with "
            "drop_invalid=True."
        )
    _check_exact(logged)
    check_hashable(logged, "action labels")
    _check_truth(logged)


def check_hashable(labels: Sequence[Any], what: str) -> None:
    """Raise if a label cannot be looked up."""
    for row, label in enumerate(labels):
        try:
            hash(label)
        except TypeError:
            raise TypeError(f"{what} must be hashable; row {row} holds {shortened(label)}.") from None


def _check_truth(logged: list[Hashable]) -> None:
    """Raise if booleans stand beside numbers: to Python, True is 1, and the two would be one action."""
    if {type(label) for label in logged} <= {bool} or not any(isinstance(label, bool) for label in logged):
        return
    truths = {label: row for row, label in reversed(list(enumerate(logged))) if isinstance(label, bool)}
    for row, label in enumerate(logged):
        if not isinstance(label, bool) and label in truths:
            raise ValueError(
                f"action holds {label!r} in row {row} and {bool(label)} in row {truths[bool(label)]}, which Python "
                "takes for the same label. Write all of them as text, or all as numbers."
            )


def _check_exact(logged: list[Hashable]) -> None:
    """Raise if labels are floats so large that different integers are the same float."""
    large = [row for row, label in enumerate(logged) if isinstance(label, float) and abs(label) >= MAX_EXACT]
    if large:
        raise ValueError(
            f"action holds numbers beyond 2**53 as floats in {len(large)} of {len(logged)} samples, the first at row "
            f"{large[0]} with {logged[large[0]]!r}: different labels may have become one. Store them as text or as "
            "whole numbers."
        )


def check_action_list(actions: object) -> list[Hashable]:
    """Return a list of actions, or raise if there are none, or if one of them is missing or listed twice."""
    labels = python_labels(actions, "actions")
    if not labels:
        raise ValueError("actions is empty; list all actions that can be chosen, or leave it out.")
    if any(is_missing(label) for label in labels):
        raise ValueError("actions contains a missing label (None, NaN, NaT or NA); list real labels only.")
    check_hashable(labels, "actions")
    repeated = [label for label, count in Counter(labels).items() if count > 1]
    if repeated:
        raise ValueError(f"actions lists {quoted(repeated)} more than once; list each action once.")
    return labels


def _check_spelling(labels: Sequence[Hashable]) -> None:
    """Raise if two labels are the same text in different Unicode forms (macOS writes combining characters)."""
    first_of: dict[str, str] = {}
    for label in labels:
        if isinstance(label, str) and not label.isascii():
            other = first_of.setdefault(normalize("NFC", label), label)
            if other != label:
                raise ValueError(
                    f"two actions are both written {label!r}, once with separate combining accents: they "
                    "would be treated as different. Normalise them, with unicodedata.normalize('NFC', …)."
                )


def check_action_count(n_actions: int, labels: Sequence[Hashable]) -> None:
    """Raise if there is nothing to choose between, or if one action is written in two ways."""
    if n_actions < 2:
        raise ValueError(
            f"the log has only one action ({labels[0]!r}; 1 class), so there is nothing to choose. If other "
            "actions were available but never logged, list them all in Python, with BanditLog(…, actions=[…])."
        )
    _check_spelling(labels)


def sorted_labels(labels: Iterable[Any]) -> list[Hashable]:
    """Sort labels; mixed types, which cannot be compared, are sorted by the name of their type and their text."""
    try:
        return sorted(labels)
    except TypeError:
        return sorted(labels, key=lambda label: (type(label).__name__, repr(label)))


def new_labels(logged: Iterable[Any], known: Sequence[Any]) -> list[Any]:
    """Return the labels that are not known, in an order that does not depend on the log's."""
    return sorted((label for label in logged if label not in set(known)), key=repr)


def _unknown_label_error(
    logged: list[Hashable], position_of: dict[Hashable, int], labels: Sequence[Hashable]
) -> ValueError:
    bad = [row for row, label in enumerate(logged) if label not in position_of]
    return ValueError(
        f"action has labels that are not in actions in {len(bad)} of {len(logged)} samples, the first at row {bad[0]} "
        f"with {logged[bad[0]]!r}. Known actions: {quoted(labels)}. Add the missing labels or drop those samples."
    )
