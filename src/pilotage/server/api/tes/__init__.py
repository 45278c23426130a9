"""GA4GH's Task Execution Service (TES) 1.1: its tasks are tasks of one job."""
