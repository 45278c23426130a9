"""What payloads run: each keeps the ledger itself, which no part of Pilotage reads or writes."""

LEDGER = """
import fcntl, os, pathlib, sys, time, zlib
ledger, seconds, failures = pathlib.Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
job, attempt = os.environ["PILOTAGE_JOB"], os.environ["PILOTAGE_ATTEMPT"]
book = open(ledger / job, "a+")
try:
    fcntl.flock(book, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    with open(ledger / "overlaps", "a") as overlaps:
        overlaps.write(f"{attempt} began during another one of its job at {os.environ['PILOTAGE_SITE']}\\n")
book.seek(0)
failed = sum(" fails" in line for line in book)
fails = failed < failures
print(f"{attempt} begins {time.time():.3f}", file=book, flush=True)
time.sleep(seconds)
print(f"{attempt} {'fails' if fails else 'ends'} {time.time():.3f}", file=book, flush=True)
if fails:
    # Attempts that fail alike would stop the task (F3).
    sys.exit(10 + (int(job) + 7 * failed) % 80)
lines = []
if os.path.exists("inputs.txt"):
    for name in open("inputs.txt").read().split():
        lines.append(f"{pathlib.Path(name).name} {zlib.adler32(pathlib.Path(name).read_bytes())}")
"""
"""Arguments: the ledger, the seconds of its run, and how many attempts fail on purpose.

Two attempts of a job that run at once meet at the lock of the job's book.
"""

SUMS = (
    LEDGER
    + """
lines = sorted(lines) or [f"index {os.environ['PILOTAGE_INDEX']}"]
pathlib.Path(f"sums-{os.environ['PILOTAGE_INDEX']}.txt").write_text("\\n".join(lines) + "\\n")
"""
)
"""Writes a line for each input; without inputs, one with the job's index."""

MERGE = """
import pathlib
texts = [path.read_text() for path in pathlib.Path("inputs").rglob("sums-*.txt")]
pathlib.Path("merged.txt").write_text("\\n".join(sorted("".join(texts).splitlines())) + "\\n")
"""
"""Sorts the lines of all outputs into one file."""
