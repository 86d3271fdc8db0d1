"""Which model: losses on held-out rows, the rule that chooses by them, and the dial f_λ."""
