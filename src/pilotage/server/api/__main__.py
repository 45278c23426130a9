"""``python -m pilotage.server.api`` prints the OpenAPI document of all routes."""

import sys

from fastapi.responses import JSONResponse

from pilotage.server.api.app import document

sys.stdout.buffer.write(bytes(JSONResponse(document()).body))
