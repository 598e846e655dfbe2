"""Data that this package makes itself, so that a training run needs no download."""
