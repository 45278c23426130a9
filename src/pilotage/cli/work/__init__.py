"""Commands on tasks, jobs and workflows."""
