"""rawko as an agent of Inspect AI."""

from rawko_inspect_solver.solver import rawko

__all__ = ["rawko"]
