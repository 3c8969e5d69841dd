"""Defects in the seals of files, and in the checks that a file belongs to a job."""

from changes.change import change
from changes.places import (
    CLEAN_FILE,
    EVALUATE,
    FILES,
    OF_IDENTITY,
    OF_REPORT_IDENTITY,
    OF_SEALS,
    RUN_FILES,
    STAGE_JOB,
)

FLIPPED = f"{OF_SEALS}::test_every_flipped_bit_is_noticed"
CHANGES = (
    change(
        "the seal of a Parquet file is not checked",
        FLIPPED,
        (
            FILES,
            "        if found.result():\n            raise UserError(",
            "        if False:\n            raise UserError(",
        ),
    ),
    change("the seal of a JSON file is not checked", FLIPPED, (FILES, "    if damage:\n", "    if False:\n")),
    change(
        "only the first block is hashed",
        f"{OF_SEALS}::test_damage_of_a_file_of_several_blocks_is_noticed",
        (FILES, "while count := _fill(stream, block):", "if count := _fill(stream, block):"),
    ),
    change(
        "the weights of a seal are even",
        f"{OF_SEALS}::test_damage_of_a_file_of_several_blocks_is_noticed",
        (FILES, "np.arange(1, 2 * ROWS, 2, dtype=WORD)", "np.arange(0, 2 * ROWS, 2, dtype=WORD)"),
    ),
    change(
        "the rows of a block have equal weights",
        f"{OF_SEALS}::test_moved_parts_of_a_file_are_noticed",
        (FILES, "np.arange(1, 2 * ROWS, 2, dtype=WORD)", "np.ones(ROWS, dtype=WORD)"),
    ),
    change(
        "a file without a seal is read",
        f"{OF_SEALS}::test_a_file_without_a_seal_is_refused",
        (
            FILES,
            'return "has no seal: an older version of Privmix wrote it, or it is damaged"',
            "return None",
        ),
    ),
    change(
        "a damaged file ends in the error of its reader",
        FLIPPED,
        (FILES, "        except Exception as error:\n", "        except ZeroDivisionError as error:\n"),
    ),
    change(
        "records of another dataset are used",
        f"{OF_IDENTITY}::test_clean_records_of_another_dataset_are_refused",
        (CLEAN_FILE, "if self.domain.dataset != dataset:", "if False:"),
    ),
    change(
        "files of another job are used",
        f"{OF_IDENTITY}::test_reports_and_models_of_another_job_are_refused",
        (STAGE_JOB, "        if found != self:\n", "        if found.method != self.method:\n"),
    ),
    change(
        "the mechanism is not part of the identity of a file",
        f"{OF_IDENTITY}::test_reports_and_models_of_another_job_are_refused",
        (
            STAGE_JOB,
            "    mechanism: str\n    method: str\n",
            "    mechanism: str = field(compare=False)\n    method: str\n",
        ),
        (STAGE_JOB, "from dataclasses import dataclass\n", "from dataclasses import dataclass, field\n"),
    ),
    change(
        "the identity of the model is not checked by evaluate",
        f"{OF_IDENTITY}::test_reports_and_models_of_another_dataset_are_refused",
        (EVALUATE, "job_identity(job, domain.dataset).check(path, file_identity(file))", "pass"),
    ),
    change(
        "a model of an older version of the dataset is scored",
        f"{OF_IDENTITY}::test_a_model_of_another_version_of_the_dataset_is_refused",
        (EVALUATE, "if file.domain != domain:", "if False:"),
    ),
    change(
        "the identity of scores is not checked by the report",
        f"{OF_REPORT_IDENTITY}::test_a_file_of_another_job_is_refused",
        (RUN_FILES, "wanted.check(path, Identity(*made, info.epsilon, info.delta))", "pass"),
    ),
)
