"""How people can sign in. It needs no token: whoever asks has none yet."""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from pilotage.server.api.edge.access import SignInOffer
from pilotage.server.api.edge.answers import answer, documented
from pilotage.server.api.edge.dependencies import PREFIX

router = APIRouter(prefix=f"{PREFIX}/sign-in", tags=["tokens"])


class SignInOffers(BaseModel):
    """Identity providers whose tokens the server accepts."""

    issuers: Annotated[list[SignInOffer], Field(description="In the order of the server's settings.")]


@router.get("", responses=documented(SignInOffers))
def get_sign_in(request: Request) -> Response:
    """List the identity providers that you can sign in with. It needs no token."""
    return answer({"issuers": request.app.state.offers})
