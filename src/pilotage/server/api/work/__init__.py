"""Routes of tasks, jobs, workflows and events."""
