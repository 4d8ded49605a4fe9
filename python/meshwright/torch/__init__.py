"""Steps of PyTorch, profiled, planned and run.

PyTorch itself is as it comes: a step runs once on tensors that have no memory, and what it would compute is recorded op
by op as a program. What runs then on every process is what a plan makes of it, as a source of ordinary PyTorch.
"""

from __future__ import annotations

from meshwright.torch.capture import Captured, capture
from meshwright.torch.check import Comparison, check
from meshwright.torch.parallelize import parallelize
from meshwright.torch.plan import Profile, plan, profile
from meshwright.torch.rules import register_rule

__all__ = ["Captured", "Comparison", "Profile", "capture", "check", "parallelize", "plan", "profile", "register_rule"]
