"""A complete Flower app: Adult, its rows dealt to clients that keep them."""
