"""Code versions: what counts as a change of code, and whose."""

from privmix import provenance


def test_a_stage_depends_on_what_it_imports_and_on_nothing_else():
    fit = provenance.closure("privmix.stages.fit", "privmix.mechanisms.dp_em")
    assert {
        "privmix.privacy.noise",
        "privmix.mixture.kernel",
        "privmix.mechanisms.dp_em",
        "privmix.artefacts",
    } <= fit
    assert not [
        name for name in fit if name.startswith(("privmix.report", "privmix.catalog", "privmix.clean"))
    ]
    assert "privmix.mechanisms.laplace_input" not in fit
    clean = provenance.closure("privmix.stages.clean")
    assert not [name for name in clean if name.startswith(("privmix.privacy", "privmix.mechanisms"))]
    assert {"privmix.catalog.readers.snap_checkins", "privmix.clean.split"} <= clean


def test_a_version_is_the_same_for_the_same_code_and_differs_between_modules():
    first = provenance.code_version("privmix.stages.fit")
    assert first == provenance.code_version("privmix.stages.fit")
    assert first != provenance.code_version("privmix.stages.clean")
    assert provenance.code_version("privmix.stages.fit", "privmix.mechanisms.dp_em") != first


def test_provenance_names_versions_and_machine():
    here = provenance.here()
    assert dict(here.packages)["privmix"]
    assert here.cores >= 1
