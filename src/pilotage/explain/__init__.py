"""Explanations: turn stored decisions into an analysis, and the analysis into text for terminal, API and
page."""
