"""From a file to a model and back."""
