"""Senders of notifications: webhooks, commands on the server, and e-mail."""
