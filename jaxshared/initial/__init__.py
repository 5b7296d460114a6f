"""Initial factors that models draw: random, from singular vectors, common to views."""
