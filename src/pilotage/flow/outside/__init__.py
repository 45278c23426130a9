"""Ways to the outside: workers for blocking calls, and the results of the calls."""
