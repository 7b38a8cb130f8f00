"""Pages made after the run: again from its summary, or of a policy on another log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bopl import report
from bopl._errors import UsageError
from bopl.policy import load
from bopl.workflow.config import TrainConfig
from bopl.workflow.judging import align_policy, evaluate_on, rows_warnings, warnings_about
from bopl.workflow.reading import fill_propensity, noting, read_log_for
from bopl.workflow.run_folder import check_writable
from bopl.workflow.sharpness import with_sharpness
from bopl.workflow.step_clock import StepClock


def report_run(source: str | Path, out: Path | None) -> tuple[Path, dict[str, Any]]:
    """Write the page of a run folder, or of a summary file, again; return its path and the summary."""
    given = Path(source)
    file = given / "summary.json" if given.is_dir() else given
    if not file.is_file():
        raise FileNotFoundError(f"there is no summary {str(file)!r}: name a run folder, or a log and a policy file.")
    if file.suffix != ".json":
        raise UsageError(f"{str(source)!r} is not a run folder; {_what_to_name(given)}.")
    try:
        summary = json.loads(file.read_text(encoding="utf8"))
        page = out or file.parent / "report.html"
        _check_page(page, read=[file])
        report.write_page(summary, page)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{str(file)!r} is not the summary of a run: {error}.") from None
    return page, summary


def _check_page(page: Path, read: list[Any]) -> None:
    check_writable(page, read=read)
    if page.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"the name of a report must end in .html; got {str(page)!r}.")


def _what_to_name(given: Path) -> str:
    beside = given.with_suffix(".run")
    if beside.is_dir():
        return f"the run that made it is in {str(beside)!r}"
    return "to judge a policy on a log, name the policy file as well"


def report_log(config: TrainConfig, policy_file: str | Path, out: Path) -> tuple[Path, dict[str, Any], list[str]]:
    """Judge a policy on a log and write the page; return its path, the summary and what should be known of it."""
    _check_page(out, read=[config.log, policy_file])
    clock = StepClock()
    policy = with_sharpness(load(policy_file), config.inverse_temperature)
    with clock.step("read"), noting() as unseen:
        log = fill_propensity(read_log_for(policy, config.request()), config.assume_propensity, config.random_state)
    judged = align_policy(policy, log)
    with clock.step("audit"):
        audit = log.audit(judged)
    with clock.step("evaluate"):
        name = Path(policy_file).stem
        evaluation = evaluate_on(log, {name: judged}, config)
    with clock.step("report"):
        summary = report.summarise(judged, log, evaluation, audit=audit, config=config.to_dict(), encoder=log.schema)
    summary |= {"steps": clock.steps}
    report.write_page(summary, out)
    return out, summary, [*rows_warnings(log), *warnings_about(name, policy, log), *unseen]
