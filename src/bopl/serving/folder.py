"""`LoopFolder`: one folder is one loop."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bopl._errors import UsageError
from bopl._files import copy_file, write_text
from bopl.serving.events import EventStore
from bopl.serving.record import UNIFORM, PromotionRow
from bopl.serving.settings import LoopSettings, read_settings

if TYPE_CHECKING:
    from bopl.serving.mixture import ServedMixture

SETTINGS, EVENTS, POLICIES, LOG, VERDICTS = "loop.toml", "events.db", "policies", "log", "verdicts"
SUFFIX = ".bopl"
_ID = re.compile(r"[\w.-]{1,128}")


class LoopFolder:
    """Where the files of a loop are.

    Parameters
    ----------
    path : path
        Folder of the loop.

    Attributes
    ----------
    events : Path
        The event store.
    policies, log, verdicts : Path
        The folders of policies, each named by its id, of joined decisions, in Parquet files, and of verdicts, in JSON
        files.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.events, self.policies = self.path / EVENTS, self.path / POLICIES
        self.log, self.verdicts = self.path / LOG, self.path / VERDICTS

    def settings(self) -> LoopSettings:
        """Return the settings, checked."""
        return read_settings(self.path / SETTINGS)

    @classmethod
    def create(
        cls, path: str | Path, settings: LoopSettings | None = None, *, policy: str | Path | None = None
    ) -> LoopFolder:
        """Make the folder of a loop; a policy that is given is served at once, and is the first baseline."""
        folder = cls(path)
        if (folder.path / SETTINGS).exists():
            raise UsageError(f"{str(path)!r} is the folder of a loop already; edit its {SETTINGS}, or name another.")
        settings = LoopSettings() if settings is None else settings.check()
        loaded = None if policy is None else load_policy_file(Path(policy))
        try:
            for one in (folder.path, folder.policies, folder.log, folder.verdicts):
                one.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{str(path)!r} cannot be made: {error.strerror}.") from None
        EventStore.create(folder.events, seed=settings.random_state)
        first = UNIFORM if policy is None else folder.add_policy(policy, loaded)
        with EventStore(folder.events) as store:
            found = store.promotion()  # of an attempt that was cut short
            if found is None or found.policy != first:
                store.promote(folder.first_promotion(settings, first), after=0 if found is None else found.id)
        write_text(folder.path / SETTINGS, settings.to_toml())  # last: a folder with it is whole
        return folder

    def first_promotion(self, settings: LoopSettings, policy: str = UNIFORM) -> PromotionRow:
        """Return the row that a loop begins with."""
        return PromotionRow(
            policy,
            1.0,
            policy,
            settings.exploration,
            settings.min_propensity,
            "the loop begins",
            actions=list(settings.actions) or None,
        )

    def policy_files(self) -> dict[str, Path]:
        """Return the policy files in the folder by what they are named, which is their id unless somebody chose it."""
        files = sorted(self.policies.glob(f"*{SUFFIX}"))
        return {file.stem: file for file in files if file.is_file() and not file.name.startswith(".")}

    def add_policy(self, path: str | Path, policy: Any = None) -> str:
        """Copy a policy file into the folder, under its id, and return that; nothing is promoted."""
        policy_id: str = (load_policy_file(Path(path)) if policy is None else policy).policy_id
        target = self.policy_file(policy_id)
        if not target.exists():
            copy_file(path, target)
        return policy_id

    def policy_file(self, policy_id: str) -> Path:
        """Return the file of a policy."""
        if not _ID.fullmatch(policy_id) or policy_id.startswith("."):
            raise UsageError(f"{policy_id!r} is not the id of a policy.")
        return self.policies / f"{policy_id}{SUFFIX}"

    def load_policy(self, policy_id: str) -> Any:
        """Return a policy, or None for the uniform one.

        Raises
        ------
        UsageError
            If there is no such policy, or what its file holds has another id.
        """
        if policy_id == UNIFORM:
            return None
        return self._checked(policy_id, load_policy_file)

    def _checked(self, policy_id: str, load: Callable[[Path], Any]) -> Any:
        path = self.policy_file(policy_id)
        if not path.is_file():
            raise UsageError(f"there is no policy {policy_id} in {str(self.policies)!r}; put its file back.")
        policy = load(path)
        if policy.policy_id != policy_id:
            raise UsageError(f"{str(path)!r} holds policy {policy.policy_id}, not the one that it is named after.")
        return policy

    def mixture(self, promotion: PromotionRow) -> ServedMixture:
        """Return what is served under a promotion; decisions are replayed with it, too."""
        from bopl.serving.mixture import ServedMixture  # with all that policies need, which a refusal does not

        names = dict.fromkeys((promotion.policy, promotion.baseline))
        found = {name: None if name == UNIFORM else self._checked(name, _load_decider) for name in names}
        return ServedMixture(promotion, found[promotion.policy], found[promotion.baseline])


def load_policy_file(path: Path) -> Any:
    """Return the policy of a file, with all that it can do."""
    from bopl.policy.model_file import load

    return load(path)


def _load_decider(path: Path) -> Any:
    from bopl.policy.decider import load_decider

    return load_decider(path)
