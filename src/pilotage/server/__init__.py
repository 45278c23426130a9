"""What people and programs reach: the API, the page, checks of an installation, and the process itself."""
