"""Defects in the code that makes, verifies and accounts for releases."""

from changes.change import change
from changes.places import (
    BASE,
    CHARGES,
    CLOSED_FILES,
    COMPOSITION,
    FINGERPRINTS,
    MODEL_FORM,
    NOISE_EVIDENCE,
    OF_BAD_DAYS,
    OF_FINGERPRINTS,
    OF_FORGERIES,
    OF_KILLS,
    OF_PUBLIC_PLAN,
    OF_RELEASED_REPORTS,
    OF_SECOND_ACCOUNTANT,
    OF_SPENDING,
    RELEASING,
    REPORT_FILES,
    SECOND_ACCOUNTANT,
    SIGNING,
    SPENDING,
    SYNTHETIC,
    TRANSCRIPTS,
    VERIFY,
)

PUBLIC_PLAN = "release/public_plan.py"
OF_IMPLAUSIBLE = "tests/release/test_release_implausible.py"
OF_REFUSALS = OF_FORGERIES + "::test_a_forgery_that_contradicts_the_folder_or_the_plan_is_refused"

CHANGES = (
    change(
        "a release with noise that leaks through its low bits",
        f"{OF_RELEASED_REPORTS}::test_noise_of_a_release_lies_on_the_lattice",
        (
            BASE,
            "Randomness(ExactNoise(), fresh_stream())",
            "Randomness(SeededNoise(fresh_stream()), fresh_stream())",
        ),
    ),
    change(
        "a release beyond the limit is not refused",
        OF_SPENDING + "::test_a_release_counts_with_the_most_it_may_spend_done_or_not",
        (SPENDING, "if not all(each.fits(limit)", "if not any(True or each.fits(limit)"),
    ),
    change(
        "two releases at the same time read the account before either writes",
        OF_KILLS + "::test_concurrent_intents_are_all_written_and_do_not_exceed_the_limit",
        (SPENDING, "fcntl.flock(handle, fcntl.LOCK_EX)", "None"),
    ),
    change(
        "lines cut off an account are not missed",
        OF_SPENDING + "::test_every_change_of_the_account_is_noticed",
        (SPENDING, "        self._check_head(entries)\n", ""),
    ),
    change(
        "lines of the account are hashed without the key",
        OF_SPENDING + "::test_every_change_of_the_account_is_noticed",
        (
            SPENDING,
            'hmac.digest(self._chain, f"{previous} {body}".encode(), "sha256").hex()',
            'hashlib.sha256(f"{previous} {body}".encode()).hexdigest()',
        ),
    ),
    change(
        "changed fingerprints are not noticed",
        OF_SPENDING + "::test_every_change_of_the_account_is_noticed",
        (SPENDING, "if _digest(content) != digest:", "if False:"),
    ),
    change(
        "a shared record is not charged if the persons have other ids",
        OF_SPENDING + "::test_any_shared_record_or_person_charges_fully_and_disjoint_ones_do_not",
        (FINGERPRINTS, " or share_any(self.rows, other.rows)", ""),
    ),
    change(
        "only equal sets of records overlap",
        OF_SPENDING + "::test_any_shared_record_or_person_charges_fully_and_disjoint_ones_do_not",
        (FINGERPRINTS, "(many[places] == few).any()", "(many[places] == few).all()"),
    ),
    change(
        "the order of columns changes the fingerprint of a record",
        f"{OF_FINGERPRINTS}::test_the_order_of_columns_does_not_change_a_fingerprint",
        (FINGERPRINTS, "    single.sort(axis=1)\n", ""),
    ),
    change(
        "releases of records are not charged to persons",
        OF_SPENDING + "::test_releases_of_records_and_of_persons_are_refused_alike_in_both_orders",
        (CHARGES, "Charge(cost, together, len(known)) if", "Charge(cost, 1) if"),
        (CHARGES, "else Charge(cost, largest)", "else Charge(cost, 1)"),
    ),
    change(
        "another id column hides the records of a person",
        OF_SPENDING + "::test_another_id_column_does_not_hide_the_records_of_a_person",
        (CHARGES, "else Charge(cost, largest)", "else Charge(cost, cost.most)"),
    ),
    change(
        "files with the same persons and rows in other pairs count as one file",
        OF_FINGERPRINTS + "::test_the_same_persons_and_the_same_rows_in_other_pairs_are_other_records",
        (FINGERPRINTS, "np.column_stack([owner, others])", "np.column_stack([others])"),
    ),
    change(
        "other bytes of the same records count as another file",
        OF_FINGERPRINTS + "::test_other_bytes_of_the_same_records_are_no_other_file",
        (SPENDING, "source=fingerprints.pairs or digest", "source=digest"),
    ),
    change(
        "of two numbers of records of a person in one file, the later counts",
        OF_SPENDING + "::test_lines_without_pairs_stay_readable",
        (CHARGES, "max(cost.most, known.get(source, 0))", "cost.most"),
    ),
    change(
        "releases are not linked through others",
        OF_SPENDING + "::test_releases_with_and_without_ids_are_linked_through_others",
        (SPENDING, "            if mixed:\n", "            if False:\n"),
    ),
    change(
        "a release of records forgets the persons that an earlier one protects",
        OF_SPENDING + "::test_releases_of_records_and_of_persons_are_refused_alike_in_both_orders",
        (CHARGES, 'any(cost.unit == "person" for cost in every)', 'new.unit == "person"'),
    ),
    change(
        "add_remove counts once",
        OF_SPENDING + "::test_a_request_that_counts_double_is_told_half_of_the_rest",
        (CHARGES, "return math.prod(self.factors)", "return self.records"),
    ),
    change(
        "a claim below the budget lowers the charge after the noise",
        OF_SPENDING + "::test_a_release_counts_with_the_most_it_may_spend_done_or_not",
        (SPENDING, "max(entry[name], claim[name])", "claim[name]"),
    ),
    change(
        "a group's δ does not grow with its size",
        OF_SPENDING + "::test_groups_cost_what_single_steps_add_up_to",
        (COMPOSITION, "min(delta * factor, 1.0)", "min(delta * steps, 1.0)"),
    ),
    change(
        "the account hears of a release only when it is done",
        OF_BAD_DAYS + "::test_a_full_disk_after_the_noise_leaves_no_release_and_counts_as_spent",
        (
            RELEASING,
            "            booking = account.begin(_account_entry(order), cost, fingerprints, limit)\n"
            '            spent = "its noise counts as spent"\n'
            "            _, model = _make_folder(order, records, place, key)\n",
            '            spent = "its noise counts as spent"\n'
            "            _, model = _make_folder(order, records, place, key)\n"
            "            booking = account.begin(_account_entry(order), cost, fingerprints, limit)\n",
        ),
    ),
    change(
        "a release is put in place unverified",
        OF_BAD_DAYS + "::test_a_release_that_fails_verification_is_not_put_in_place",
        (RELEASING, "    verify.verify(place, rehearsal=rehearsal)\n", ""),
    ),
    change(
        "the second accountant sees half of the Gaussian losses",
        OF_SECOND_ACCOUNTANT + "::test_gaussian_events_have_the_closed_form",
        (
            SECOND_ACCOUNTANT,
            "squares += event.noise_multiplier**-2",
            "squares += event.noise_multiplier**-2 / 4",
        ),
    ),
    change(
        "the second accountant takes Laplace noise for randomized response",
        OF_SECOND_ACCOUNTANT + "::test_one_laplace_event_has_the_closed_form",
        (SECOND_ACCOUNTANT, "(_Laplace if isinstance(event, Laplace) else _Pure)", "_Pure"),
    ),
    change(
        "the second accountant takes a unit that is added for one that is removed",
        OF_SECOND_ACCOUNTANT + "::test_one_event_on_a_sample_has_the_closed_form_for_a_unit_removed",
        (
            SECOND_ACCOUNTANT,
            "return _Binned(loss, with_unit), _Binned(-loss, without)",
            "return (_Binned(-loss, without),) * 2",
        ),
    ),
    change(
        "the second accountant accepts every claim",
        OF_SECOND_ACCOUNTANT + "::test_the_least_noise_of_a_budget_is_accepted_and_a_thousandth_less_is_not",
        (SECOND_ACCOUNTANT, "return found if found > limit else None", "return None"),
    ),
    change(
        "the ledger is not compared with the public plan",
        OF_REFUSALS,
        (VERIFY, "    _check_ledger(model, plan)\n", ""),
    ),
    change(
        "the page of a release is not compared",
        OF_REFUSALS,
        (VERIFY, "if read_text(folder / PAGE, MOST_BYTES[PAGE]) != page.render(model):", "if False:"),
    ),
    change(
        "any key proves the origin",
        OF_FORGERIES + "::test_a_consistent_forgery_needs_the_key_of_the_curator",
        (VERIFY, "if trusted is not None and signed_by != trusted:", "if False:"),
    ),
    change(
        "a signature of other checksums is accepted",
        OF_FORGERIES + "::test_a_signature_of_another_folder_is_refused",
        (SIGNING, '        public.verify(bytes.fromhex(found["signature"]), message)\n', ""),
    ),
    change(
        "JSON with spare room is accepted",
        OF_REFUSALS,
        (VERIFY, "if text != model_text(model):", "if False:"),
    ),
    change(
        "texts without a limit are accepted",
        OF_REFUSALS,
        (MODEL_FORM, "or sum(map(len, texts)) > MOST_LETTERS", ""),
    ),
    change(
        "invisible letters are accepted",
        OF_REFUSALS,
        (MODEL_FORM, "IGNORED.search(visible)\n", "False\n"),
    ),
    change(
        "moments need not be those of the same records",
        OF_IMPLAUSIBLE + "::test_moments_satisfy_cauchy_schwarz",
        (NOISE_EVIDENCE, "(sums**2 <= count[:, None] * upper).all()", "True"),
    ),
    change(
        "a Parquet file of another library is accepted",
        OF_REFUSALS,
        (CLOSED_FILES, "if footer.created_by != WRITER + pa.cpp_version:", "if False:"),
    ),
    change(
        "cut lines of the account are not noticed",
        OF_SPENDING + "::test_fingerprints_without_a_line_are_noticed",
        (SPENDING, "if missing and entries:", "if False:"),
    ),
    change(
        "the head of the account needs no key",
        OF_SPENDING + "::test_cut_lines_are_noticed_also_with_a_head_made_of_the_last_line",
        (SPENDING, 'self._mac(f"head {lines}", mac)', "mac"),
    ),
    change(
        "the records of the clean file do not count",
        OF_FINGERPRINTS + "::test_records_of_a_changed_clean_file_overlap",
        (
            FINGERPRINTS,
            "    if entry.coordinates:\n        rows.append",
            "    if False:\n        rows.append",
        ),
    ),
    change(
        "records are recognised by their numbers alone",
        OF_FINGERPRINTS + "::test_a_column_with_another_type_or_role_is_the_same",
        (FINGERPRINTS, "    if len(values) > len(numeric):\n", "    if False:\n"),
    ),
    change(
        "a number is another value in a column of categories",
        OF_FINGERPRINTS + "::test_a_column_with_another_type_or_role_is_the_same",
        (FINGERPRINTS, "    if DECIMAL.fullmatch(text):\n", "    if False:\n"),
    ),
    change(
        "a transcript off the lattice is accepted",
        OF_REFUSALS,
        (
            TRANSCRIPTS,
            "def _demand_lattice(holds: bool) -> None:\n    if not holds:",
            "def _demand_lattice(holds: bool) -> None:\n    if False:",
        ),
    ),
    change(
        "a link is followed",
        OF_REFUSALS,
        (CLOSED_FILES, "    if not stat.S_ISREG(found.st_mode):", "    if False:"),
    ),
    change(
        "the shares of attributes are not derived from the reports",
        OF_REFUSALS,
        (REPORT_FILES, "    _check_proportions(columns, model, own)\n", ""),
    ),
    change(
        "synthetic rows depend on how they are drawn",
        OF_PUBLIC_PLAN + "::test_synthetic_rows_have_the_same_bits_on_every_machine",
        (SYNTHETIC, "words.random_raw(count *", "words.random_raw(1 + count *"),
    ),
    change(
        "numbers of any size count as noisy",
        OF_IMPLAUSIBLE + "::test_half_of_epsilon_is_refused_where_noise_dominates",
        (NOISE_EVIDENCE, "RARE = 1e-12", "RARE = 1e-300"),
    ),
    change(
        "counts need not add up to the number of records",
        OF_IMPLAUSIBLE + "::test_counts_add_up_to_the_public_number_of_records",
        (NOISE_EVIDENCE, "> total_reach(each):", "> 1e9 * total_reach(each):"),
    ),
    change(
        "whole numbers count as noisy",
        OF_IMPLAUSIBLE + "::test_whole_numbers_are_no_noisy_numbers",
        (
            NOISE_EVIDENCE,
            "if not parts or any(part.rounded or not len(part.values) for part in parts):",
            "if True:",
        ),
    ),
    change(
        "equal numbers count as noisy if they are large",
        OF_IMPLAUSIBLE + "::test_latitudes_are_no_noisy_counts",
        (
            NOISE_EVIDENCE,
            "plausible = plausible and _has_differences(parts, law) and",
            "plausible = plausible and",
        ),
    ),
    change(
        "a divided number may lie a little off the lattice",
        OF_IMPLAUSIBLE + "::test_every_number_lies_on_the_lattice",
        (TRANSCRIPTS, "(again == stored)", "(np.abs(again - stored) <= STEP / 2)"),
    ),
    change(
        "components may be narrower than the public floor",
        OF_IMPLAUSIBLE + "::test_a_mixture_keeps_the_public_floor_and_box",
        (TRANSCRIPTS, "(least >= 1 - ROUNDED)", "(least >= 0)"),
    ),
    change(
        "equal answers count as randomised",
        OF_IMPLAUSIBLE + "::test_equal_answers_are_no_reports",
        (REPORT_FILES, "return bool(((counts >= low) & (counts <= high)).all())", "return True"),
    ),
    change(
        "a plan of any length is calibrated",
        OF_IMPLAUSIBLE + "::test_a_plan_that_takes_long_is_refused_at_once",
        (PUBLIC_PLAN, "    if entries != demanded:", "    if False:"),
    ),
)
