"""Two analyses among the examples, as their readers run them: each line of their pages as it stands."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_for

from .pages import ROOT, run, shell_lines

pytestmark = pytest.mark.endurance

EXAMPLES = ROOT / "examples"
ENVIRONMENT = ROOT / "build" / "astronomy-venv"
IMPORTS = "import astropy.io.fits, skimage.feature"


@pytest.fixture
def place(tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a reader, and in another terminal the server of their first task."""
    folder, home = tmp_path / "work", tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("PILOTAGE_HOME", str(home))
    monkeypatch.setenv("PILOTAGE_URL", f"http://127.0.0.1:{free_port}")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.chdir(folder)
    assert run("pilotage init").returncode == 0
    with subprocess.Popen(["pilotage", "up"]) as server:
        try:
            wait_for(lambda: server.poll() is not None or (home / "token").exists(), "the server runs")
            yield folder
        finally:
            server.terminate()


def follow(name: str, place: Path, *untyped: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Copy an example, and type the lines of its page; return each with its output, and those that failed."""
    shutil.copytree(EXAMPLES / name, place, dirs_exist_ok=True)
    shown, failed = [], []
    for line in shell_lines((EXAMPLES / name / "README.md").read_text()):
        if line in untyped:
            continue
        done = run(line)
        print(f"$ {line}\n{done.stdout}{done.stderr}")
        shown.append((line, done.stdout))
        failed += [line] if done.returncode else []
    return shown, failed


def stages(text: str) -> list[str]:
    """Return what `submit --resume` prints of each stage."""
    return [line for line in text.splitlines() if re.match(r"\w+ (runs|is skipped):", line)]


@pytest.mark.skipif(
    not (shutil.which("bwa") and shutil.which("samtools")), reason="bwa or samtools is not installed"
)
def test_a_genomics_chain_fails_is_mended_and_runs_only_what_changed(place: Path) -> None:
    shown, failed = follow("genomics", place)
    output = dict(shown)
    assert failed == ["pilotage wait genomics"], "the first wait, not the others"
    assert re.search(r"\(align\): failed: 1 of 7 jobs failed", output["pilotage explain genomics"])
    assert "(report): it is held" in output["pilotage explain genomics"]
    assert "sample_6.fastq is cut off: it has 801 lines" in output["pilotage logs align --failed"]
    rows = re.findall(
        r"^ *(\d+) .*sample=(.*?) +local-cores +(\w+) +(\d)", output["pilotage jobs align"], re.M
    )
    attempts = {sample: (state, int(attempt)) for _, sample, state, attempt in rows}
    usual = {"sample_1", "sample-2.rerun", "sample 3 (tumour)", "sample 4 'normal'", "größe_7"}
    assert attempts.keys() == usual | {"sample_5_deep", "sample_6"}
    assert {attempts[sample] for sample in usual} == {("done", 1)}
    assert attempts["sample_5_deep"] == ("done", 2)
    assert attempts["sample_6"] == ("failed", 3)
    (deep,) = (job for job, sample, *_ in rows if sample == "sample_5_deep")
    assert "attempt 2 of 3, with ram 48 to 96" in run(f"pilotage explain job:{deep}").stdout
    mended, changed = (stages(text) for line, text in shown if line.endswith("--resume"))
    page = (EXAMPLES / "genomics" / "README.md").read_text()
    assert len(mended) == 3
    assert all(line in page for line in mended)
    assert changed == [
        "index is skipped: task 1 has made its outputs",
        "align is skipped: task 4 has made its outputs",
        "report runs: its environment changed",
    ]
    for folder, quality in (("report", "20"), ("report-60", "60")):
        (table,) = (place / folder).rglob("report.tsv")
        head, *lines = (line.split("\t") for line in table.read_text().splitlines())
        assert head == ["sample", "reads", "mapped", f"above quality {quality}"]
        counts = {sample: (reads, mapped) for sample, reads, mapped, _ in lines}
        assert counts.pop("sample_5_deep") == ("50000", "47500")
        assert counts == dict.fromkeys(usual | {"sample_6"}, ("400", "380"))


@pytest.fixture(scope="module")
def environment() -> Path:
    """An environment with astropy and scikit-image, from PyPI."""
    python = ENVIRONMENT / "bin" / "python"
    if not (python.exists() and subprocess.run([python, "-c", IMPORTS], check=False).returncode == 0):
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "astropy", "scikit-image"]
        done = subprocess.run(install, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            pytest.skip(f"astropy and scikit-image cannot be installed: {done.stderr.strip()[-200:]}")
    return ENVIRONMENT


def test_a_sweep_finds_the_stars_of_an_image(place: Path, environment: Path) -> None:
    """The environment of the test stands for the one that the page installs."""
    (place / "venv").symlink_to(environment)
    shown, failed = follow(
        "astronomy", place, "python3 -m venv venv", "venv/bin/pip install astropy scikit-image"
    )
    assert failed == []
    assert (
        len(re.findall(r"threshold=\d, smoothing=\S+ +local-cores +done", dict(shown)["pilotage jobs stars"]))
        == 9
    )
    assert sorted(path.name for path in (place / "stars").iterdir()) == [
        "manifest.csv",
        "ro-crate-metadata.json",
        "table.tsv",
    ]
    head, *lines = (line.split("\t") for line in (place / "stars" / "table.tsv").read_text().splitlines())
    assert head == ["threshold", "smoothing", "stars", "missed", "false"]
    rows = {(line[0], line[1]): [int(count) for count in line[2:]] for line in lines}
    assert rows.keys() == {(threshold, width) for threshold in "345" for width in ("0.5", "1.5", "3")}
    assert all(stars + missed == 200 for stars, missed, _ in rows.values())
    assert min(rows, key=lambda row: rows[row][1] + rows[row][2])[1] == "1.5", "the width of the stars"
    assert rows["4", "1.5"][2] < 5
    assert rows["3", "0.5"][2] > 100
