"""Steps of PyTorch, profiled and planned.

PyTorch itself is as it comes: a step runs once on tensors that have no memory, and what it would compute is recorded op
by op as a program.
"""

from __future__ import annotations

from meshwright.torch.capture import Captured, capture
from meshwright.torch.check import Comparison, check
from meshwright.torch.plan import Profile, plan, profile
from meshwright.torch.rules import register_rule

__all__ = ["Captured", "Comparison", "Profile", "capture", "check", "plan", "profile", "register_rule"]
