"""From raw rows to normalised records, using public bounds only."""
