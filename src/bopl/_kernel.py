"""Compiled code and where it is kept: numba's ``njit`` with a cache that never stops the program.

numba keeps compiled functions beside the source or in the home folder, raises where it can write to neither, and raises
on every start where a file of the cache is damaged or the disk is full. Here such a cache is passed over: compiled code
is then taken from or kept in the next place, a folder for temporary files at last, or nowhere, which is said once.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import Any

import numba
from numba.core import caching as numba_caching

from bopl._interrupt import uninterrupted

caching: Any = numba_caching  # partly typed
VARIABLE = "NUMBA_CACHE_DIR"
_DIGEST_LENGTH = 32  # bytes of a SHA-256


def njit(**options: Any) -> Callable[[Any], Any]:
    """Compile a function with numba; ``cache=True`` keeps it where that is possible.

    Kernels write into arrays that they are given. One that returns arrays is called inside
    `bopl._interrupt.uninterrupted`: numba runs Python code to make them, and if Ctrl-C raises in it, the process dies.
    """
    is_kept = options.pop("cache", False)

    def decorate(function: Any) -> Any:
        dispatcher = numba.njit(**options)(function)
        dispatcher.compile = _whole(dispatcher.compile)
        if is_kept and hasattr(dispatcher, "_cache"):  # a plain function where compilation is switched off
            dispatcher._cache = PatientCache(function)
        return dispatcher

    return decorate


def _whole(prepare: Callable[..., Any]) -> Callable[..., Any]:
    """Let code be compiled, or loaded from the cache, to the end before Ctrl-C is heeded.

    LLVM calls back into Python for it; what Python raises there is lost, and the process dies.
    """

    @wraps(prepare)
    def prepare_whole(*given: Any, **named: Any) -> Any:
        with uninterrupted():
            return prepare(*given, **named)

    return prepare_whole


class PatientCache(caching._Cache):
    """A function's compiled forms in the first of several places that has, or takes, them."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._found: list[Any] | None = None
        self._is_enabled = True

    @property
    def _places(self) -> list[Any]:
        if self._found is None:
            self._found = list(_places_of(self._function))
        return self._found

    @property
    def cache_path(self) -> str | None:
        """The first folder."""
        return self._places[0].cache_path if self._places else None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled form for a signature, None if no place has it whole."""
        for place in self._places if self._is_enabled else []:
            try:
                found = place.load_overload(sig, target_context)
            except Exception as error:  # whatever unpickling made of a damaged file
                _tell_damaged(place.cache_path, error)
                _forget(place)
                continue
            if found is not None:
                return found
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled form in the first place that takes it."""
        if not self._is_enabled:
            return
        for place in self._places:
            try:
                place.save_overload(sig, data)
            except Exception:  # a full disk, a folder that is gone, a damaged index that cannot be replaced
                continue
            _tell_place(place)
            return
        _tell_nowhere()

    def enable(self) -> None:
        """Use the cache."""
        self._is_enabled = True

    def disable(self) -> None:
        """Compile again."""
        self._is_enabled = False

    def flush(self) -> None:
        """Forget all compiled forms."""
        for place in self._places:
            _forget(place)


# -- Places -----------------------------------------------------------------------------------------------------------


class _CheckedFile(caching.IndexDataCacheFile):
    """Compiled code with its SHA-256, so that damaged code is never run."""

    def _save_data(self, name: str, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(content).digest() + content)

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        digest, body = content[:_DIGEST_LENGTH], content[_DIGEST_LENGTH:]
        if hashlib.sha256(body).digest() != digest:
            raise ValueError(f"{name} is damaged")
        return caching.pickle.loads(body)


class _Place(caching.FunctionCache):
    """numba's cache of one function, in files with a digest."""

    is_temporary = False

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        locator = self._impl.locator
        # Beside numba's own files, not in their place: those have no digest. Code with bounds checks is other code.
        base = f"{self._impl.filename_base}-bopl{'-checked' if caching.config.BOUNDSCHECK else ''}"
        self._cache_file = _CheckedFile(self._cache_path, base, locator.get_source_stamp())


class _ShippedLocator(caching.InTreeCacheLocator):
    """The folder beside the source, read even where it cannot be written: an image may have compiled code in it."""

    def ensure_cache_path(self) -> None:
        if not os.path.isdir(self.get_cache_path()):
            raise FileNotFoundError(self.get_cache_path())


class _TemporaryLocator(caching.InTreeCacheLocator):
    """A folder for temporary files."""

    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        folder = temporary_folder()
        if folder is None:
            raise FileNotFoundError("there is no folder for temporary files")
        self._cache_path = os.path.join(folder, self.get_suitable_cache_subpath(file))


class _ShippedImpl(caching.CompileResultCacheImpl):
    _locator_classes = (_ShippedLocator,)


class _TemporaryImpl(caching.CompileResultCacheImpl):
    _locator_classes = (_TemporaryLocator,)


class _ShippedPlace(_Place):
    _impl_class = _ShippedImpl

    def _save_overload(self, sig: Any, data: Any) -> None:
        raise PermissionError(self.cache_path)


class _TemporaryPlace(_Place):
    _impl_class = _TemporaryImpl
    is_temporary = True


def _places_of(function: Any) -> Iterator[Any]:
    """Yield the caches of a function: numba's own choice, the one beside the source, one for temporary files."""
    seen = set()
    for kind in (_Place, _ShippedPlace, _TemporaryPlace):
        try:
            place = kind(function)
        except Exception:  # no such folder, or none that can be written
            continue
        if place.cache_path not in seen:
            seen.add(place.cache_path)
            yield place


@cache
def temporary_folder() -> str | None:
    """Return a folder for compiled code among temporary files, None if there is none.

    It is the same for every run of a user. Code that others could have put there must not be run: a folder that is not
    the user's own is passed over for a new one, which goes when the program ends.
    """
    try:
        parent = tempfile.gettempdir()
        if os.path.realpath(parent) == os.path.realpath(os.getcwd()):  # the last resort; not for us
            return None
        path = os.path.join(parent, f"bopl-cache-{_user()}")
        os.makedirs(path, mode=0o700, exist_ok=True)
        if _is_own(path):
            return path
        path = tempfile.mkdtemp(prefix="bopl-cache-")
    except OSError:
        return None
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _is_own(path: str) -> bool:
    found = os.lstat(path)
    if not hasattr(os, "getuid"):  # temporary files are a user's own there
        return stat.S_ISDIR(found.st_mode)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _forget(place: Any) -> None:
    try:
        place.flush()
    except Exception:  # cannot be written
        return


# -- What is said -----------------------------------------------------------------------------------------------------


def _tell_place(place: Any) -> None:
    if place.is_temporary:
        _tell(
            f"compiled code is kept in {temporary_folder()!r}, as neither the installation nor the home folder can be "
            f"written; set {VARIABLE} to keep it elsewhere."
        )


def _tell_nowhere() -> None:
    _tell(
        "there is nowhere to keep compiled code, so every start compiles it again; set "
        f"{VARIABLE} to a folder that can be written and has room."
    )


def _tell_damaged(path: str | None, error: Exception) -> None:
    _tell("the compiled code of an earlier start is damaged, so it is compiled again.")


@cache  # once
def _tell(sentence: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"bopl: {sentence}\n")
        sys.stderr.flush()
