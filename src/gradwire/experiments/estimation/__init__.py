"""The sparse Bernoulli model with real messages: schemes, trials, and the fit of power laws."""
