"""The verdict of a replay, which models, private files and audits carry."""

from pydantic import Field

from privmix.artefacts.part import Part


class Verdict(Part):
    """What replaying the runs of a mechanism has shown. It fails if there is any finding."""

    runs: int
    releases: int  # all that were looked at
    # The largest share of the claimed ε that any pair of worlds was seen to use, exactly computed; not of a release.
    used: float | None
    # A sentence each: what does not hold, where, and what is meant to hold.
    findings: list[str] = Field(default_factory=list)
    # The first numbers of the noise over its scale; none of a release.
    noise: list[float] = Field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.findings
