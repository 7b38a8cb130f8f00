"""The environment of a run: versions of packages, memory, and packages that need not be installed."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "xgboost", "xgboost-cpu", "torch")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_RESET_PEAK = "5"  # see proc(5), /proc/pid/clear_refs


@cache
def versions() -> dict[str, str]:
    """Return the versions that a result may depend on."""
    import bopl

    found = {"python": ".".join(map(str, sys.version_info[:3])), "bopl": bopl.__version__}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


@contextmanager
def thread_variables(threads: int | None) -> Iterator[None]:
    """Let processes started in the block use this many threads: their libraries read these variables on import."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    if threads is not None:
        os.environ |= dict.fromkeys(_THREAD_VARIABLES, str(threads))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def peak_memory_mib() -> float:
    """Return the peak memory of this process since its start or `reset_peak_memory`, in MiB; 0 if unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1)  # bytes there, KiB elsewhere


def reset_peak_memory() -> None:
    """Reset the peak, if the system can; otherwise it stays that of the whole process."""
    try:
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    except OSError:
        return


def memory_in_use_mib() -> float:
    """Return the memory this process holds now, in MiB; its peak if the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return peak_memory_mib()
    return float(round(pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), 1))


def return_unused_memory() -> None:
    """Give back to the system what pyarrow holds for tables to come: as much as the tables of a file that is read."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()


def trim_memory() -> None:
    """Give back to the system all memory that allocators hold for later, as far as they can."""
    return_unused_memory()
    with suppress(OSError, TypeError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def available_memory() -> int | None:
    """Return the bytes that this process could still take, by the system and its control group; None if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, IndexError, ValueError, StopIteration):
        return None
    try:
        group = Path("/sys/fs/cgroup")
        limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
    except (OSError, ValueError):  # no such group, or no limit: "max"
        return free
    return min(free, max(limit - used, 0))


def has_torch() -> bool:
    """Return whether PyTorch is installed, without importing it."""
    from importlib.util import find_spec

    return find_spec("torch") is not None


def import_extra(package: str, need: str, extra: str) -> Any:
    """Return a package that an extra installs, or raise an error that says who needs it and how to install it."""
    try:
        return __import__(package)
    except ImportError:
        raise ImportError(f"{need}: pip install 'bopl[{extra}]'.") from None


def import_torch(owner: str) -> Any:
    """Return torch, or raise an error that says how to install it."""
    return import_extra("torch", f"{owner} needs PyTorch", "deep")


def pick_device(torch: Any, device: str) -> Any:
    """Return the device called ``device``; ``"auto"`` is CUDA if there is a GPU."""
    has_cuda = torch.cuda.is_available()
    if device == "auto":
        return torch.device("cuda" if has_cuda else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda'; got {device!r}.") from None
    if found.type == "cuda" and not has_cuda:
        raise ValueError("device='cuda' was asked for, but PyTorch finds no GPU here; use device='cpu' or 'auto'.")
    return found
