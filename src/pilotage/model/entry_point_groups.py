"""Groups of entry points that several rooms look at."""

BROKERAGES = "pilotage.brokerage"
"""The group under which a package offers a brokerage."""
