"""A federation for real processes: a model of numbers, each client pulling it half way to its own target."""
