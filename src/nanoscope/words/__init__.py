"""Findings in the reader's language: translations, numbers, units; and what the numbers mean."""
