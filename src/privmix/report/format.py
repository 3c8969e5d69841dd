"""Numbers as text for readers: rounded, with units, in grammatical phrases."""

import math
from collections.abc import Callable, Sequence

from privmix.attacks.limits import posterior_ceiling
from privmix.report.results import Estimate

MINUS = "\u2212"
SPACE = "\u00a0"  # no line break between a number and its unit


def decimals(value: float, digits: int) -> str:
    """Format a number with a true minus sign, and zero without a sign."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def nats(value: float) -> str:
    """Format a gap or log-likelihood: three decimals near zero, fewer for large values."""
    if not math.isfinite(value):
        return f"{MINUS if value < 0 else ''}∞" if math.isinf(value) else "undefined"
    size = abs(value)
    return decimals(value, 3 if size < 0.0995 else 2 if size < 9.95 else 1)


def percent(share: float) -> str:
    """Format a share in per cent, with more digits near 0 % and 100 %, and never a false 0 % or 100 %."""
    value = 100 * share
    if not math.isfinite(value) or value > 9_999_999:
        return f"more than 10,000,000{SPACE}%"
    if 0 < value < 0.01:
        return f"less than 0.01{SPACE}%"
    if 99.9 < value < 100:
        return f"over 99.9{SPACE}%"
    digits = 2 if 0 < value < 0.1 else 1 if 0 < value < 10 or 99 < value < 100 else 0
    return f"{decimals(value, digits).removesuffix('.0')}{SPACE}%"


def compact(words: str) -> str:
    """Shorten a share or distance for a narrow cell: <0.01 % for less than 0.01 %."""
    return words.replace("less than ", "<").replace("over ", ">")


def rate(value: float) -> str:
    """Format an AUC or another number between 0 and 1."""
    return f"{value:.3f}"


def plain(value: float) -> str:
    """Format a parameter as people write it: 0.1, 10⁻⁶, ∞."""
    if math.isinf(value):
        return "∞"
    mantissa, _, exponent = f"{value:.4g}".partition("e")
    if not exponent:
        return mantissa.replace("-", MINUS)
    power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{power}" if mantissa == "1" else f"{mantissa}·10{power}".replace("-", MINUS)


def three_digits(value: float) -> str:
    """Format a parameter with three digits and thousands separators."""
    short = float(f"{value:.3g}")
    return f"{short:,.0f}" if 1000 <= short < 1e9 else plain(short)


def odds(epsilon: float) -> str:
    """Format e^ε, the factor by which an observer's odds may change."""
    factor = math.exp(min(epsilon, 700.0))
    return f"×{factor:,.0f}" if 100 <= factor < 1e9 else f"×{plain(float(f'{factor:.3g}'))}"


def belief(before: float, epsilon: float) -> str:
    """Format the largest posterior probability of an observer with prior `before`."""
    return percent(posterior_ceiling(before, epsilon))


def distance(kilometres: float) -> str:
    """Format a distance in metres or kilometres."""
    if kilometres < 0.001:
        return f"less than 1{SPACE}m"
    if kilometres < 0.9995:
        return f"{1000 * kilometres:.0f}{SPACE}m"
    return f"{kilometres:,.{1 if kilometres < 9.95 else 0}f}{SPACE}km"


def nearest(kilometres: Sequence[float]) -> str:
    """Format the smallest distance of the replicates, and the number of replicates that have it."""
    least = distance(min(kilometres))
    equal = sum(distance(value) == least for value in kilometres)
    return f"{least} in {equal} of {len(kilometres)}" if len(kilometres) > 1 else least


def seconds(value: float) -> str:
    """Format a duration."""
    if value < 9.995:
        return f"{value:.2f}{SPACE}s"
    return f"{value:.0f}{SPACE}s" if value < 599.5 else f"{value / 60:,.0f}{SPACE}min"


def megabytes(value: float) -> str:
    """Format an amount of memory, in MB of 2^20 bytes or GB of 2^30 bytes."""
    return f"{value:.0f}{SPACE}MB" if value < 1023.5 else f"{value / 1024:.1f}{SPACE}GB"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Format a number with its noun: 1 replicate, 12,345 records."""
    noun = singular if number == 1 else plural or f"{singular}s"
    return f"{number:,}{SPACE}{noun}"


def listing(words: Sequence[str]) -> str:
    """Join words: a, b and c."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def interval(value: Estimate, form: Callable[[float], str] = nats) -> str:
    """Describe the interval, or say that there is none."""
    if value.low is None or value.high is None:
        if value.count == 1:
            return "one replicate, so no interval"
        return f"{value.count} replicates, not all finite, so no interval"
    return f"95{SPACE}% interval {form(value.low)} to {form(value.high)} over {value.count} replicates"


def plus_minus(value: Estimate | None, form: Callable[[float], str] = nats) -> str:
    """Format a table cell: mean ± half width of the interval."""
    if value is None:
        return "–"
    half = value.half_width
    if half is None:
        return form(value.mean)
    return f"{form(value.mean)} ±{SPACE}{form(half) if half >= 0.0005 else '<0.001'}"


def neighbours(unit: str, relation: str, within_m: float | None = None) -> str:
    """Describe neighbouring datasets; `within_m` is the distance of a guarantee that holds only for nearby places."""
    whose = "one record" if unit == "record" else "all records of one person"
    if within_m is not None:
        return f"{whose} replaced by any other whose places are within {distance(within_m / 1000)}"
    return f"{whose} {'replaced by any other' if relation == 'replace_one' else 'added or removed'}"


WHOSE_TRUST = {
    "central": "If you trust one curator with the records (central)",
    "local": "If records are randomised before anyone collects them (local)",
}
TRUST = {
    "central": "Central: a trusted curator holds the records and publishes only the model.",
    "local": "Local: every record is randomised before anyone stores it, so no curator is trusted.",
    "distance": "Distance: every place is moved at random before anyone stores it, so no curator is trusted, but it is "
    "hidden only among the places nearby.",
}
