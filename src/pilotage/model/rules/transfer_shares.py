"""Transfer shares and priorities: who a transfer is for, and how urgent it is (D1, D2, D6)."""

from pilotage.model.records.federation import StagingConstants
from pilotage.model.records.work import Direction
from pilotage.model.values.identity import Identity

DEFAULT_SHARE = "_default"

CANCEL_GRACE = 60.0
"""Seconds that a job may have been assigned after the cancellation of a transfer that it counts on. Both may
happen at the same time: a transfer without waiting jobs is cancelled while a new job starts to wait for
it."""


def share_of(
    identity: Identity, direction: Direction, constants: StagingConstants, sub_share: str = ""
) -> str:
    """Return the share of an identity's transfers, by the one criterion ``share_by`` (D1).

    A user, group or role is named within its VO, ``vo:group``: the same name in two VOs means two people. An
    identity without one, or with none of ``base_priorities``, is in ``_default``. With ``sub_shares`` the
    name ends in ``-download`` or ``-upload``, or in the ``sub_share`` that a task names (D6).
    """
    parts: tuple[str, ...]
    match constants.share_by:
        case "none":
            parts = ()
        case "user":
            parts = (identity.vo, identity.name)
        case "vo":
            parts = (identity.vo,)
        case "group":
            parts = (identity.vo, identity.group) if identity.group else ()
        case "role":
            parts = (identity.vo, identity.vo_role) if identity.vo_role else ()
    stem = ":".join(part for part in parts if part)
    suffix = f"-{sub_share or direction}" if sub_share or constants.sub_shares else ""
    # Only declared shares are shares. Otherwise everybody who submits would add one more.
    declared = {stem, stem + suffix} & set(constants.base_priorities)
    return (stem if stem and declared else DEFAULT_SHARE) + suffix


def base_priority(share: str, constants: StagingConstants) -> int:
    """Return the base priority of a share, 1..100 (D2): its own, else its parent share's (D6)."""
    stem = share
    while stem and stem not in constants.base_priorities:
        stem = stem.rpartition("-")[0]
    return constants.base_priorities.get(stem, constants.default_priority)


def declared_sub_shares(identity: Identity, constants: StagingConstants) -> list[str]:
    """Return the sub-shares that an identity's tasks may name: those with a base priority (D6)."""
    stem = share_of(identity, "download", constants).removesuffix("-download")
    names = (
        name.removeprefix(f"{stem}-") for name in constants.base_priorities if name.startswith(f"{stem}-")
    )
    return sorted(set(names) - {"download", "upload"})


def transfer_priority(share: str, job_priority: int, constants: StagingConstants) -> int:
    """Return the DTR priority, 1..100 (D2): base priority x job priority / 100, rounded down, at least 1.

    Raises ValueError for a job priority outside 1..100.
    """
    if not 1 <= job_priority <= 100:
        raise ValueError(f"transfer priority {job_priority}: must be 1..100")
    return max(1, base_priority(share, constants) * job_priority // 100)
