"""Entry point groups that several packages use."""

BROKERAGES = "pilotage.brokerage"
"""The group for packages that offer a brokerage."""

TRANSFER_SERVICES = "pilotage.transfer_services"
"""The group for packages that offer an adapter of transfer services."""
