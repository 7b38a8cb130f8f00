"""The command itself: its subcommands, and how errors are reported."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import fields
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bopl._errors import visible
from bopl._interrupt import SigtermAsCtrlC
from bopl.cli import exit_code
from bopl.cli.audit import audit
from bopl.cli.backtest import backtest
from bopl.cli.demo import demo
from bopl.cli.evaluate import evaluate
from bopl.cli.export import export
from bopl.cli.loop import app as loop_app
from bopl.cli.output import PatientStream
from bopl.cli.plan import plan
from bopl.cli.predict import predict
from bopl.cli.report import report
from bopl.cli.reproduce import app as reproduce_app
from bopl.cli.serve import serve
from bopl.cli.train import train
from bopl.cli.tune import tune
from bopl.workflow.config import RENAMED, TrainConfig

DEBUG = "--debug"
# A parameter that a message of the library recommends: with a value, or after the word "with".
_ADVICE = re.compile(r"\b(?P<set>[a-z_]+)=(?P<to>True|'[^']*'|\[…\]|…)|\bwith (?P<named>[a-z]+_[a-z_]+|ignore)\b(?!=)")
_WRONG_TYPE = re.compile(r"Invalid value for '(?P<flag>[^']+)': .*\bvalid (?P<kind>integer|number)\b.*", re.S)
# typer brings its own copy of click in newer versions; this is the base of its errors in all of them.
_ClickError = typer.BadParameter.__mro__[2]


class InterruptedCommandError(Exception):
    """Ctrl-C, under a name that typer does not handle itself."""


class _Group(TyperGroup):
    """The commands; an interruption is an error like any other, so that it is reported."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise InterruptedCommandError from None


app = typer.Typer(
    cls=_Group,
    rich_markup_mode="markdown",  # so that paragraphs of the help flow
    help="Learn better decisions from logs, and know how good they are before you deploy.",
    epilog=exit_code.HELP,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
for command in (demo, audit, plan, train, tune, backtest, evaluate, predict, report, export, serve):
    app.command()(command)
app.add_typer(loop_app, name="loop")
app.add_typer(reproduce_app, name="reproduce")


def _version(is_asked: bool) -> None:
    if is_asked:
        import bopl

        typer.echo(f"bopl {bopl.__version__}")
        raise typer.Exit


@app.callback()
def _group(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show the traceback of an error; works anywhere in the command line.")
    ] = False,
) -> None:
    """Handle options that belong to no command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; an error is one sentence without a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    words = [word for word in given if word != DEBUG]
    exit_code.sigterm = SigtermAsCtrlC()
    with redirect_stdout(PatientStream(sys.stdout)) as output:
        try:
            with exit_code.sigterm:
                code = app(words, prog_name="bopl", standalone_mode=False)
            if code == exit_code.INTERRUPTED:  # typer's own word for it, while it read the line
                code = exit_code.of_interruption()
        except (Exception, KeyboardInterrupt) as error:
            if DEBUG in given:
                raise
            code = _report(error, is_json="--json" in words)
        output.flush()
    raise SystemExit(code if isinstance(code, int) else exit_code.FINE)


def _report(error: BaseException, *, is_json: bool) -> int:
    """Print an error as one sentence and return its exit code."""
    # A signal while compiled modules are imported becomes an error of that import.
    is_stopped_import = isinstance(error, ImportError) and exit_code.sigterm.came
    if isinstance(error, KeyboardInterrupt | InterruptedCommandError | typer.Abort) or is_stopped_import:
        code = exit_code.of_interruption()
        sentence = "terminated." if code == exit_code.TERMINATED else "interrupted."
    elif isinstance(error, _ClickError):
        sentence, code = _click_sentence(error), exit_code.WRONG_USE
    elif isinstance(error, ValueError | TypeError | RuntimeError | OSError | ImportError):
        sentence, code = in_flags(" ".join(str(error).split())), exit_code.of_error(error)
    else:
        sentence = f"unexpected {type(error).__name__}: {error}. Run again with {DEBUG} to see where."
        code = exit_code.BAD_DATA
    if is_json:
        typer.echo(json.dumps({"error": sentence, "exit_code": code}, ensure_ascii=False))
    if sentence:
        typer.echo(f"bopl: {visible(sentence)}", err=True)
    return code


def in_flags(sentence: str) -> str:
    """Return a message of the library with flags instead of parameters."""
    sentence = _ADVICE.sub(_as_flag, sentence.replace("has_propensity=False", "assume_propensity=…"))
    # Guards are all the other rewards there are here.
    sentence = re.sub(r"\bother_rewards\b(?!\[')(\[\d+\])?", "guard", sentence)
    return re.sub(r"\bother_rewards\['([^']*)'\]", r"guard '\1'", sentence)


def _as_flag(advice: re.Match[str]) -> str:
    name = advice["set"] or advice["named"]
    if name not in {entry.name for entry in fields(TrainConfig)}:
        return advice[0]
    flag, to = f"--{name.replace('_', '-')}", (advice["to"] or "").strip("'")
    flag = flag if to in ("", "True", "…", "[…]") else f"{flag} {to}"
    return flag if advice["set"] else f"with {flag}"


def _click_sentence(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "bopl"
    message = getattr(error, "format_message", error.__str__)()
    if not message:  # the help was printed instead
        return ""
    message = _renamed(error, context) or _WRONG_TYPE.sub(_as_sentence, message)
    return f"{message}{'' if message.endswith(('.', '?')) else '.'} See {command} --help."


def _as_sentence(found: re.Match[str]) -> str:
    return f"{found['flag']} must be {'an integer' if found['kind'] == 'integer' else 'a number'}"


def _renamed(error: BaseException, context: Any) -> str | None:
    """Return the new name of a flag that was renamed."""
    given = getattr(error, "option_name", None)
    name = RENAMED.get((given or "").removeprefix("--").replace("-", "_"))
    if name is None or context is None or name not in {one.name for one in context.command.params}:
        return None
    return f"{given} is now called --{name.replace('_', '-')}."
