"""Parts that several mechanisms share: partitions, synopses, noisy moments, reports and their order."""
