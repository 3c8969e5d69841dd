"""Changes of how releases are made, checked and remembered."""

from changes.change import change
from changes.places import (
    MAKING,
    OF_BAD_DAYS,
    OF_KILLS,
    OF_RELEASED_REPORTS,
    OF_SPENDING,
    RELEASING,
    SPENDING,
)

CHANGES = (
    change(
        "a release with noise that leaks through its low bits",
        f"{OF_RELEASED_REPORTS}::test_noise_of_a_release_lies_on_the_lattice",
        (
            MAKING,
            "from privmix.privacy.exact import ExactNoise\n",
            "from privmix.privacy.noise import SeededNoise\n",
        ),
        (
            MAKING,
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
        OF_KILLS + "::test_many_intents_at_the_same_time_are_all_written_and_none_exceeds_the_limit",
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
            "        try:\n            made, model = _make_folder(order, records, place)\n",
            "        try:\n            made, model = _make_folder(order, records, place)\n"
            "            number = account.begin(_account_entry(order), _largest_cost(order, rehearsal), limit)\n",
        ),
    ),
    change(
        "a release is put in place unverified",
        OF_BAD_DAYS + "::test_what_fails_its_own_check_is_not_put_in_place",
        (RELEASING, "    verify.verify(place)\n", ""),
    ),
)
