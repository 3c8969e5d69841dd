"""Defects in local mechanisms: the content of each report, the choice of records, the order of reports."""

from changes.change import change
from changes.places import (
    ATTRIBUTES,
    COLLECTION,
    LOCAL,
    OF_ATTRIBUTES,
    OF_COLLECTION,
    OF_LOCAL,
    OF_PEOPLE,
    OF_PLANAR,
    OF_RESPONSE,
    OF_STREAMS,
    PICKS,
    PLANAR,
    RESPONSE,
    SPOOL,
)

CHANGES = (
    # Shared code.
    change(
        "a local file claims add-or-remove",
        OF_STREAMS,
        (LOCAL, 'Neighbours(spec.domain.unit, "replace_one"', 'Neighbours(spec.domain.unit, "add_remove"'),
    ),
    change(
        "attributes not taken off the budget of the place",
        OF_LOCAL + "::test_answers_of_one_record_add_up_to_the_budget",
        (LOCAL, "Budget(epsilon * (1 - share), delta)", "Budget(epsilon, delta)"),
    ),
    change(
        "each attribute gets what all have together",
        OF_LOCAL + "::test_claim_is_the_budget",
        (LOCAL, "epsilon * share / asked", "epsilon * share"),
    ),
    change(
        "budget of a person not divided",
        OF_PEOPLE,
        (
            LOCAL,
            "epsilon, delta = budget.epsilon / each, budget.delta / each",
            "epsilon, delta = budget.epsilon, budget.delta",
        ),
    ),
    change(
        "more rows of a person picked than paid for",
        OF_PEOPLE + "::test_the_reports_of_a_person_cost_the_budget_together",
        (LOCAL, "plan.per_person, source=rng.noise)", "plan.per_person + 1, source=rng.noise)"),
    ),
    change(
        "one report of a person in the ledger",
        OF_PEOPLE + "::test_the_reports_of_a_person_cost_the_budget_together",
        (LOCAL, "ledger.events * plan.per_person", "ledger.events"),
    ),
    change(
        "everybody reports all records",
        OF_PEOPLE,
        (
            LOCAL,
            "            parts = sample_records(parts, plan.per_person, source=rng.noise)\n",
            "            pass\n",
        ),
    ),
    change(
        "attributes answered at another epsilon",
        OF_ATTRIBUTES + "::test_answers_have_the_law_of_that_epsilon_and_of_no_other",
        (
            ATTRIBUTES,
            "GeneralizedResponse(len(attribute.values), epsilon)",
            "GeneralizedResponse(len(attribute.values), 2 * epsilon)",
        ),
    ),
    change(
        "an answer that is the truth",
        OF_ATTRIBUTES,
        (
            ATTRIBUTES,
            "codes[attribute.name], source=source, ledger=ledger, label=PREFIX + attribute.name\n        )",
            "codes[attribute.name], source=source, ledger=ledger, label=PREFIX + attribute.name\n        )"
            " * 0 + codes[attribute.name].astype(np.uint8)",
        ),
    ),
    change(
        "several reports of a person counted as people",
        OF_ATTRIBUTES + "::test_several_reports_of_a_person_keep_the_estimate_and_count_as_one",
        (
            ATTRIBUTES,
            "channel.support(answers) / per_person, len(answers) / per_person",
            "channel.support(answers), len(answers)",
        ),
    ),
    change(
        "one lie for all attributes",
        OF_LOCAL + "::test_the_answers_of_one_record_are_independent",
        (
            ATTRIBUTES,
            "codes[attribute.name], source=source,",
            "codes[attribute.name], source=type(source)(np.random.default_rng(1)),",
        ),
    ),
    # The choice of records, and the order of reports.
    change(
        "a person's picks from the last part of the records alone",
        OF_PEOPLE + "::test_picks_do_not_depend_on_the_parts_of_the_records",
        (PICKS, "        held.append((records,", "        held[:] = []\n        held.append((records,"),
    ),
    change(
        "records let go that may be picked",
        OF_PEOPLE + "::test_picks_do_not_depend_on_the_parts_of_the_records",
        (
            PICKS,
            "kept[shuffle.pick_rows(records.owners, keys, each)]",
            "kept[shuffle.pick_rows(records.owners, keys, 1)]",
        ),
    ),
    change(
        "keys drawn anew for records that were kept",
        OF_PEOPLE + "::test_picks_do_not_depend_on_the_parts_of_the_records",
        (PICKS, "keys[kept])]", "shuffle.random_keys(np.count_nonzero(kept), source=source))]"),
    ),
    change(
        "buckets of reports read in order",
        OF_COLLECTION,
        (SPOOL, "rows = rows[shuffle.random_order(len(rows), source=self._source)]", "rows = rows[:]"),
    ),
    change(
        "adaptive response: rounds of one part of the records after another",
        OF_COLLECTION + "::test_a_mechanism_with_rounds_asks_every_record_once_for_any_parts",
        (
            COLLECTION,
            "mechanism.reports(filter(len, parts), spec, budget, rng, shuffler.folder)",
            "(mechanism.privatise(each, spec, budget, rng) for each in filter(len, parts))",
        ),
    ),
    change(
        "people's places wait in a file with a name",
        "tests/mechanisms/test_mechanism_report_shuffle.py::test_a_killed_process_leaves_nothing",
        (
            "mechanisms/shared/report_shuffle.py",
            "tempfile.SpooledTemporaryFile(max_size=most, dir=place)",
            "tempfile.NamedTemporaryFile(dir=place)",
        ),
    ),
    # Randomized response.
    change(
        "response at twice the budget",
        OF_RESPONSE + "::test_a_report_has_the_law_of_its_oracle_and_of_no_other_budget",
        (RESPONSE, "epsilon = plan.budget.epsilon", "epsilon = 2 * plan.budget.epsilon"),
    ),
    change(
        "grid of the response from the number of points",
        OF_RESPONSE + "::test_the_questions_do_not_depend_on_the_records",
        (
            RESPONSE,
            '        """Return one report for each record."""',
            "        plan = replace(plan, reports=len(points) ** 2)",
        ),
    ),
    change(
        "reports read with another oracle than they were made with",
        OF_RESPONSE,
        (RESPONSE, "support = oracle.support(", "support = small_for(grid.cells, 9.0).support("),
    ),
    change(
        "counts of the response left biased",
        OF_RESPONSE + "::test_counts_are_unbiased_with_the_stated_deviation",
        (RESPONSE, "n * oracle.estimate(support, n)", "support * 1.0"),
    ),
    # Planar Laplace noise.
    change(
        "planar distance in the units of longitude",
        OF_PLANAR,
        (
            PLANAR,
            "latitude, longitude = map_axes(domain)\n        farthest",
            "longitude, latitude = map_axes(domain)\n        farthest",
        ),
    ),
    change(
        "planar distance of the middle latitude",
        OF_PLANAR + "::test_two_places_within_the_distance_lose_at_most_epsilon",
        (PLANAR, "latitude.scale * stretch", "latitude.scale"),
    ),
)
