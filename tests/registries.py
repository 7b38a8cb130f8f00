"""All registries, and a way to leave them as they were."""

from contextlib import ExitStack, contextmanager

# These register predictors of the package when they are first imported: inside `forgotten` that would be lost.
import bopl.reward.logging_model
import bopl.reward.network_model  # noqa: F401
from bopl.evaluation import ESTIMATORS, INTERVALS
from bopl.learner import LEARNERS
from bopl.learner.store import PREDICTORS
from bopl.log.format import FORMATS
from bopl.objective import OBJECTIVES, WEIGHTS
from bopl.policy.model_file import POLICIES

REGISTRIES = (ESTIMATORS, INTERVALS, LEARNERS, PREDICTORS, FORMATS, OBJECTIVES, WEIGHTS, POLICIES)


@contextmanager
def forgotten():
    """Forget at the end whatever was registered meanwhile."""
    with ExitStack() as stack:
        for registry in REGISTRIES:
            stack.enter_context(registry.temporary())
        yield
