"""A complete Flower app: phones learn to suggest the next word, each with three domains of text."""
