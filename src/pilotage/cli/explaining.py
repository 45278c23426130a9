"""Why jobs went where they went, or nowhere."""

import typer

app = typer.Typer()
