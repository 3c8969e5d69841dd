"""The report refuses files of another job. A report of an incomplete run leaves them out."""

import contextlib
import shutil

import made_up_run
import pytest
from made_up_run import HOMES, MadeUpData

from privmix.errors import UserError
from privmix.pipeline.results import read_run
from privmix.report.run import NOT_MADE

SWAPS = {
    "a model of another mechanism": (
        "data/models/homes/laplace_aware/eps-1.json",
        "data/models/homes/dp_em_exact/eps-1.json",
        "laplace_aware on homes",
        "dp_em_exact on homes",
    ),
    "scores of another epsilon": (
        "data/scores/homes/dp_em_exact/eps-10.parquet",
        "data/scores/homes/dp_em_exact/eps-1.parquet",
        "at ε = 10",
        "at ε = 1",
    ),
    "scores of another dataset": (
        "data/scores/farms/dp_em_exact/eps-1.parquet",
        "data/scores/homes/dp_em_exact/eps-1.parquet",
        "dp_em_exact on farms",
        "dp_em_exact on homes",
    ),
    "an audit of another epsilon": (
        "data/audits/dp_em_exact/eps-10.json",
        "data/audits/dp_em_exact/eps-1.json",
        "at ε = 10",
        "at ε = 1",
    ),
    "records of another dataset": (
        "data/clean/farms.parquet",
        "data/clean/homes.parquet",
        "the records of farms",
        "those of homes",
    ),
}


@pytest.fixture
def run(tmp_path):
    """The folder and the configuration of a run of two datasets."""
    return tmp_path, made_up_run.write_run(
        tmp_path, datasets=(HOMES, MadeUpData("farms")), epsilons=(1.0, 10.0)
    )


@pytest.mark.parametrize("swap", SWAPS)
def test_a_file_of_another_job_is_refused(run, swap):
    root, configuration = run
    source, target, found, wanted = SWAPS[swap]
    shutil.copy(root / source, root / target)
    with pytest.raises(UserError) as refusal:
        made_up_run.load(root, configuration)
    before, after = str(refusal.value).split(", not ")
    assert before.startswith(target)
    assert found in before
    assert wanted in after


@pytest.mark.parametrize("damaged", [False, True])
def test_an_incomplete_report_leaves_out_files_that_do_not_belong(run, damaged, capsys):
    root, configuration = run
    paths = [
        root / f"data/{kind}/homes/dp_em_exact/eps-1.{end}"
        for kind, end in (("models", "json"), ("scores", "parquet"))
    ]
    for path in (*paths, root / "data/clean/farms.parquet"):
        other = path.with_name(path.name.replace("eps-1.", "eps-10.").replace("farms", "homes"))
        path.write_bytes(path.read_bytes()[:-1] if damaged else other.read_bytes())
    with contextlib.chdir(root):
        found = read_run(configuration, incomplete=True)
    failures = {outcome.key: outcome.failure for outcome in found.outcomes}
    assert failures["homes", "dp_em_exact", 1.0] == NOT_MADE
    assert failures["homes", "dp_em_exact", 10.0] is None
    assert set(found.materials) == {"homes"}
    assert capsys.readouterr().err.count("delete it and run the pipeline again") == 3
