"""Numbers of the page, recomputed from `results.csv` with independent code."""

import html
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from privmix.artefacts.clean import read_clean
from privmix.report.templating import embed

CELL = re.compile(r'<tr[^>]*data-row="\d+"[^>]*>.*?</tr>', re.DOTALL)


@pytest.fixture(scope="module")
def results(rendered) -> pd.DataFrame:
    return pd.read_csv(rendered.root / "reports/results.csv")


@pytest.fixture(scope="module")
def data(rendered) -> dict:
    return json.loads(re.search(r'id="page-data">(.*?)</script>', rendered.html, re.DOTALL).group(1))


def values(results: pd.DataFrame, dataset: str, mechanism: str, epsilon: float, metric: str) -> np.ndarray:
    rows = results.query("dataset == @dataset and mechanism == @mechanism and metric == @metric")
    return rows.loc[rows["epsilon"] == epsilon, "value"].to_numpy()


def test_every_marker_is_at_the_mean_of_the_results(results, data):
    checked = 0
    for chart in data["charts"]:
        for line in chart["lines"]:
            for point in line["points"]:
                sample = values(results, chart["dataset"], line["mechanism"], point["epsilon"], "holdout_gap")
                low, high = stats.t.interval(0.95, len(sample) - 1, sample.mean(), stats.sem(sample))
                assert [point["mean"], point["low"], point["high"]] == pytest.approx(
                    [sample.mean(), low, high]
                )
                facts = dict(point["facts"])
                assert facts["from"] == f"{len(sample)}\u00a0replicates"
                assert float(facts["mean gap"].removesuffix(" nats").replace("−", "-")) == pytest.approx(
                    sample.mean(), rel=0.06
                )
                checked += 1
    assert checked == 2 * 5 * 3 - 3, (
        "two datasets, five mechanisms, three ε; one mechanism cannot work on one"
    )


def shown(text: str) -> float:
    """Parse a number of the page; "<0.01" counts as its bound."""
    return float(html.unescape(text).replace("−", "-").replace("\u00a0", "").strip("<>%s"))


def test_cells_of_the_results_tables_agree_with_results_csv(results, rendered):
    checked = 0
    for dataset in ("checkins", "survey"):
        start = rendered.html.index(f'<div class="card results" data-dataset="{dataset}"')
        for row in CELL.findall(rendered.html[start : rendered.html.index("</table>", start)]):
            cells = [re.sub("<[^>]*>", "", cell) for cell in re.findall("<t[hd].*?</t[hd]>", row)]
            if len(cells) < 7:
                continue
            key = (dataset, cells[0], math.inf if cells[2] == "none" else float(cells[2]))
            gaps = values(results, *key, "holdout_gap")
            half = stats.t.ppf(0.975, len(gaps) - 1) * stats.sem(gaps)
            mean, width = cells[4].split(" ±")
            assert shown(mean) == pytest.approx(gaps.mean(), abs=0.06 * abs(gaps.mean()) + 5e-4)
            assert shown(width) == pytest.approx(half, abs=0.06 * half + 1e-3)
            share = 100 * max(knowledge(results, rendered.root, *key), 0.0)
            assert shown(cells[3]) == pytest.approx(share, abs=0.51)
            auc = values(results, *key, "mia_loss_auc").mean()
            assert shown(cells[5].split(" ±")[0]) == pytest.approx(auc, abs=6e-4)
            assert shown(cells[6]) == pytest.approx(values(results, *key, "seconds_fit").mean(), abs=6e-3)
            checked += 5
    assert checked > 10 * 5


def test_rows_of_the_results_tables_are_best_first_within_an_epsilon(rendered):
    for dataset in ("checkins", "survey"):
        start = rendered.html.index(f'<div class="card results" data-dataset="{dataset}"')
        order = []
        for row in CELL.findall(rendered.html[start : rendered.html.index("</table>", start)]):
            found = [float(value) for value in re.findall(r'<td[^>]*data-value="([^"]*)"', row)[:3]]
            epsilon, gap = found[0], -found[2] if len(found) > 1 else math.inf
            order.append((math.isfinite(epsilon), epsilon, gap))
        assert len(order) == 16
        assert order == sorted(order)


def test_the_answer_agrees_with_results_csv(results, rendered):
    found = re.findall(
        r"At ε = 1, (\w+) keeps ([\d.]+)\u00a0% of the utility \(gap: (\S+) nats per record\). It is the best of",
        rendered.html,
    )
    assert len(found) == 4
    for (mechanism, kept, gap), dataset in zip(
        found, ("checkins", "checkins", "survey", "survey"), strict=True
    ):
        mean = values(results, dataset, mechanism, 1.0, "holdout_gap").mean()
        assert shown(gap) == pytest.approx(mean, abs=6e-3)
        share = knowledge(results, rendered.root, dataset, mechanism)
        assert float(kept) == pytest.approx(100 * min(max(share, 0.0), 1.0), abs=0.51)


def knowledge(results: pd.DataFrame, root, dataset: str, mechanism: str, epsilon: float = 1.0) -> float:
    """Compute the share of the non-private model's held-out gain over the uniform box."""
    domain = read_clean(root / f"data/clean/{dataset}.parquet").info.domain
    box = -np.log(np.asarray(domain.upper) - np.asarray(domain.lower)).sum()
    bare = results.query("dataset == @dataset and mechanism == 'non_private'")
    best = bare.loc[bare[bare["metric"] == "train_loglik"]["value"].idxmax(), "replicate"]
    [baseline] = bare[(bare["metric"] == "holdout_loglik") & (bare["replicate"] == best)]["value"]
    return (values(results, dataset, mechanism, epsilon, "holdout_loglik").mean() - box) / (baseline - box)


def test_the_overview_and_the_tiles_agree_with_results_csv(results, rendered):
    start = rendered.html.index('class="card overview"')
    rows = re.findall(
        r"<tr>.*?</tr>", rendered.html[start : rendered.html.index("</table>", start)], re.DOTALL
    )
    assert len(rows) == 1 + 2, "a head and two datasets"
    proven = re.findall(r"<dt>lower bound on ε[^<]*</dt><dd>ε\u00a0≥\u00a0([\d.]+)</dd>", rendered.html)
    for row, dataset in zip(rows[1:], ("checkins", "survey"), strict=True):
        cells = re.findall(r"<b>([\d.]+)\u00a0%</b> <a class=\"nowrap\" href=[^>]*>(.*?)</a>", row)
        assert len(cells) == 2, "two trust models"
        for kept, mechanism in cells:
            share = knowledge(results, rendered.root, dataset, mechanism)
            assert float(kept) == pytest.approx(100 * min(max(share, 0.0), 1.0), abs=0.51)
            [lower] = values(results, dataset, mechanism, 1.0, "audit_epsilon_lower")
            assert float(proven.pop(0)) == pytest.approx(lower, rel=0.01)


def test_text_inside_the_data_cannot_end_the_script():
    text = embed({"title": "</script><script>alert(1)"})
    assert "<" not in text
    assert json.loads(text) == {"title": "</script><script>alert(1)"}


def test_a_non_finite_number_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        embed({"gap": math.nan})
