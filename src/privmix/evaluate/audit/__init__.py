"""Testing a claimed ε: what the releases of a mechanism rest on, and how well an attacker tells two worlds apart."""
