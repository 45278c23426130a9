"""The fields that the client and the command line read of the server's documents. Each answer is checked.

A test compares each field with the server's OpenAPI document.
"""

from .answers import Shape


def _all(kind: Shape, names: str) -> dict[str, Shape]:
    return dict.fromkeys(names.split(), kind)


NUMBER_OR_NONE = (float, None)
WHOLE_OR_NONE = (int, None)
COUNTS = {str: int}
LINES = {"lines": [str]}
"""An explanation."""

REFUSALS = {"refused": [{"index": int, "errors": [{"field": str, "message": str}]}]}
REUSES = {"stages": [_all(str, "name reason") | {"task": WHOLE_OR_NONE}]}
"""What became of the stages of a resumed workflow."""
SUBMISSION = REFUSALS | REUSES | {"tasks": [{"id": int, "name": str}], "warnings": [str], "id": WHOLE_OR_NONE}
PLAN = REFUSALS | {"tasks": [LINES]}

REMARK = _all(str, "action command kind mend rule subject text") | {"since": NUMBER_OR_NONE}
BREAKER = _all(str, "kind probe reason rule state what") | _all(float, "since until")
BREAKERS = {"breakers": [BREAKER]}
PAGE = BREAKERS | {
    "next": (str, int),
    "total": WHOLE_OR_NONE,
    "counts": COUNTS,
    "problems": [str],
    "set_aside": [REMARK],
}
"""What answers say besides the rows of a table."""

MEASURED = _all(NUMBER_OR_NONE, "cpu_time memory out_disk walltime work_disk") | {"finished": int}
TASK = {
    **_all(str, "error held name owner share state vo"),
    **_all(int, "id priority"),
    **_all(float, "created since"),
    "datasets": [str],
    "remarks": [REMARK],
    "changes": [{"by": str, "job": WHOLE_OR_NONE, "time": float, "what": str}],
    "jobs": COUNTS,
    "labels": {str: str},
    "measured": (MEASURED, None),
    "spec": {},
    "workflow": WHOLE_OR_NONE,
}
WORKFLOW = REUSES | _all(str, "name owner vo") | {"id": int, "created": float, "tasks": COUNTS}
STAGES = WORKFLOW | {"tasks": [TASK], "remarks": [REMARK]}
JOB = {
    **_all(str, "error kind queue reason state"),
    **_all(int, "attempt id task"),
    **_all(WHOLE_OR_NONE, "exit_code index"),
    **_all(NUMBER_OR_NONE, "max_rss run wall_seconds"),
    "inputs": [str],
    "parameters": {str: str},
    "wait": float,
}
STEERED_JOB = LINES | {"id": int, "jobs": COUNTS, "state": str}
STEERED_TASK = STEERED_JOB | {"task": TASK}
GRANT = _all(str, "by by_vo group kind person record vo") | {
    "made": float,
    "manages": bool,
    "until": NUMBER_OR_NONE,
}
QUOTA = _all(str, "actor because kind name vo") | {"since": float}
QUOTA |= _all(NUMBER_OR_NONE, "core_hours files jobs stored target tasks transferred uploaded")
QUOTAS = {
    "of_caller": [_all(str, "constant holder") | {"used": float, "limit": NUMBER_OR_NONE}],
    "exceptions": [QUOTA],
}
_VOLUME = _all(int, "bytes files")
DELETION = {
    **dict.fromkeys(("copies", "kept", "outputs"), _VOLUME),
    **LINES,
    "tasks": [_all(str, "name state") | _all(int, "id jobs")],
}
FAILURES = {
    "groups": [_all(str, "error queue") | _all(int, "example failed retried") | {"exit_code": WHOLE_OR_NONE}],
    "left_out": int,
}
FAILURE_HISTORY = {
    "failures": [_all(str, "error queue") | {"attempts": int, "time": float}],
    "left_out": int,
}
_USE = _all(str, "cause group name person queue share site vo") | _all(int, "attempts task")
_USE |= _all(
    float,
    "asked_memory core_seconds cpu_seconds gpu_seconds hs23_seconds lost_seconds peak_memory read_bytes"
    " saved_memory time used_memory written_bytes",
)
USAGE = {
    "by": [str],
    "left_out": int,
    "since": float,
    "until": float,
    "lost": [_all(str, "cause culprit what") | {"lost_seconds": float}],
    "rows": [_USE],
    "total": _USE,
}
_ATTEMPT = _all(str, "cause culprit group node outcome person queue share site vo")
_ATTEMPT |= _all(int, "attempt cores gpus id job read_bytes task written_bytes")
_ATTEMPT |= _all(float, "core_power cpu_seconds ended max_rss memory seconds started")
ATTEMPTS = _all(int, "forgotten next") | {"attempts": [_ATTEMPT], "more": bool}
EXCERPT = _all([str], "head tail") | _all(int, "left_out lost") | {"stream": str}
TASK_LOGS = {"jobs": [{"attempt": int, "job": JOB, "logs": [EXCERPT]}], "next": str}
LOG = {"parts": [_all(int, "end start") | {"text": str}], "size": int, "stream": str}
LOGS = {"attempt": int, "attempts": [int], "logs": [LOG], "node": ({}, None), "runs": bool}
STUCK = _all(str, "kind what") | {"remark": REMARK}
EVENT = {"id": int, "kind": str, "task": WHOLE_OR_NONE}

REPLICAS = {"replicas": [_all(str, "storage url")]}
FILE = (
    REPLICAS
    | _all(str, "checksum file")
    | _all(WHOLE_OR_NONE, "job task")
    | {"published": [str], "since": NUMBER_OR_NONE, "size": int}
)
OUTPUT = REPLICAS | _all(str, "checksum file kind name") | _all(int, "job size")
UPLOADED = _all(str, "checksum file storage") | {"new": bool, "size": int}
REGISTERED = {"new": int, "refused": [{"at": int, "reason": str}]}
COMPARED = {"differences": [_all(str, "checksum kind text") | _all(int, "at size")]}
SCAN = {"files": int, "new": int, "refused": [_all(str, "name reason")]}
FORGOTTEN = _all([str], "deleted kept") | {"file": str}
DATASET = _all(str, "author dataset") | _all(int, "files size version") | {"created": float}
DATASET_FILE = _all(str, "checksum file") | {"size": int}
SPACE = _all(NUMBER_OR_NONE, "free measured") | _all(str, "problem source")
STORAGE = BREAKERS | _all(str, "name restriction site") | {"blacklisted": [str], "space": SPACE}
MOVE = {
    **_all(int, "bytes_left left"),
    "files": [{"step": str}],
    "next": str,
    "same_place": bool,
}
TRANSFER = (
    _all(str, "destination error file share source state") | _all(int, "id priority") | {"since": float}
)
MOVING = _all(str, "destination file share") | _all(int, "attempt id size") | {"moved": WHOLE_OR_NONE}
PROGRESS = {"counts": COUNTS, "delivering": [MOVING], "shares": {str: COUNTS}, "time": float}

QUEUE = {
    **BREAKERS,
    **_all(str, "name restriction site status"),
    **_all(float, "max_memory max_walltime"),
    **_all(COUNTS, "jobs pilots"),
    "cores": int,
}
SHARE = {
    **_all(str, "name vo"),
    **_all(COUNTS, "jobs transfers"),
    "target": float,
    "used": NUMBER_OR_NONE,
    "follows": NUMBER_OR_NONE,
}
SHARE_TREND = _all(float, "running target used") | {"share": str, "spans": [{"used": float}]}
SITE = {
    **_all(str, "problem restriction site source"),
    **_all(WHOLE_OR_NONE, "current_jobs current_submitting_jobs matched max_jobs max_submitting_jobs"),
    "advertised": NUMBER_OR_NONE,
    "counts_everybody": (bool, None),
}
MATCH = {
    **_all(str, "queue site"),
    "rank": NUMBER_OR_NONE,
    "refusals": [_all(str, "name rule") | {"have": (float, str, bool, None)}],
}
PILOT = {
    **_all(str, "agent_version containment error kind lacks node queue reference state waits"),
    **_all(int, "id matched"),
    **_all(float, "created since"),
    "heartbeat": NUMBER_OR_NONE,
}
RESTRICTION = {
    **_all(str, "kind name"),
    **_all(int, "leaving pilot_ended running transfers waiting"),
    "pilot_ended_until": NUMBER_OR_NONE,
}

FEDERATION = {"storages": [_all(str, "name url")]}
FEDERATION_VERSION = _all(str, "actor file note") | {"changes": [str], "time": float, "version": int}
CHANGED_FEDERATION = _all([str], "changes effects losses") | {"version": int}
CALLER = _all(str, "name vo group vo_role role") | {"rights": [str], "expires": NUMBER_OR_NONE}
SIGN_IN_OFFER = _all(str, "name issuer client scopes audience")
TOKEN = _all(str, "id name role vo purpose") | {
    "created": float,
    "expires": NUMBER_OR_NONE,
    "used": NUMBER_OR_NONE,
}
AUDIT_RECORD = {
    **_all(str, "address owner owner_vo person record role server token verb vo why"),
    **_all(int, "id times"),
    **_all({}, "after before"),
    "time": float,
}
AUDIT_CHECK = _all(int, "next records") | {"hash": str, "faults": [{"record": int, "text": str}]}
SECRET = {"name": str, "set_at": float}
PERSON = {
    **_all(str, "name vo"),
    **_all(int, "jobs left pilots receivers secrets tokens"),
    "datasets": [str],
    "tasks": [int],
}
NOTIFICATION = _all(str, "error receiver state topic") | _all(int, "attempt id task") | {"since": float}
RECEIVERS = {"notify": [{"on": [str], "url": str}], "secret_made": NUMBER_OR_NONE}
LOOP = _all(str, "error name") | _all(NUMBER_OR_NONE, "ended seconds") | {"has_lease": bool}
SERVER = {
    **_all(str, "host name state version"),
    **_all(float, "seen started"),
    "lacks": [str],
    "loops": [LOOP],
    "silent_for": NUMBER_OR_NONE,
}
SERVERS = {"missing_loops": [str], "servers": [SERVER], "takeover": float}
WORLD = {"jobs": [{}], "seed": int, "time": float}
HEALTH = {"time": float, "version": str}
READINESS = {"failing_loops": {str: str}, "problems": [str]}
