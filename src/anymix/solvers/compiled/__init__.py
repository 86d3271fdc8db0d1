"""The stochastic algorithms as compiled loops; imported when the first compiled run begins."""
