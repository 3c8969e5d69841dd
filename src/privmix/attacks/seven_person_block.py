"""The block of seven people of Garfinkel, Abowd and Martindale (Communications of the ACM 62(3), 2019, table 1).

A statistical office publishes counts, median ages and mean ages of a block, and leaves out small groups and some others
that would give them away. `solve_block` finds all sets of people that agree with the published rows, by enumeration:
there is exactly one. It uses nothing about the groups that were left out.

The order of enumeration keeps it small. The ages of each sex follow from its median and mean but for one or two
numbers. Of the four women three are black, and the three white people follow.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

OLDEST = 125
LEAST_MARRIED = 15  # a rule of the published table: married people are at least 15 years old


@dataclass(frozen=True, order=True)
class Person:
    """One person of the block."""

    age: int
    sex: str  # F, M
    race: str  # B, W
    married: bool


@dataclass(frozen=True)
class Row:
    """One published row: people, median age, and mean age with one decimal."""

    people: int
    median: int
    mean: float

    def fits(self, ages: list[int]) -> bool:
        """Whether these ages agree with the row."""
        return (
            len(ages) == self.people
            and median(ages) == self.median
            and abs(sum(ages) - self.mean * self.people) <= 0.05 * self.people + 1e-9
        )


TABLE = {
    "total": Row(7, 30, 38.0),
    "female": Row(4, 30, 33.5),
    "male": Row(3, 30, 44.0),
    "black": Row(4, 51, 48.5),
    "white": Row(3, 24, 24.0),
    "married adults": Row(4, 51, 54.0),
    "black female": Row(3, 36, 36.7),
}


def groups(block: tuple[Person, ...]) -> dict[str, list[int]]:
    """Return the ages of each group of the published table."""
    tests = {
        "total": lambda p: True,
        "female": lambda p: p.sex == "F",
        "male": lambda p: p.sex == "M",
        "black": lambda p: p.race == "B",
        "white": lambda p: p.race == "W",
        "married adults": lambda p: p.married,
        "black female": lambda p: (p.sex, p.race) == ("F", "B"),
    }
    return {name: sorted(p.age for p in block if test(p)) for name, test in tests.items()}


def agrees(block: tuple[Person, ...]) -> bool:
    """Whether a block agrees with everything that is published."""
    ages = groups(block)
    return all(row.fits(ages[name]) for name, row in TABLE.items()) and all(
        person.age >= LEAST_MARRIED for person in block if person.married
    )


def solve_block() -> list[tuple[Person, ...]]:
    """Return every block of seven people that agrees with the published table, sorted by age."""
    found = set()
    women = [(ages, split) for ages in _ages(TABLE["female"]) for split in _choose_white_woman(ages)]
    men = [(ages, split) for ages in _ages(TABLE["male"]) for split in _choose_black_man(ages)]
    for (female, white_woman), (male, black_man) in itertools.product(women, men):
        white = sorted([female[white_woman], *(age for i, age in enumerate(male) if i != black_man)])
        black = sorted([male[black_man], *(age for i, age in enumerate(female) if i != white_woman)])
        if not (TABLE["white"].fits(white) and TABLE["black"].fits(black)):
            continue
        people = [(age, "F", "W" if i == white_woman else "B") for i, age in enumerate(female)]
        people += [(age, "M", "B" if i == black_man else "W") for i, age in enumerate(male)]
        for married in itertools.combinations(range(len(people)), TABLE["married adults"].people):
            block = tuple(sorted(Person(*person, i in married) for i, person in enumerate(people)))
            if agrees(block):
                found.add(block)
    return sorted(found)


def _ages(row: Row) -> Iterator[tuple[int, ...]]:
    """Yield all sorted ages of three or four people that agree with a row whose mean is exact."""
    total = round(row.mean * row.people)
    options: Iterator[tuple[int, ...]]
    if row.people == 3:
        options = ((low, row.median, total - row.median - low) for low in range(row.median + 1))
    else:
        middle = 2 * row.median
        options = (
            (low, second, middle - second, total - middle - low)
            for second in range(row.median + 1)
            for low in range(second + 1)
        )
    for ages in options:
        if list(ages) == sorted(ages) and ages[-1] <= OLDEST:
            yield ages


def _choose_white_woman(ages: tuple[int, ...]) -> Iterator[int]:
    """Yield each woman who may be the white one: the three others agree with the row of black women."""
    for chosen in range(len(ages)):
        if TABLE["black female"].fits([age for i, age in enumerate(ages) if i != chosen]):
            yield chosen


def _choose_black_man(ages: tuple[int, ...]) -> Iterator[int]:
    """Yield each man who may be the only black one: 4 black people less 3 black women."""
    yield from range(len(ages))
