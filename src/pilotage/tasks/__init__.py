"""Tasks are split into jobs, completed, or cancelled."""
