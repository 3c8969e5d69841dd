"""Defects in releases without a guarantee, and in attacks on them, that would make an attack look weak or strong."""

from changes.change import change

NAIVE, ATTACKS = "naive", "attacks"
OF_NAIVE, OF_ATTACKS = "tests/naive", "tests/attacks"

CHANGES = (
    change(
        "k-anonymity: the ordered distance forgets the number of values",
        f"{OF_NAIVE}/test_naive_k_anonymity.py",
        (f"{NAIVE}/k_anonymity.py", "max(len(whole) - 1, 1) if ordered", "len(whole) if ordered"),
    ),
    change(
        "k-anonymity: Mondrian allows parts of k - 1 rows",
        f"{OF_NAIVE}/test_naive_k_anonymity.py",
        (f"{NAIVE}/k_anonymity.py", "if len(rows) < self.k:", "if len(rows) < self.k - 1:"),
        (f"{NAIVE}/k_anonymity.py", "if len(part) < 2 * test.k:", "if len(part) < 2 * test.k - 2:"),
    ),
    change(
        "records: bins follow the data",
        f"{OF_NAIVE}/test_naive_releases.py",
        (
            f"{NAIVE}/records.py",
            "    edges = bin_edges(column, bins)\n",
            "    edges = np.linspace(np.nanmin(values), np.nanmax(values), bins + 1)\n",
        ),
    ),
    change(
        "statistics: zero counts are not left out",
        f"{OF_NAIVE}/test_naive_releases.py",
        (f"{NAIVE}/statistics.py", '(table["count"] >= self.below)', '(table["count"] != 1)'),
    ),
    change(
        "statistics: the noise has half its scale",
        f"{OF_NAIVE}/test_naive_releases.py",
        (f"{NAIVE}/statistics.py", "rng.laplace(0, self.scale,", "rng.laplace(0, self.scale / 2,"),
    ),
    change(
        "linkage: a single candidate who is somebody else counts",
        f"{OF_ATTACKS}/test_attacks_linkage.py",
        (f"{ATTACKS}/linkage.py", "~mixed[mine] & (first[mine] == persons)", "~mixed[mine]"),
    ),
    change(
        "linkage: the tolerance excludes its end",
        f"{OF_ATTACKS}/test_attacks_linkage.py",
        (f"{ATTACKS}/linkage.py", "<= self._tolerance)", "< self._tolerance)"),
    ),
    change(
        "homogeneity: no base rate",
        f"{OF_ATTACKS}/test_attacks_homogeneity.py",
        (f"{ATTACKS}/homogeneity.py", "alone, alone & common)", "alone, alone & False)"),
    ),
    change(
        "intersection: only the last table counts",
        f"{OF_ATTACKS}/test_attacks_homogeneity.py",
        (f"{ATTACKS}/homogeneity.py", "        possible &= classes", "        possible = classes"),
    ),
    change(
        "differencing: n instead of n + 1",
        f"{OF_ATTACKS}/test_attacks_differencing.py",
        (f"{ATTACKS}/differencing.py", "(people + 1) * after", "people * after"),
    ),
    change(
        "reconstruction: table counts of one column are ignored",
        f"{OF_ATTACKS}/test_attacks_reconstruction.py",
        (
            f"{ATTACKS}/reconstruction.py",
            "    for pattern in np.unique(given, axis=0):",
            "    for pattern in np.unique(given, axis=0)[-1:]:",
        ),
    ),
    change(
        "seven-person block: medians are ignored",
        f"{OF_ATTACKS}/test_attacks_reconstruction.py",
        (f"{ATTACKS}/seven_person_block.py", "and median(ages) == self.median", "and median(ages) > 0"),
    ),
    change(
        "aggregate: Homer's statistic has the wrong sign",
        f"{OF_ATTACKS}/test_attacks_aggregate.py",
        (f"{ATTACKS}/aggregate.py", "away = reference - shares", "away = shares - reference"),
    ),
    change(
        "finding: the gain ignores that people are the same",
        f"{OF_ATTACKS}/test_attacks_finding.py",
        (f"{ATTACKS}/finding.py", "- 2 * correlation * own * theirs", "+ 0 * correlation"),
    ),
)
