"""PyTorch, an optional dependency: whether it is installed, and which device it uses."""

from __future__ import annotations

from typing import Any


def has_torch() -> bool:
    """Return whether PyTorch is installed, without importing it."""
    from importlib.util import find_spec

    return find_spec("torch") is not None


def import_torch(owner: str) -> Any:
    """Return torch, or raise an error that says how to install it."""
    try:
        import torch
    except ImportError:
        raise ImportError(f"{owner} needs PyTorch: pip install 'bopl[deep]'.") from None
    return torch


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
