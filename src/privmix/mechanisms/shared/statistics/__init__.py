"""Statistics beside the model: counts, means, quantiles, histograms and most frequent values, from one budget with it.

Privacy. `statistics_share` s of the budget pays for the statistics. Each of J statistics that cost something gets an
equal part. Every record is counted, also one without coordinates, and the statistics do not depend on the mixture.
Columns, bounds, bins and values are public, and one rule on public values fixes all noise before any is drawn:

* Choices (quantiles and most frequent values) are pure: the exponential mechanism or the maximum of noisy counts.
* Numbers (counts, means and histograms) have Laplace noise, so they are pure too.
* If all noise of the mechanism is Gaussian and δ > 0, numbers have Gaussian noise instead. Let C of the J statistics be
  choices. They have C s/J of ε. The rest of (ε, δ) stands for μ-GDP. The numbers have (J - C) s/J of μ², each an equal
  part, and the mechanism has what is left of μ². All Gaussian measurements together are μ-GDP (Dong, Roth, Su 2022,
  Corollary 2).

The ε of pure statistics is added to the claim of the mechanism (basic composition, adaptive). So a pure mechanism stays
pure. The number of records costs nothing where it is public.

Measurements, for a unit of at most m records (`privacy.sensitivity`):

* count: n + noise, Δ = m (`single_count`).
* mean: z is the distance from the middle of the public box over its half width, so |z| ≤ 1. If every neighbour has the
  same number of values, it is public, and Σz + noise is measured (`bounded_sum`). Otherwise (Σz, number of values) +
  noise is measured as one vector (`bounded_sum_and_number`).
* histogram: all cells as one vector (`counts`). A record is in at most one cell.
* quantile: the exponential mechanism over public cells (Smith 2011), three times: for the quantile and for the two ends
  of its interval, with 1/4, 3/8 and 3/8 of its ε (`quantiles`).
* top: the exponential mechanism over the counts, or their maximum after Laplace noise. A count moves by at most m.
  Under add_remove all counts move the same way, so the scores are monotonic and need half the noise. Under replace_one
  one count falls while another rises. The count of the winner is not published.

Everything after the measurements (`estimates`) is post-processing.
"""
