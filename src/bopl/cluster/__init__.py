"""Where pieces of a log are processed: this machine, or a Dask cluster."""

from bopl.cluster.add import add_exact
from bopl.cluster.cache import ArrayCache, CacheWarning
from bopl.cluster.choice import using_cluster
from bopl.cluster.local import ThisMachine
from bopl.cluster.memory import MemoryBudgetWarning, WorkingMemory, parse_bytes
from bopl.cluster.once import map_over
from bopl.cluster.placement import Placement
from bopl.cluster.seam import Cluster
from bopl.cluster.traffic import Traffic

__all__ = [
    "ArrayCache",
    "CacheWarning",
    "Cluster",
    "MemoryBudgetWarning",
    "Placement",
    "ThisMachine",
    "Traffic",
    "WorkingMemory",
    "add_exact",
    "map_over",
    "parse_bytes",
    "using_cluster",
]
