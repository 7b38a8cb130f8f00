"""The picture of a report in the README: a run on the simulated shop, seen in headless Chromium.

python benchmarks/report_image.py            # writes docs/images/report.png
python benchmarks/report_image.py --page report.html    # keeps the page as well
"""

import argparse
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import bopl
from bopl.simulation import simulate_shop
from bopl.simulation.shop import CATEGORIES

IMAGE = Path(__file__).parents[1] / "docs" / "images" / "report.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1280, 1404


def make_summary():
    steps, start = [], time.perf_counter()

    def step_done(name):
        nonlocal start
        now = time.perf_counter()
        steps.append({"step": name, "seconds": now - start, "peak_mib": None})
        start = now

    train, test = simulate_shop(60_000).to_log().split(0.2, random_state=0)
    step_done("simulate")
    learner = bopl.HistTree(max_depth=6, min_child_weight=50.0, categorical=list(CATEGORIES))
    policy = bopl.BoostedPolicy(
        "surrogate",
        learner,
        n_rounds=300,
        reward_translation=-0.15,
        validation_fraction=0.2,
        early_stopping_rounds=30,
        random_state=0,
    ).fit(train)
    step_done("train")
    names = ["dr", "snips", "ips", "beta_ips", "clipped_ips"]
    model = bopl.BoostedRewardModel(n_rounds=50, random_state=0)
    evaluation = bopl.evaluate(test, {"new": policy}, estimators=names, reward_model=model)
    step_done("evaluate")
    config = {"log": "simulated shop", "policy": {"n_rounds": 300, "reward_translation": -0.15, "max_depth": 6}}
    return bopl.report.summarise(
        policy, test, evaluation, audit=test.audit(policy), config=config, steps=steps, encoder=CATEGORIES
    )


def take_picture(page, image):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit("Chromium is needed to take the picture: apt-get install chromium")
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={image}", f"file://{page.resolve()}"]
    subprocess.run(command, check=True, capture_output=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="where to keep the page")
    parser.add_argument("--image", type=Path, default=IMAGE)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = options.page or Path(folder) / "report.html"
        bopl.report.write_page(make_summary(), page)
        take_picture(page, options.image)
    print(f"{options.image}: {options.image.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
