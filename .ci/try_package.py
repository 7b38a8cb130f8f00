"""Try the installed package without its extras: import, one fit, a verdict, a file, the command; see `make package`.

It must not run where the extras are: the first lines look for that.
"""

import subprocess
import sys
import tarfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

EXTRAS = ("torch", "xgboost", "pandas", "matplotlib", "optuna", "onnx", "starlette", "distributed", "mlflow")
installed = [name for name in EXTRAS if find_spec(name)]
assert not installed, f"{installed} are installed: this environment is not bare"

import bopl  # noqa: E402
from bopl.testing import check_estimator, check_objective, check_policy, random_log  # noqa: E402

assert "site-packages" in bopl.__file__, f"not the installed package: {bopl.__file__}"
assert bopl.__version__ == version("bopl")
assert (Path(bopl.__file__).parent / "py.typed").is_file()

check_objective("dr", n_logs=1)
check_estimator("snips")
check_policy(bopl.BoostedPolicy(n_rounds=3, random_state=0))

with TemporaryDirectory() as folder:
    bopl.simulation.simulate_digits(random_state=0).train.to_parquet(f"{folder}/digits.parquet")
    command = [sys.executable, "-m", "bopl"]
    for words in (
        ["--version"],
        ["train", f"{folder}/digits.parquet", "--objective", "dr", "--n-rounds", "5", "--out", f"{folder}/policy.bopl"],
        ["predict", f"{folder}/digits.parquet", f"{folder}/policy.bopl", "--out", f"{folder}/decisions.csv"],
    ):
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode in (0, 3), f"bopl {' '.join(words)}: {done.returncode}\n{done.stderr}"
        print(done.stdout.strip().splitlines()[-1])
    # What an extra is for is refused in one sentence that names it.
    missing = subprocess.run(
        [*command, "export", f"{folder}/policy.bopl", "--to", "onnx"], capture_output=True, text=True, timeout=60
    )
    assert (missing.returncode, "bopl[onnx]" in missing.stderr) == (2, True), missing.stderr
    # The paper's experiments are in the archive and not in the wheel; the command says where they are.
    (archive,) = Path.cwd().glob("bopl-*.tar.gz")
    with tarfile.open(archive) as source:
        assert any(name.endswith("/paper/bopl_paper/command.py") for name in source.getnames())
    assert find_spec("bopl_paper") is None
    missing = subprocess.run([*command, "reproduce", "--quick"], capture_output=True, text=True, timeout=60)
    assert (missing.returncode, "clone it and run `make setup`" in missing.stderr) == (2, True), missing.stderr
    code = "import bopl; bopl.simulation.load_dataset"
    missing = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "is now bopl_paper.dataset.load_dataset, in the repository" in missing.stderr, missing.stderr
    loaded = bopl.load(f"{folder}/policy.bopl")
    assert bopl.evaluate(random_log(0), {"same": random_log(0).propensity}, estimators="ips").row()["uplift"] == 0.0
    print(loaded.policy_id)
print("The package works without its extras.")
