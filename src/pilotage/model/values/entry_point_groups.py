"""Groups of entry points that several rooms look at."""

BROKERAGES = "pilotage.brokerage"
"""The group under which a package offers a brokerage."""

TRANSFER_SERVICES = "pilotage.transfer_services"
"""The group under which a package offers an adapter of services that carry files."""
