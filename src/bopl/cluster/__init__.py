"""Where pieces of a log are processed: this machine, or a Dask cluster."""

from bopl.cluster.cache import ArrayCache, CacheWarning
from bopl.cluster.choice import map_over, using_cluster
from bopl.cluster.local import ThisMachine
from bopl.cluster.memory import MemoryBudgetWarning, WorkingMemory, parse_bytes
from bopl.cluster.order import add_exact
from bopl.cluster.placement import Cluster, Placement, Traffic

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
