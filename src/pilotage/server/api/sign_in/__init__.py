"""Sign-in with identity providers: whose tokens the server accepts, and who their bearers are here."""
