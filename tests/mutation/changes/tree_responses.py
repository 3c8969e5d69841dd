"""Defects in the local mechanisms that ask for a part of a public tree, in one round or several."""

from changes.change import change
from changes.places import (
    ADAPTIVE,
    OF_ADAPTIVE,
    OF_RELEASED_REPORTS,
    OF_TREE_RESPONSE,
    SHARE_TREE,
    SURVEY,
    TREE_RESPONSE,
)

TRUE_SHARES = (
    ADAPTIVE,
    "                said.append(estimate_shares(asked[turn], reports, plan))",
    "                said.append(estimate_shares(asked[turn], reports, plan))\n"
    "                own = np.concatenate([asked[turn].locate(each['code']) for each in waiting[turn].parts(PART)])\n"
    "                exact = np.bincount(own, minlength=len(asked[turn])) / max(len(own), 1)\n"
    "                said[-1] = replace(said[-1], estimates=exact)",
)

CHANGES = (
    # One round.
    change(
        "survey: a level drawn for each answer costs its own ε, and is asked with twice that",
        OF_TREE_RESPONSE + "::test_reports_have_the_probabilities_of_the_table",
        (
            TREE_RESPONSE,
            "survey_oracle(1 << depth, plan.budget.epsilon)",
            "survey_oracle(1 << depth, 2 * plan.budget.epsilon)",
        ),
        (SURVEY, "oracle.epsilon > self._epsilon", "oracle.epsilon > 2 * self._epsilon"),
    ),
    change(
        "tree response: depths from the number of records in the batch",
        OF_TREE_RESPONSE + "::test_the_questions_depend_only_on_public_values",
        (
            TREE_RESPONSE,
            "        halving, depths, oracles = self.questions(spec, plan)\n        survey",
            "        plan = replace(plan, reports=len(points))\n"
            "        halving, depths, oracles = self.questions(spec, plan)\n        survey",
        ),
    ),
    change(
        "survey: the turn from the record",
        OF_TREE_RESPONSE + "::test_reports_have_the_probabilities_of_the_table",
        (
            TREE_RESPONSE,
            "        rows = np.empty(len(points)",
            "        turns = codes % 2\n        survey._waiting = np.bincount(turns, minlength=len(depths))\n"
            "        rows = np.empty(len(points)",
        ),
    ),
    change(
        "tree response: a deeper level answers the truth half of the time",
        OF_TREE_RESPONSE + "::test_every_level_tells_the_truth_as_often_as_stated",
        (
            TREE_RESPONSE,
            "            rows[own] = pack_reports(",
            "            if level + 1 == len(depths) and reports.dtype.names:\n"
            "                own_codes = codes[own] >> (halving.depth - depth)\n"
            "                true = oracle.hash_codes(reports['a'], reports['b'], own_codes)\n"
            "                half = source.uniform((len(reports),)) < 0.5\n"
            "                reports['answer'] = np.where(half, true, reports['answer'])\n"
            "            rows[own] = pack_reports(",
        ),
    ),
    change(
        "tree response: a column of the records",
        OF_TREE_RESPONSE + "::test_every_level_tells_the_truth_as_often_as_stated",
        (
            TREE_RESPONSE,
            'CoordinateReports({"part": rows}',
            'CoordinateReports({"part": rows, "code": codes}',
        ),
    ),
    change(
        "tree response: the record in the hash of those who do not hash",
        OF_TREE_RESPONSE + "::test_every_level_tells_the_truth_as_often_as_stated",
        (
            TREE_RESPONSE,
            '        return CoordinateReports({"part": rows})',
            "        if isinstance(oracles[0], GeneralizedResponse) and 'b' in rows.dtype.names:\n"
            "            rows['b'] = np.where(rows['turn'] == 0, codes >> (halving.depth - 1), rows['b'])\n"
            '        return CoordinateReports({"part": rows})',
        ),
    ),
    change(
        "tree response: a record on the upper edge answers at the last level",
        OF_TREE_RESPONSE + "::test_a_record_on_the_edge_of_the_box_is_in_the_edge_part_at_every_level",
        (
            TREE_RESPONSE,
            "        rows = np.empty(len(points)",
            "        turns[codes == (1 << halving.depth) - 1] = len(depths) - 1\n"
            "        survey._waiting = np.bincount(turns, minlength=len(depths))\n"
            "        rows = np.empty(len(points)",
        ),
    ),
    # Rounds.
    change(
        "adaptive response: a round's question from its own records",
        OF_ADAPTIVE + "::test_a_question_depends_only_on_the_answers_of_earlier_rounds",
        (
            ADAPTIVE,
            "                reports = ask(",
            "                codes = np.concatenate([each['code'] for each in waiting[turn].parts(PART)])\n"
            "                exact = Partition.even(first + 1, halving.depth).locate(codes)\n"
            "                if turn and np.mean(exact == 0) > 0.5:\n"
            "                    asked[turn] = asked[0]\n"
            "                reports = ask(",
        ),
    ),
    change(
        "adaptive response: the first partition from the number of records",
        OF_ADAPTIVE + "::test_the_first_partition_and_the_rounds_are_public",
        (
            ADAPTIVE,
            "        first, rounds = schedule(halving.depth, plan)\n        survey",
            "        parts = list(parts)\n"
            "        first, rounds = schedule(halving.depth, replace(plan, reports=sum(map(len, parts))))\n"
            "        survey",
        ),
    ),
    change(
        "adaptive response: each round at the whole ε of all reports together",
        OF_ADAPTIVE + "::test_reports_of_the_first_round_have_the_probabilities_of_the_table",
        (
            ADAPTIVE,
            "return survey_oracle(len(partition), plan.budget.epsilon)",
            "return survey_oracle(len(partition), 2 * plan.budget.epsilon)",
        ),
        (SURVEY, "oracle.epsilon > self._epsilon", "oracle.epsilon > 2 * self._epsilon"),
    ),
    change(
        "adaptive response: the first round counted twice",
        OF_ADAPTIVE + "::test_rounds_are_pooled_into_one_tree",
        (
            SHARE_TREE,
            "        deepest = asked[0].deepest\n",
            "        heard += heard[:1]\n        deepest = asked[0].deepest\n",
        ),
    ),
    change(
        "adaptive response: the last round answers the truth half of the time",
        OF_ADAPTIVE + "::test_every_round_tells_the_truth_as_often_as_stated",
        (
            ADAPTIVE,
            "        answered.add(",
            "        if turn + 1 == len(survey._waiting) and reports.dtype.names:\n"
            "            true = oracle_of(partition, plan).hash_codes(reports['a'], reports['b'], part)\n"
            "            half = survey._source.uniform((len(reports),)) < 0.5\n"
            "            reports['answer'] = np.where(half, true, reports['answer'])\n"
            "        answered.add(",
        ),
    ),
    change(
        "adaptive response: rounds without hashes answer the truth half of the time",
        OF_ADAPTIVE + "::test_every_round_tells_the_truth_as_often_as_stated",
        (
            ADAPTIVE,
            "        answered.add(",
            "        if turn and reports.dtype.names is None:\n"
            "            half = survey._source.uniform((len(reports),)) < 0.5\n"
            "            reports[half] = part[half]\n"
            "        answered.add(",
        ),
    ),
    change(
        "adaptive response: questions from the true records of earlier rounds",
        OF_ADAPTIVE + "::test_the_questions_are_a_function_of_the_reports",
        TRUE_SHARES,
    ),
    change(
        "adaptive response: true counts beside what was asked",
        f"{OF_RELEASED_REPORTS}::test_what_rounds_were_asked_follows_from_the_released_rows",
        (
            ADAPTIVE,
            '{"partitions": [each.shape.packed() for each in asked]}',
            '{"partitions": [each.shape.packed() for each in asked], "n": next(waiting[0].parts(9))["code"].tolist()}',
        ),
    ),
    change(
        "adaptive response: questions from the true records in a released file",
        f"{OF_RELEASED_REPORTS}::test_what_rounds_were_asked_follows_from_the_released_rows",
        TRUE_SHARES,
    ),
    change(
        "adaptive response: a column of the records",
        OF_ADAPTIVE + "::test_every_round_tells_the_truth_as_often_as_stated",
        (ADAPTIVE, 'columns.pop("code")', 'columns["code"]'),
    ),
    change(
        "adaptive response: a round in parts tells of its last part alone",
        OF_ADAPTIVE + "::test_rounds_that_are_read_part_by_part_get_one_question",
        (ADAPTIVE, "support += oracle.support(some)", "support = oracle.support(some)"),
    ),
    change(
        "adaptive response: attributes of another record",
        OF_ADAPTIVE + "::test_attributes_stay_with_their_record",
        (
            ADAPTIVE,
            'as_rows({"part": reports, **columns})',
            'as_rows({"part": reports, **{name: np.roll(each, 1) for name, each in columns.items()}})',
        ),
    ),
    # Shares of the tree's parts.
    change(
        "shares of siblings dealt out evenly, not by variance",
        OF_TREE_RESPONSE + "::test_consistent_shares_are_the_weighted_least_squares_ones",
        (SHARE_TREE, "(whole - own.sum()) * spread / spread.sum()", "(whole - own.sum()) / len(own)"),
    ),
    change(
        "rounds pooled without their variances",
        OF_ADAPTIVE + "::test_rounds_are_pooled_into_one_tree",
        (SHARE_TREE, "/ weight, 1 / weight)", "/ weight, np.ones(len(weight)))"),
    ),
    change(
        "rounds averaged by variances of their own estimates",
        OF_ADAPTIVE + "::test_rounds_about_the_same_parts_are_averaged_without_bias",
        (
            SHARE_TREE,
            "return averaged([shares[own] for own in nodes])",
            "return averaged([np.clip(each.estimates, 0, 1) for each in told])",
        ),
    ),
    change(
        "tree response: several reports of a person counted as people",
        OF_TREE_RESPONSE + "::test_the_variance_of_a_share_adds_noise_and_sampling_of_persons",
        (SHARE_TREE, "self.reports / self.per_person", "self.reports"),
    ),
)
