"""`Registry`: objects by name, which others can extend from their own code or from an installed package.

A package offers something by an entry point, in its ``pyproject.toml``::

    [project.entry-points."bopl.estimators"]
    trimmed_ips = "trimmed:TrimmedIPS"

It is imported when its name is asked for, and not before.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import cache, cached_property
from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Registry(MutableMapping[str, T], Generic[T]):
    """Names and what they stand for: ours first, then what was registered, then what installed packages offer.

    Parameters
    ----------
    group : str
        Group of entry points, as in ``bopl.estimators``.
    own : mapping of str to T, or to ``"module:name"``
        Ours; a text is imported when it is asked for.
    """

    def __init__(self, group: str, own: Mapping[str, T | str]) -> None:
        self.group = group
        self._known: dict[str, T | str] = dict(own)
        self._own = frozenset(own)

    def __getitem__(self, name: str) -> T:
        if name not in self._known:
            self._known[name] = self._load(self._offered[name])
        found = self._known[name]
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            found = self._known[name] = getattr(import_module(module), attribute)
        return found

    def __setitem__(self, name: str, value: T) -> None:
        if name in self._own and name in self._known and not _is_same(self[name], value):
            noun = self.group.rpartition(".")[2]
            what = full_name(value) if isinstance(value, type) else "yours"
            raise ValueError(f"{name!r} is one of bopl's own {noun}; give {what} another name.")
        if not name:
            raise TypeError(f"{full_name(value)} needs a name, by which it is known.")
        self._known[name] = value

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._known
        yield from (name for name in self._offered if name not in self._known)

    def __len__(self) -> int:
        return len(self._known.keys() | self._offered.keys())

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._offered

    def put_later(self, name: str, home: str) -> None:
        """Add the location of a built-in object, as ``"module:name"``; it is imported when it is first used."""
        self._known.setdefault(name, home)

    def usable(self) -> Iterator[tuple[str, T]]:
        """Yield names and objects; warn about those of installed packages that cannot be imported."""
        for name in tuple(self):
            try:
                found = self[name]
            except ImportError as error:
                warnings.warn(f"{error} It is left out.", stacklevel=2)
                continue
            yield name, found

    @contextmanager
    def temporary(self) -> Iterator[None]:
        """Forget at the end what was registered in the block."""
        before = dict(self._known)
        try:
            yield
        finally:
            self._known = before

    @cached_property
    def _offered(self) -> dict[str, EntryPoint]:
        """What installed packages offer; built-in names cannot be overridden."""
        return {name: entry for name, entry in offered(self.group).items() if name not in self._own}

    def _load(self, entry: EntryPoint) -> T:
        try:
            found: T = entry.load()
        except Exception as error:  # whatever goes wrong while another's module is imported
            package = entry.dist.name if entry.dist is not None else "a package"
            raise ImportError(
                f"{package} offers {entry.name!r} to {self.group}, and importing {entry.value} failed: "
                f"{type(error).__name__}: {error}."
            ) from error
        return found


def offered(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without importing their objects."""
    return {entry.name: entry for entry in _entry_points() if entry.group == group}


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """Return all entry points of our groups, by name: searching the installed packages takes a while."""
    from importlib.metadata import entry_points

    installed = entry_points()
    groups = [group for group in installed.groups if group.startswith("bopl.")]
    return tuple(sorted((one for group in groups for one in installed.select(group=group)), key=lambda one: one.name))


def _is_same(known: Any, value: Any) -> bool:
    """Return whether a class is a known one, maybe imported again, or an object a known one."""
    return full_name(known) == full_name(value) if isinstance(known, type) else known is value


def full_name(value: Any) -> str:
    """Return module and name of a class, or of that of an object."""
    kind = value if isinstance(value, type) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def required_settings(kind: type) -> list[str]:
    """Return the settings of a class that have no default, so that its name alone does not stand for an object."""
    named = (one for one in signature(kind).parameters.values() if one.kind not in _OPEN)
    return [one.name for one in named if one.default is Parameter.empty]


_OPEN = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def with_defaults(kind: type[T], name: str) -> T:
    """Return the object with default settings that a name stands for, or raise one sentence."""
    if required := required_settings(kind):
        called = f"{kind.__name__}({required[0]}=…)"
        raise ValueError(f"{name!r} has no default for {required[0]}: pass an object, such as {called}.")
    return kind()


def keeps(value: Any, kind: type, *methods: str) -> bool:
    """Return whether an object is of a class and has its methods unchanged: only then may a shortcut replace them."""
    return isinstance(value, kind) and all(getattr(type(value), one) is getattr(kind, one) for one in methods)
