"""Central mechanisms: a trusted curator fits the records, one module per method."""
