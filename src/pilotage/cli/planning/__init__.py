"""Commands that change nothing: decisions from saved worlds, and simulations."""
