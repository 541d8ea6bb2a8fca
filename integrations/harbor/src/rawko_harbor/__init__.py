"""rawko as an agent of Harbor: `harbor run --agent rawko_harbor:Rawko`."""

from rawko_harbor.agent import Rawko

__all__ = ["Rawko"]
