"""How the house is built: sizes of modules and functions, names that occur twice, and what a run walks through.

python benchmarks/house.py
python benchmarks/house.py --list
python benchmarks/house.py --journeys
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import sys
import tempfile
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import numpy as np
from revisions import ROOT, commit

PACKAGE = ROOT / "src" / "bopl"
PAPER = ROOT / "paper" / "bopl_paper"  # as tidy, but not counted
MAX_MODULE, MAX_FUNCTION, MAX_PARAMETERS = 400, 60, 8
COMMANDS = "cli"
SHARED_NAMES = {"__init__.py", "__main__.py"}  # which every package may have
# Work that should be done once for each array: the functions that do it, and the argument whose rows are counted.
WORK = {
    "binned": {"bin_context": "context", "store_context": "context"},
    "sketched": {"fit_columns": "context", "count_values": "context"},
    "hashed": {"context_keys": "context"},
    "searched for leaks": {"find_leaks": "log"},
    "scored": {"Ensemble.score": "context"},
    "reward models asked": {"BoostedRewardModel.predict": "context"},
}
JOURNEY_ROWS, JOURNEY_ROUNDS = 6_000, 12


@dataclass(frozen=True)
class Function:
    """A function or method as the source has it."""

    place: str
    n_lines: int  # from def to the last line, without the docstring
    n_parameters: int  # without self and cls
    is_public: bool
    is_kernel: bool


@dataclass(frozen=True)
class Module:
    """A source file, its lines by kind and its functions."""

    name: str
    n_lines: int
    kinds: Counter[str]
    functions: tuple[Function, ...]
    exports: int


def read_module(path: Path, package: Path | None = None) -> Module:
    """Return what a source file of a package holds; of `PACKAGE` if none is named."""
    text = path.read_text(encoding="utf8")
    tree = ast.parse(text)
    name = str(path.relative_to(package or PACKAGE))
    functions = tuple(_functions(tree, name.removesuffix(".py").replace("/", ".")))
    return Module(name, len(text.splitlines()), _line_kinds(text, tree), functions, _n_exports(tree))


def _line_kinds(text: str, tree: ast.Module) -> Counter[str]:
    """Count lines of code, docstrings, comments, and blank ones; a line with code and a comment is code."""
    kind = dict.fromkeys(range(1, len(text.splitlines()) + 1), "blank")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            continue
        for line in range(token.start[0], token.end[0] + 1):
            if token.type == tokenize.COMMENT:
                kind[line] = "comment" if kind[line] == "blank" else kind[line]
            else:
                kind[line] = "code"
    for node in ast.walk(tree):
        docstring = _docstring(node)
        if docstring is not None:
            kind |= dict.fromkeys(range(docstring.lineno, (docstring.end_lineno or 0) + 1), "docstring")
    return Counter(kind.values())


def _docstring(node: ast.AST) -> ast.Expr | None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
        return None
    first = node.body[0]
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return first if isinstance(first, ast.Expr) and is_text else None


def _functions(tree: ast.AST, inside: str, is_public: bool = True) -> Iterator[Function]:
    """Yield the functions of a module, those within classes and functions too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            own = is_public and (node.name == "__init__" or not node.name.startswith("_"))
            yield _function(node, f"{inside}.{node.name}", own)
            yield from _functions(node, f"{inside}.{node.name}", False)
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{inside}.{node.name}", is_public and not node.name.startswith("_"))
        else:
            yield from _functions(node, inside, is_public)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, place: str, is_public: bool) -> Function:
    docstring = _docstring(node)
    n_docstring = 0 if docstring is None else (docstring.end_lineno or 0) - docstring.lineno + 1
    given = node.args
    named = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    is_kernel = any(word in ast.unparse(one) for one in node.decorator_list for word in ("njit", "kernel", "jit"))
    n_parameters = len([name for name in named if name not in ("self", "cls")])
    return Function(place, (node.end_lineno or 0) - node.lineno + 1 - n_docstring, n_parameters, is_public, is_kernel)


def _n_exports(tree: ast.Module) -> int:
    """Return how many names ``__all__`` lists, as a list or as words of a table of modules (`bopl._lazy`)."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Call):
            tables = [one for one in node.value.args if isinstance(one, ast.Dict)]
            return sum(len(ast.literal_eval(names).split()) for table in tables for names in table.values)
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == "__all__" for to in node.targets):
            return len(node.value.elts) if isinstance(node.value, ast.List | ast.Tuple) else 0
    return 0


# -- Sizes -----------------------------------------------------------------------------------------------------------


def sizes(modules: list[Module]) -> dict[str, object]:
    """Return the figures of the table."""
    kinds = sum((module.kinds for module in modules), Counter[str]())
    functions = [function for module in modules for function in module.functions]
    lengths, module_lines = sorted(one.n_lines for one in functions), [module.n_lines for module in modules]
    tenths, own = quantiles(module_lines, n=10), [one for one in functions if not one.is_kernel]
    wide = [one for one in own if one.n_parameters > MAX_PARAMETERS]
    return {
        "modules": len(modules),
        "lines": sum(module_lines),
        **{f"lines of {kind}": kinds[kind] for kind in ("code", "docstring", "comment", "blank")},
        "module median / p90 / max": f"{median(module_lines):.0f} / {tenths[-1]:.0f} / {max(module_lines)}",
        f"modules over {MAX_MODULE} lines": len(long_modules(modules)),
        "functions": len(functions),
        "function median / p99 / max": f"{median(lengths):.0f} / {lengths[int(0.99 * len(lengths))]} / {lengths[-1]}",
        f"functions over {MAX_FUNCTION} lines": sum(one.n_lines > MAX_FUNCTION for one in functions),
        f"functions over {MAX_PARAMETERS} parameters, public": sum(one.is_public for one in wide),
        f"functions over {MAX_PARAMETERS} parameters, private": sum(not one.is_public for one in wide),
        f"kernels over {MAX_PARAMETERS} parameters": sum(
            one.is_kernel and one.n_parameters > MAX_PARAMETERS for one in functions
        ),
        "file names that occur twice or more": len(twins(modules)),
        "names in the packages' __all__": sum(module.exports for module in modules),
    }


def long_modules(modules: list[Module]) -> list[Module]:
    """Return the modules that are too long, longest first."""
    return sorted((one for one in modules if one.n_lines > MAX_MODULE), key=lambda one: -one.n_lines)


def twins(modules: list[Module]) -> dict[str, list[str]]:
    """Return the file names that occur in several folders, with the folders; files of commands have their names."""
    folders = defaultdict(list)
    for module in modules:
        folder, _, name = module.name.rpartition("/")
        if folder != COMMANDS:
            folders[name].append(folder or ".")
    return {name: found for name, found in sorted(folders.items()) if len(found) > 1 and name not in SHARED_NAMES}


def print_lists(modules: list[Module]) -> None:
    """Print what is behind the counts."""
    functions = [function for module in modules for function in module.functions]
    print(f"\nModules over {MAX_MODULE} lines")
    for module in long_modules(modules):
        print(f"  {module.n_lines:4} {module.name}")
    print(f"\nFunctions over {MAX_FUNCTION} lines")
    for one in sorted((one for one in functions if one.n_lines > MAX_FUNCTION), key=lambda one: -one.n_lines):
        print(f"  {one.n_lines:4} {one.place}{' (kernel)' * one.is_kernel}")
    print(f"\nFunctions over {MAX_PARAMETERS} parameters, kernels left out")
    wide = [one for one in functions if one.n_parameters > MAX_PARAMETERS and not one.is_kernel]
    for one in sorted(wide, key=lambda one: (one.is_public, -one.n_parameters)):
        print(f"  {one.n_parameters:4} {one.place}{' (public)' * one.is_public}")
    print("\nFile names that occur twice or more")
    for name, folders in twins(modules).items():
        print(f"  {name}: {', '.join(folders)}")


# -- Journeys --------------------------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """An array that is worked on, and the model that does it, if one does."""

    shape: tuple[int, ...]
    content: str
    model: int


@dataclass
class Journey:
    """What a call walks through: modules, functions, calls from one module to another, and repeated work."""

    modules: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    n_crossings: int = 0
    depth: int = 0
    work: dict[str, Counter[Piece]] = field(default_factory=lambda: defaultdict(Counter))
    _models: list[Any] = field(default_factory=list)  # kept, so that none gets the address of another

    def along(self, call: Callable[[], Any]) -> Any:
        """Call, and note what is called below; threads that begin meanwhile are followed, too."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            return call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _note(self, frame: Any, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(str(PACKAGE)):
            return
        name = frame.f_code.co_qualname
        module = frame.f_code.co_filename
        if name == "<module>":
            return
        self.modules.add(module)
        self.functions.add(f"{module}:{name}")
        depth, caller, crossed = 1, frame.f_back, False
        while caller is not None:
            if caller.f_code.co_filename.startswith(str(PACKAGE)):
                crossed = crossed or (depth == 1 and caller.f_code.co_filename != module)
                depth += 1
            caller = caller.f_back
        self.n_crossings += crossed
        self.depth = max(self.depth, depth)
        for what, functions in WORK.items():
            if name in functions and (array := frame.f_locals.get(functions[name])) is not None:
                model = frame.f_locals.get("self")
                self._models.append(model)
                shape = tuple(getattr(array, "shape", (len(array),)))
                self.work[what][Piece(shape, _digest(array), id(model))] += 1

    def row(self, name: str) -> str:
        """The journey as a row of the table."""
        return f"| {name} | {len(self.modules)} | {len(self.functions)} | {self.n_crossings:,} | {self.depth} |"


def walk(rows: int, rounds: int) -> None:
    """Print the journeys of a run, of a round and of an evaluation, and what the run computes more than once."""

    import bopl
    from bopl.cli.main import main as command
    from bopl.simulation.shop import simulate_shop

    log = simulate_shop(rows, random_state=0).to_log()
    journeys: dict[str, Journey] = defaultdict(Journey)
    train, test = log.split(0.3, random_state=0)

    def fit(n_rounds: int) -> Any:
        learner = bopl.HistTree(6, min_child_weight=20.0)
        return bopl.BoostedPolicy("ips", learner, n_rounds, progress=False, random_state=0).fit(train)

    policy = fit(2)  # compiled before anything is counted
    bopl.evaluate(test, {"new": policy})
    journeys["`BoostedPolicy.fit(log)`, 1 round"].along(lambda: fit(1))
    journeys["`bopl.evaluate(log, {'new': policy})`"].along(lambda: bopl.evaluate(test, {"new": policy}))
    with tempfile.TemporaryDirectory() as folder:
        log.to_parquet(Path(folder) / "shop.parquet")
        single = ["--objective", "ips", "--n-rounds", str(rounds)]
        for name, more in (
            ("`bopl train`, one objective", single),
            ("`bopl train`, the race", []),
            ("`bopl train`, the race of `dr`", ["--include", "dr"]),
        ):
            words = ["train", f"{folder}/shop.parquet", "--out", f"{folder}/{len(more)}.bopl", *more]
            with redirect_stdout(io.StringIO()):
                journeys[name].along(partial(_exit_code, command, words))
    print("\n| journey | modules | functions | calls between modules | depth |\n|---|---:|---:|---:|---:|")
    for name, journey in journeys.items():
        print(journey.row(name))
    for name, journey in journeys.items():
        print(f"\n{name}: arrays worked on, by shape, and how often the same array (by the same model)")
        for what, pieces in sorted(journey.work.items()):
            shapes = Counter(piece.shape for piece in pieces)
            listed = ", ".join(
                f"{' x '.join(map(str, shape))}: {n}" for shape, n in sorted(shapes.items(), reverse=True)
            )
            print(f"  {what}: at most {max(pieces.values())} times; {listed}")


def _digest(array: Any) -> str:
    """Return what tells an array, or a log, from others of its shape."""
    dense = array.data if hasattr(array, "tocsr") else getattr(array, "context", array)
    return hashlib.sha256(memoryview(np.ascontiguousarray(dense)).cast("B")).hexdigest()


def _exit_code(command: Callable[[list[str]], None], words: list[str]) -> int:
    try:
        command(words)
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="Name the modules and functions behind the counts.")
    parser.add_argument("--journeys", action="store_true", help="Trace a run, a round and an evaluation (minutes).")
    given = parser.parse_args()
    modules = [read_module(path) for path in sorted(PACKAGE.rglob("*.py"))]
    print(f"commit {commit()}\n")
    print("| | |\n|---|---:|")
    for what, found in sizes(modules).items():
        print(f"| {what} | {found if isinstance(found, str) else f'{found:,}'} |")
    if given.list:
        print_lists(modules)
    if given.journeys:
        walk(JOURNEY_ROWS, JOURNEY_ROUNDS)


if __name__ == "__main__":
    main()
