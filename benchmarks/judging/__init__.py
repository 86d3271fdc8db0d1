"""Tables and methods with which `usefulness.py` judges models on rows not seen."""
