"""Explanations: stored decisions as an analysis, and the analysis as text for terminal, API and page."""
