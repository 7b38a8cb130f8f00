"""Result lines, intervals, tables, claims, figure: all from lines alone."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from bopl import cli
from bopl_paper.catalogue import (
    DATASETS,
    DEFAULT,
    METHODS,
    NOISY,
    NOISY_METHODS,
    PAPER_METHODS,
    SPLITS,
    read_config,
)
from bopl_paper.claim import check_claims
from bopl_paper.default_standing import against_best, against_logging
from bopl_paper.figure import draw_figure, write_figure
from bopl_paper.paper_result import paper_direct_method, paper_reward
from bopl_paper.result_line import (
    Cell,
    append_lines,
    collect,
    collect_direct_method,
    collect_trials,
    mean_interval,
    paired_gap,
    read_results,
)
from bopl_paper.result_table import noisy_table, shortfalls, splits_table, table_1, table_2
from bopl_paper.task import figure_plan, quick_plan


def line(method="bopl-regr", dataset="scene", trial=0, reward=0.5, **more):
    return {"method": method, "dataset": dataset, "trial": trial, "test_reward": reward, **more}


def written(method, dataset="scene", trial=0, reward=0.5, settings=None, n_samples=None, **more):
    """A line as the runner writes it, with the settings of today unless others are given."""
    known = read_config(dataset, method).policy if settings is None else settings
    return line(method, dataset, trial, reward, hyper_parameters=known, n_samples=n_samples, **more)


def paper_lines():
    """Lines whose means are the paper's, with a spread that is next to nothing."""
    lines = []
    for method in PAPER_METHODS:
        for dataset in DATASETS:
            mean = paper_reward(method, dataset).mean
            more = {}
            if method == "brr-xgb" and paper_direct_method(method, dataset):
                more = {"direct_method": {m: paper_direct_method(m, dataset).mean for m in ("brr-xgb", "bopl-regr")}}
            lines += [line(method, dataset, trial, mean + 1e-5 * (-1) ** trial, **more) for trial in range(10)]
    for method, norm, start, reward in (
        ("bopl-regr", [3.0, 2.0, 1.0], 0.4, 0.94),
        ("bopl-s-regr", [3.0, 2.5, 1.0], 0.45, 0.95),
        ("bopl-cs-regr", [3.0, 4.0, 2.0], 0.5, 0.93),
    ):
        curves = {"gradient_norm": norm, "training_reward": [start, 0.6, 0.7], "round_reward": [start, 0.5, reward]}
        lines.append(line(method, "covertype", 0, reward, **curves))
    return lines


def test_lines_written_are_lines_read_one_file_for_each_dataset(tmp_path):
    lines = [line(), line(dataset="covertype"), line(trial=1), line(gradient_norm=[1.0])]
    append_lines(tmp_path / "results", lines)
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "covertype.jsonl", "figure.jsonl", "scene.jsonl",
    ]  # fmt: skip
    assert sorted(map(json.dumps, read_results(tmp_path / "results"))) == sorted(map(json.dumps, lines))


def test_half_a_line_of_a_killed_run_is_ignored_and_cut_off_by_the_next(tmp_path):
    append_lines(tmp_path, [line(trial=0), line(trial=1)])
    path = tmp_path / "scene.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    assert [found["trial"] for found in read_results(tmp_path)] == [0]
    append_lines(tmp_path, [line(trial=2)])
    assert [found["trial"] for found in read_results(tmp_path)] == [0, 2]
    assert path.read_text().count("\n") == 2


def test_a_broken_line_is_named_by_file_and_number(tmp_path):
    (tmp_path / "scene.jsonl").write_text('{"trial": 0}\n{"tri\n{"trial": 1}\n')
    with pytest.raises(ValueError, match=r"line 2 of .*scene\.jsonl is not a result line"):
        read_results(tmp_path)


def test_there_are_no_results_in_a_folder_that_is_not_there(tmp_path):
    assert read_results(tmp_path / "none") == []


def test_interval_covers_the_mean_in_ninety_five_of_a_hundred_experiments():
    rng = np.random.default_rng(0)
    covered = [abs(cell.mean) <= cell.half_width for cell in (mean_interval(rng.normal(size=10)) for _ in range(4000))]
    assert abs(np.mean(covered) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 4000)


def test_interval_of_ten_trials_is_the_textbooks():
    values = np.arange(10.0)
    assert mean_interval(values).half_width == pytest.approx(2.2621571628 * values.std(ddof=1) / np.sqrt(10))
    assert mean_interval([0.3]) == Cell(0.3, float("inf"), 1)


def test_of_two_lines_for_one_trial_the_last_counts_and_figure_lines_do_not():
    lines = [line(reward=0.1), line(reward=0.2), line(reward=0.9, gradient_norm=[1.0])]
    assert collect(lines)["bopl-regr", "scene"].mean == 0.2


def test_direct_method_estimates_are_read_from_the_regressors_lines():
    lines = [line("brr-xgb", trial=trial, direct_method={"brr-xgb": 0.5, "bopl-regr": 0.4}) for trial in range(2)]
    cells = collect_direct_method(lines)
    assert (cells["brr-xgb", "scene"].mean, cells["bopl-regr", "scene"].mean) == (0.5, 0.4)


def test_table_has_our_column_beside_the_papers_and_bolds_what_overlaps_the_best():
    table = table_1(paper_lines())
    assert table.heading[:3] == ("method", "Covertype", "Covertype, paper")
    assert len(table.rows) == 9
    assert table.rows[0][2] == "0.4907 ± 0.0024"
    row, covertype, covertype_paper = [METHODS[name] for name in METHODS].index("BOPL-S-regr"), 1, 2
    assert {at for at in table.bold if at[1] in (covertype, covertype_paper)} == {(row, 1), (row, 2)}
    scene_paper = table.heading.index("Scene, paper")
    bold = {table.rows[row][0] for row, at in table.bold if at == scene_paper}
    assert bold == {"BanditNet", "BOPL-regr", "BOPL-S-regr", "BOPL-S-class"} | (bold & {"DRR", "BOPL-class"})


def test_tables_are_valid_markdown_and_latex():
    for table in (table_1(paper_lines()), table_2(paper_lines())):
        rows = [text for text in table.to_markdown().splitlines() if text.startswith("|")]
        assert {text.count("|") for text in rows} == {len(table.heading) + 1}
        latex = table.to_latex()
        assert latex.count(r"\begin") == latex.count(r"\end") == 2
        assert {text.count("&") for text in latex.splitlines() if text.endswith(r"\\")} == {len(table.heading) - 1}
        assert "±" not in latex


def test_versions_of_a_dataset_share_the_column_of_the_paper():
    lines = [line(dataset=name, method="drr") for name in ("scene", "tmc2007_500", "tmc2007_500_v1")]
    heading = ("method", "Scene", "Scene, paper", "TMC2007-500", "TMC2007-500 v1", "TMC2007-500, paper")
    assert table_1(lines).heading == heading
    assert table_1(lines[:2]).heading == ("method", "Scene", "Scene, paper", "TMC2007-500", "TMC2007-500, paper")
    assert table_1(lines[2:]).heading == ("method", "TMC2007-500 v1", "TMC2007-500, paper")


def test_table_of_figure_lines_alone_is_empty_and_says_so():
    table = table_1([line(gradient_norm=[1.0])])
    assert table.title == "No results yet"
    assert table.to_markdown()
    assert table.bold == frozenset()


def test_second_table_has_estimate_and_truth_of_both_policies():
    rows = {row[0]: row[1:] for row in table_2(paper_lines()).rows}
    assert rows["Scene, BRR-xgb"][2:] == ("0.5126 ± 0.0103", "0.6854 ± 0.0189")
    assert rows["Scene, BOPL-regr"][0].startswith("0.4972")
    assert set(rows) >= {"TMC2007-500, BRR-xgb", "TMC2007-500 v1, BOPL-regr"}


def test_the_papers_own_numbers_pass_the_papers_claims():
    verdicts = {claim.text: claim.holds for claim in check_claims(paper_lines())}
    # Ties are judged by intervals; these lines have none to speak of, so that nothing is tied.
    untied = {text: holds for text, holds in verdicts.items() if "tied" not in text}
    assert untied
    assert all(untied.values()), untied


def test_a_network_that_is_tied_with_trees_is_not_ahead():
    lines = [each for each in paper_lines() if (each["method"], each["dataset"]) != ("banditnet", "fashion_mnist")]
    lines += [line("banditnet", "fashion_mnist", trial, 0.89 + 0.01 * (-1) ** trial) for trial in range(10)]
    claims = {claim.text: claim.holds for claim in check_claims(lines)}
    assert claims["DRR is ahead of all boosted methods on Fashion-MNIST"] is True
    assert claims["BanditNet is ahead of all boosted methods on Fashion-MNIST"] is False


def test_curves_that_the_papers_words_do_not_fit_fail_its_claims():
    curves = {"gradient_norm": [1.0, 2.0, 0.5], "training_reward": [0.5, 0.6, 0.7], "round_reward": [0.5, 0.6, 0.7]}
    falling = curves | {"gradient_norm": [3.0, 2.0, 1.0]}
    lines = [line("bopl-regr", "covertype", 0, 0.7, **curves), line("bopl-s-regr", "covertype", 0, 0.6, **curves)]
    lines.append(line("bopl-cs-regr", "covertype", 0, 0.7, **falling))
    assert [claim.holds for claim in check_claims(lines)[-4:]] == [False] * 4


def test_claims_without_results_are_left_open():
    claims = check_claims([line()])
    assert {claim.holds for claim in claims} == {None}
    assert all("cannot be judged yet" in str(claim) for claim in claims)


def test_a_single_trial_is_tied_with_nothing_and_judges_no_claim():
    lines = [
        each for each in paper_lines() if each["trial"] == 0 or (each["method"], each["dataset"]) != ("drr", "scene")
    ]
    lines = [each for each in lines if each["trial"] == 0 or each["method"] != "banditnet"]
    claims = {claim.text: claim for claim in check_claims(lines)}
    tied = claims["BanditNet is tied with BOPL on Scene"]
    assert tied.holds is None
    assert tied.evidence == "It needs at least 2 trials of BanditNet on Scene."
    assert claims["BOPL is above BRR on three of the four datasets"].holds is True
    table = table_1(lines)
    scene = table.heading.index("Scene")
    assert {table.rows[row][0] for row, at in table.bold if at == scene} == {"BOPL-S-class"}
    best = table_1([line("drr", reward=0.9), *(line("brr-gb", trial=trial, reward=0.1 * trial) for trial in range(3))])
    assert {best.rows[row][0] for row, at in best.bold if at == 1} == {"DRR"}


def test_claims_name_the_methods_that_are_missing():
    lines = [each for each in paper_lines() if (each["method"], each["dataset"]) != ("bopl-class", "covertype")]
    claims = {claim.text: claim for claim in check_claims(lines)}
    for text in (
        "BOPL is above BRR on three of the four datasets",
        "BOPL significantly outperforms all baselines on Covertype",
        "BOPL-S-regr is always the best BOPL variant or tied with it",
    ):
        assert claims[text].holds is None
        assert claims[text].evidence == "It needs at least 2 trials of BOPL-class on Covertype."
    assert claims["DRR is ahead of all boosted methods on Fashion-MNIST"].holds is True


def test_claims_about_tmc_take_the_version_that_has_results():
    lines = [each for each in paper_lines() if each["dataset"] != "tmc2007_500_v1"]
    claims = {claim.text: claim for claim in check_claims(lines)}
    assert all(claim.holds is not None for claim in claims.values())
    assert "TMC2007-500: BOPL" in claims["BOPL is above BRR on three of the four datasets"].evidence
    assert "TMC2007-500 v1: BOPL" in str(check_claims(paper_lines())[0])


def test_covertype_belongs_to_bopl_only_above_every_baseline():
    text = "BOPL significantly outperforms all baselines on Covertype"
    raised = [
        {**each, "test_reward": 0.99} if (each["method"], each["dataset"]) == ("banditnet", "covertype") else each
        for each in paper_lines()
    ]
    verdicts = [{claim.text: claim.holds for claim in check_claims(lines)}[text] for lines in (paper_lines(), raised)]
    assert verdicts == [True, False]


def test_claims_fail_when_the_numbers_say_so():
    lines = [
        {**each, "test_reward": each["test_reward"] - 0.3} if each["method"].startswith("bopl-s") else each
        for each in paper_lines()
    ]
    verdicts = {claim.text: claim.holds for claim in check_claims(lines)}
    assert verdicts["BOPL-S-regr is always the best BOPL variant or tied with it"] is False
    assert next(holds for text, holds in verdicts.items() if text.startswith("Reward translation")) is False


def test_rows_far_below_the_paper_are_named():
    assert shortfalls(paper_lines()) == []
    (sentence,) = shortfalls([line("drr", "scene", trial, 0.7) for trial in range(3)])
    assert sentence.startswith("DRR on Scene: 0.7000 ± 0.0000 over 3 trials, 0.0636 below the paper's 0.7636")


def test_figure_has_three_panels_with_one_curve_for_each_algorithm(tmp_path):
    figure = draw_figure(paper_lines())
    assert len(figure.axes) == 3
    assert all(len(axis.lines) == 3 for axis in figure.axes)
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["BOPL", "BOPL-S", "BOPL-CS"]
    assert all(path.stat().st_size > 1000 for path in write_figure(paper_lines(), tmp_path))
    with pytest.raises(ValueError, match="no lines of the figure's runs yet"):
        draw_figure([line()])


# -- The default -------------------------------------------------------------------------------------------------------


def trials(method, dataset, mean, spread=0.001, n_trials=3):
    """Lines of three trials around a mean; what is the trial's own is the same for all methods."""
    own = spread * np.linspace(-1.0, 1.0, n_trials)
    return [line(method, dataset, trial, mean + own[trial]) for trial in range(n_trials)]


def test_the_default_has_a_row_once_it_has_results():
    assert "bopl (default)" not in table_1(paper_lines()).to_markdown()
    table = table_1([*paper_lines(), *trials(DEFAULT, "covertype", 0.97)])
    assert table.rows[-1][:4] == ("bopl (default)", "0.9700 ± 0.0025", "–", "–")
    assert (9, 1) in table.bold  # best of our column, of which nothing else is tied
    assert {row for row, at in table.bold if at == 1} == {9}


def test_results_on_splits_and_of_noisy_rewards_are_no_columns_of_the_first_table():
    lines = [*paper_lines(), *trials("drr", SPLITS, 0.7), *trials("drr", "noisy_scene", 0.7, n_trials=2)]
    assert table_1(lines) == table_1(paper_lines())


def test_differences_on_the_same_trials_are_sharper_than_two_intervals():
    lines = [*trials(DEFAULT, SPLITS, 0.78, 0.05), *trials("drr", SPLITS, 0.77, 0.05), *trials("brr-gb", SPLITS, 0.5)]
    gap = paired_gap(collect_trials(lines), SPLITS, DEFAULT, "drr")
    assert (gap.mean, gap.half_width, gap.n_trials) == (pytest.approx(0.01), pytest.approx(0.0, abs=1e-12), 3)
    assert paired_gap(collect_trials(lines), SPLITS, DEFAULT, "banditnet") is None
    rows = {row[0]: row[1:] for row in splits_table(lines).rows}
    assert rows["DRR"] == ("0.7700 ± 0.1242", "-0.0100 ± 0.0000")
    assert rows["bopl (default)"] == ("0.7800 ± 0.1242", "")
    assert rows["BanditNet"] == ("–", "–")
    bold = {splits_table(lines).rows[row][0] for row, _ in splits_table(lines).bold}
    assert bold == {"DRR", "bopl (default)"}
    assert splits_table(paper_lines()) is None


@pytest.mark.parametrize(
    ("mean", "spread", "holds", "word"),
    [
        (0.80, 0.001, True, "best; next is DRR 0.7700 ± 0.0025; on the same trials +0.0300 ± 0.0000"),
        (0.769, 0.001, True, "tied with the best, DRR"),
        (0.75, 0.001, False, "below the best, DRR 0.7700 ± 0.0025; on the same trials -0.0200 ± 0.0000"),
    ],
)
def test_the_default_is_best_tied_or_below_by_the_intervals(mean, spread, holds, word):
    lines = [*trials(DEFAULT, "scene", mean, spread), *trials("drr", "scene", 0.77), *trials("brr-gb", "scene", 0.7)]
    (standing,) = against_best(lines, ["scene", "covertype"])
    assert standing.holds is holds
    assert str(standing).startswith("Scene: ")
    assert word in str(standing)


def test_a_single_trial_of_the_default_has_no_standing():
    assert against_best([line(DEFAULT), *trials("drr", "scene", 0.7)], ["scene"]) == []
    assert against_logging([line(DEFAULT, "noisy_scene"), line("logging-greedy", "noisy_scene")], NOISY) == []


@pytest.mark.parametrize(
    ("values", "holds", "word"),
    [
        ((0.71, 0.71, 0.71), True, "above"),
        ((0.68, 0.71, 0.70), True, "not below by more than noise"),
        ((0.69, 0.691, 0.69), False, "below by more than noise"),
    ],
)
def test_below_the_logging_policys_action_by_more_than_noise_is_a_whole_interval_below(values, holds, word):
    lines = [line(DEFAULT, "noisy_scene", trial, value) for trial, value in enumerate(values)]
    lines += [line("logging-greedy", "noisy_scene", trial, 0.7) for trial in range(3)]
    (standing,) = against_logging(lines, NOISY)
    assert standing.holds is holds
    assert str(standing).endswith(f", {word}.")


def test_noisy_table_has_all_methods_and_the_default_as_it_samples():
    lines = [each for method in NOISY_METHODS for each in trials(method, "noisy_digits", 0.7)]
    lines += [each | {"value_sampled": 0.65} for each in trials(DEFAULT, "noisy_digits", 0.9)]
    table = noisy_table(lines)
    assert table.heading == ("method", "Digits")
    assert len(table.rows) == len(NOISY_METHODS) + 1 == 12
    assert {table.rows[row][0] for row, _ in table.bold} == {"bopl (default)"}
    assert table.rows[-1] == ("bopl (default), as it samples", "0.6500 ± 0.0000")
    assert noisy_table(paper_lines()) is None


def test_pages_of_noisy_rewards_and_splits_are_written_where_there_are_lines(tmp_path):
    lines = [
        written(method, dataset, trial, 0.7 + 0.01 * trial + 0.1 * (method == DEFAULT))
        for method in (DEFAULT, "drr", "logging-greedy")
        for dataset in ("noisy_digits", SPLITS)
        for trial in range(3)
    ]
    append_lines(tmp_path, lines)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["noisy.jsonl", "scene_splits.jsonl"]
    result = CliRunner().invoke(cli.app, ["reproduce", "table", "--json", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.exception
    told = json.loads(result.output)["standings"]
    assert [(one["dataset"], one["holds"]) for one in told] == [
        (SPLITS, True), ("noisy_digits", True), ("noisy_digits", True),
    ]  # fmt: skip
    noisy, tables = ((tmp_path / name).read_text(encoding="utf8") for name in ("noisy.md", "tables.md"))
    assert "- Digits: 0.8100 ± 0.0248, best; next is Logging, most probable action 0.7100 ± 0.0248" in noisy
    assert "most probable action by more than noise: holds**" in noisy
    assert "**Average reward on Scene over 3 trials, trial t on split t, with 95% intervals over splits**" in tables
    assert "left out" not in CliRunner().invoke(cli.app, ["reproduce", "list", "--out", str(tmp_path)]).output


# -- Lines of other settings ------------------------------------------------------------------------------------------


def test_tables_and_claims_know_only_lines_of_todays_settings(tmp_path):
    older = read_config("scene", "bopl-regr").policy | {"n_rounds": 7}
    append_lines(
        tmp_path,
        [
            *(written("bopl-regr", trial=trial, reward=0.61) for trial in range(2)),
            *(written("bopl-regr", trial=trial, reward=0.22, settings=older) for trial in range(5)),
            *(written("bopl-regr", trial=trial, reward=0.33, n_samples=1000) for trial in range(5)),
        ],
    )
    table = CliRunner().invoke(cli.app, ["reproduce", "table", "--out", str(tmp_path)]).output
    assert "10 lines with other settings or sample sizes are left out." in table
    assert "0.6100 ± 0.0000" in table
    assert "0.2200" not in table
    assert "0.3300" not in table
    assert "scene: bopl-regr 2" in CliRunner().invoke(cli.app, ["reproduce", "list", "--out", str(tmp_path)]).output


def test_figure_is_drawn_from_lines_of_todays_settings_alone(tmp_path):
    curves = {"gradient_norm": [2.0], "training_reward": [0.5], "round_reward": [0.4]}
    small = figure_plan(quick=True)[0]
    append_lines(tmp_path, [written(small.method, "covertype", settings=small.settings, n_samples=1000, **curves)])
    table = CliRunner().invoke(cli.app, ["reproduce", "table", "--out", str(tmp_path)])
    assert isinstance(table.exception, ValueError)
    assert "there are no result lines" in str(table.exception)


def test_quick_tables_say_so_and_are_not_held_to_the_paper(tmp_path):
    tasks = [task for task in quick_plan(list(DATASETS), list(PAPER_METHODS)) if task.dataset in ("scene", "covertype")]
    append_lines(
        tmp_path,
        [
            written(task.method, task.dataset, trial, 0.2, task.settings, task.n_samples)
            for task in tasks
            for trial in task.trials
        ],
    )
    table = CliRunner().invoke(cli.app, ["reproduce", "table", "--quick", "--out", str(tmp_path)]).output
    assert table.count("**Quick run, small samples") == 2
    assert "below the paper" not in table
    assert "left out" not in table
    assert r"\caption{Quick run" in (tmp_path / "tables.tex").read_text()
