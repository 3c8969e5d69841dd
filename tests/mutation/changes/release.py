"""Defects in the code that makes, verifies and accounts for releases."""

from changes.change import change
from changes.places import (
    BASE,
    CLOSED_FILES,
    OF_BAD_DAYS,
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
        OF_SPENDING + "::test_an_intent_counts_in_full_until_it_is_done",
        (SPENDING, "            check_limit(before, spent, limit, self.path)\n", ""),
    ),
    change(
        "two releases at the same time read the account before either writes",
        OF_KILLS + "::test_concurrent_intents_are_all_written_and_do_not_exceed_the_limit",
        (SPENDING, "fcntl.flock(handle, fcntl.LOCK_EX)", "None"),
    ),
    change(
        "lines cut off an account are not missed",
        OF_SPENDING + "::test_the_seal_may_be_one_line_behind",
        (SPENDING, "        self._check_seal(entries)\n", ""),
    ),
    change(
        "the account hears of a release only when it is done",
        OF_BAD_DAYS + "::test_a_full_disk_after_the_noise_leaves_no_release_and_counts_as_spent",
        (
            RELEASING,
            "        number = account.begin(_account_entry(order), _largest_cost(order, rehearsal), limit)\n"
            "        try:\n            made, model = _make_folder(order, records, place, key)\n",
            "        try:\n            made, model = _make_folder(order, records, place, key)\n"
            "            number = account.begin(_account_entry(order), _largest_cost(order, rehearsal), limit)\n",
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
        (CLOSED_FILES, "if _with_plain_numbers(written) != _with_plain_numbers(text):", "if False:"),
    ),
    change(
        "a transcript off the lattice is accepted",
        OF_REFUSALS,
        (TRANSCRIPTS, "    if not (apart <= slack", "    if False and not (apart <= slack"),
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
)
