"""Make a random reference and the reads of seven samples. One file is cut off, unless --repaired is given."""

import csv
import pathlib
import random
import sys

READS = {
    "sample_1": 400,
    "sample-2.rerun": 400,
    "sample 3 (tumour)": 400,
    "sample 4 'normal'": 400,
    "sample_5_deep": 50_000,
    "sample_6": 400,
    "größe_7": 400,
}
CUT_OFF = "sample_6"
LENGTH = 100

draw = random.Random(1)
genome, foreign = ("".join(draw.choices("ACGT", k=20_000)) for _ in range(2))


def reads(count: int) -> str:
    """Return reads of the genome as FASTQ; every twentieth comes from another one."""
    lines: list[str] = []
    for number in range(count):
        start = draw.randrange(len(genome) - LENGTH)
        source = genome if number % 20 else foreign
        lines += (f"@{number}", source[start : start + LENGTH], "+", "I" * LENGTH)
    return "\n".join(lines) + "\n"


folder = pathlib.Path("pilotage-data/genomics")
(folder / "samples").mkdir(parents=True, exist_ok=True)
(folder / "reference.fa").write_text(f">random\n{genome}\n")
for name, count in READS.items():
    text = reads(count)
    if name == CUT_OFF and "--repaired" not in sys.argv:
        text = text[: len(text) // 2]
    (folder / "samples" / f"{name}.fastq").write_text(text)
with pathlib.Path("samples.csv").open("w", newline="") as file:
    csv.writer(file).writerows([["sample"], *([name] for name in READS)])
