"""Code versions: what counts as a change of code, and whose."""

import pytest

from privmix import provenance


def test_a_stage_depends_on_what_it_imports_and_on_nothing_else():
    fit = provenance.closure("privmix.stages.fit", "privmix.mechanisms.dp_em")
    assert {
        "privmix.privacy.noise",
        "privmix.mixture.kernel",
        "privmix.mechanisms.dp_em",
        "privmix.artefacts.model",
    } <= fit
    assert not [
        name for name in fit if name.startswith(("privmix.report", "privmix.catalog", "privmix.clean"))
    ]
    assert "privmix.mechanisms.laplace_input" not in fit
    clean = provenance.closure("privmix.stages.clean")
    assert not [name for name in clean if name.startswith(("privmix.privacy", "privmix.mechanisms"))]
    assert {"privmix.catalog.readers.snap_checkins", "privmix.clean.split"} <= clean


@pytest.mark.parametrize(
    ("stage", "file", "reads"),
    [
        ("clean", "clean", True),
        ("clean", "private", False),
        ("clean", "model", False),
        ("clean", "audit", False),
        ("privatise", "model", False),
        ("audit", "model", False),
        ("fit", "audit", False),
        ("fit", "scores", False),
        ("evaluate", "audit", False),
        ("report", "audit", True),
    ],
)
def test_a_stage_depends_on_the_files_that_it_reads_or_writes(stage, file, reads):
    """Who adds a field to the audit file cleans nothing anew."""
    assert (f"privmix.artefacts.{file}" in provenance.closure(f"privmix.stages.{stage}")) == reads


def test_a_version_is_the_same_for_the_same_code_and_differs_between_modules():
    first = provenance.code_version("privmix.stages.fit")
    assert first == provenance.code_version("privmix.stages.fit")
    assert first != provenance.code_version("privmix.stages.clean")
    assert provenance.code_version("privmix.stages.fit", "privmix.mechanisms.dp_em") != first


def test_provenance_names_versions_and_machine():
    here = provenance.here()
    assert dict(here.packages)["privmix"]
    assert here.cores >= 1
