"""Calls on tasks, jobs and workflows."""
