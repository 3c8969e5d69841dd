"""Write `fairlearn_rates.json`: 20 random sets of predictions with rates and criteria as Fairlearn computes them.

    python tests/evaluate/make_fairlearn_rates.py

Fairlearn is no dependency of Privmix, so this script makes an environment of its own in a temporary folder. Sufficiency
has no function of its own in Fairlearn: it is a `MetricFrame` of scikit-learn's precision, for both values.
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

FAIRLEARN = ("fairlearn==0.13.0",)
TARGET = Path(__file__).with_name("fairlearn_rates.json")


def make_cases() -> list[dict]:
    """Draw truths, predictions and groups, and let Fairlearn measure them; every second case has weights."""
    import numpy as np
    from fairlearn import metrics
    from sklearn.metrics import precision_score

    def npv(truth, predicted, sample_weight=None):
        return precision_score(truth, predicted, pos_label=0, sample_weight=sample_weight)

    def ppv(truth, predicted, sample_weight=None):
        return precision_score(truth, predicted, sample_weight=sample_weight)

    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows, number = int(rng.integers(200, 500)), int(rng.integers(2, 6))
        groups = rng.permutation(np.concatenate([np.arange(number), rng.integers(0, number, rows - number)]))
        truth = (rng.random(rows) < rng.uniform(0.2, 0.8, number)[groups]).astype(int)
        predicted = np.where(rng.random(rows) < 0.7, truth, rng.random(rows) < 0.5).astype(int)
        weights = rng.integers(1, 5, rows) / 4 if seed % 2 else np.ones(rows)
        shared = {"sensitive_features": groups, "sample_weight": weights}
        named = {
            "selection_rate": metrics.selection_rate,
            "tpr": metrics.true_positive_rate,
            "fpr": metrics.false_positive_rate,
            "ppv": ppv,
            "npv": npv,
        }
        frame = metrics.MetricFrame(
            metrics=named,
            y_true=truth,
            y_pred=predicted,
            sensitive_features=groups,
            sample_params={name: {"sample_weight": weights} for name in named},
        )
        rates = frame.by_group.sort_index()
        found.append(
            {
                "groups": groups.tolist(),
                "truth": truth.tolist(),
                "predicted": predicted.tolist(),
                "weights": weights.tolist(),
                "rates": {name: rates[name].tolist() for name in rates},
                "criteria": {
                    "statistical_parity_difference": metrics.demographic_parity_difference(
                        truth, predicted, **shared
                    ),
                    "statistical_parity_ratio": metrics.demographic_parity_ratio(truth, predicted, **shared),
                    "equalized_odds_difference": metrics.equalized_odds_difference(
                        truth, predicted, **shared
                    ),
                    "ppv_difference": float(frame.difference()["ppv"]),
                    "npv_difference": float(frame.difference()["npv"]),
                },
            }
        )
    return found


def main() -> None:
    """Run this file again inside the new environment."""
    if sys.argv[1:] == ["--inside"]:
        TARGET.write_text("[\n" + ",\n".join(map(json.dumps, make_cases())) + "\n]\n", encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", *FAIRLEARN], check=True)
        subprocess.run([python, __file__, "--inside"], check=True, env={})


if __name__ == "__main__":
    main()
