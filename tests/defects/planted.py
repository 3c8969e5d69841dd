"""Eleven mistakes that implementations of private learning make, as edits of `noisy_moments` and the code that it uses.

Each is a small change of the sources that breaks the claimed ε and that no output shows. None is in the product. The
measurements of `noisy_moments` depend on one record as much as its noise allows, so the size of a defect is the size of
the violation.
"""

from changes.change import Change, Edit
from changes.places import JOINT, NOISE, NOISY_MOMENTS, RELATION, STREAMS

METHOD = "noisy_moments"
GAUSSIAN = "self.generator.normal(0.0, sigma, np.shape(values))"
FROM_THE_SEED_AGAIN = "np.random.Generator(np.random.PCG64(self.generator.bit_generator.seed_seq))"
START = "                start,\n                iterations=iterations,"
ON_THE_DATA = START.replace(
    "start,",
    "start if ledger.events else fitted(start),",
)
RUN = "        def run(start: AnyModel,"
FITTED = """        def fitted(start: AnyModel) -> AnyModel:
            alone = start.gaussians if isinstance(start, MixedMixture) else start
            found = em.fit(observations, alone.n_components, floor=spec.floor, rng=rng.search).mixture
            return MixedMixture(found, start.shares) if isinstance(start, MixedMixture) else found

"""
OBSERVED = "points, absent = spec.inside(view.points), spec.absent(view)"
STRETCHED = """low, high = view.points.min(axis=0), view.points.max(axis=0)
        width = spec.domain.upper - spec.domain.lower
        points, absent = spec.domain.lower + (view.points - low) / (high - low) * width, spec.absent(view)"""
SHARES = 'equal_shares(0, plan.releases, for_moments, "exact")'
SPENT = 'spent = claim(ledger.events, budget, "exact")'
# Without attributes in the clustering, and with them
PASSES = (
    "completed_pass(observations, mixture, shape.radius)",
    "completed_pass(observations, mixture.gaussians, shape.radius, offsets)",
)
UNPACKED = "return _unpack(noisy, plain, shape, noise_multiplier * reach)"
COUNTED = f"noisy[: len(plain.weights)] = values[: len(plain.weights)]\n    {UNPACKED}"


def _defect(name: str, *edits: tuple[str, str, str]) -> Change:
    return Change(name, (), tuple(Edit(*edit) for edit in edits))


def _forgetting(name: str, counted: str) -> Change:
    """Return a defect that scales noise for some of the measurements only, and claims the cost of those."""
    return _defect(
        name,
        (NOISY_MOMENTS, SHARES, SHARES.replace("plan.releases", counted)),
        (NOISY_MOMENTS, SPENT, SPENT.replace("ledger.events", f"ledger.events[:{counted}]")),
    )


DEFECTS = [
    _defect("noise halved", (NOISE, GAUSSIAN, f"0.5 * {GAUSSIAN}")),
    _defect(
        "sensitivity halved",
        (RELATION, "return self.records * factor * norm", "return self.records * factor * norm / 2"),
    ),
    _defect(
        "starting point fitted to the data",
        (NOISY_MOMENTS, START, ON_THE_DATA),
        (NOISY_MOMENTS, RUN, FITTED + RUN),
    ),
    _defect("bounds taken from the data", (NOISY_MOMENTS, OBSERVED, STRETCHED)),
    _forgetting("iterations missing from the claim", "1"),
    _forgetting("budget split wrongly", "max(plan.releases // 2, 1)"),
    _defect(
        "the same noise in each iteration",
        (NOISE, GAUSSIAN, GAUSSIAN.replace("self.generator", FROM_THE_SEED_AGAIN)),
    ),
    _defect("no clipping", *((JOINT, each, each.replace("shape.radius", "1e6")) for each in PASSES)),
    _defect(
        "clipping to a box instead of a ball",
        *(
            (JOINT, each, each.replace("shape.radius", f"shape.radius * math.sqrt({name}.dimensions)"))
            for each, name in zip(PASSES, ("mixture", "mixture.gaussians"), strict=True)
        ),
    ),
    _defect("one seed for everything", (STREAMS, "[master_seed, *words.tolist()]", "[0]")),
    _defect("counts without noise", (JOINT, UNPACKED, COUNTED)),
]
