"""The page of what a payload finds lists every variable that Pilotage gives to one."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "payload.md"
GIVEN_IN = (
    "agent/payload/workdir.py",
    "model/rules/stations.py",
    "model/rules/job_payload.py",
    "adapters/computing/forwarding/forwarded_attempt.py",
)


def test_every_variable_of_a_payload_is_on_the_page() -> None:
    code = "".join((ROOT / "src" / "pilotage" / name).read_text() for name in GIVEN_IN)
    given = set(re.findall(r'"(PILOTAGE_[A-Z_]+)"', code)) | {
        f"PILOTAGE_{name}" for name in ("INDEX", "SEED", "FIRST_EVENT")
    }
    listed = set(re.findall(r"^\| `(PILOTAGE_[A-Z_]+)`", PAGE.read_text(), re.MULTILINE))
    assert len(given) >= 10
    assert given <= listed
