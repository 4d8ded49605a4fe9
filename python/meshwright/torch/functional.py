"""Tensors that are never written to: what writes to them makes new ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def functional() -> Iterator[None]:
    """Ops that write to tensors become ops that make new ones."""
    mkldnn = torch._C._get_mkldnn_enabled()
    torch._enable_functionalization(reapply_views=True)
    try:
        # Kernels of one library for CPUs would stand for several ops each.
        torch._C._set_mkldnn_enabled(False)
        yield
    finally:
        torch._C._set_mkldnn_enabled(mkldnn)
        torch._disable_functionalization()


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Nothing is recorded here, and tensors are plain."""
    torch._disable_functionalization()
    try:
        with torch.utils._python_dispatch._disable_current_modes():
            yield
    finally:
        torch._enable_functionalization(reapply_views=True)
