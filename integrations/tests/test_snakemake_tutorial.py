"""The tutorial of Snakemake, with reads that this test makes: bwa, samtools and bcftools on a shared disk."""

import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from workflow import Workflow, newest

from pilotage.client import Client

PROGRAMS = ("bwa", "samtools", "bcftools")
SAMPLES = ("A", "B")
PLACE = 2500
"""Where the genome of the samples differs from the reference, counted from 0."""

SNAKEFILE = """\
SAMPLES = ["A", "B"]

rule all:
    input: "plots/quals.txt"

rule bwa_map:
    input: "data/genome.fa", "data/samples/{sample}.fastq"
    output: temp("mapped_reads/{sample}.bam")
    params: rg=r"@RG\\tID:{sample}\\tSM:{sample}"
    log: "logs/bwa_mem/{sample}.log"
    threads: 2
    resources: mem_mb=600
    shell:
        "(bwa mem -R '{params.rg}' -t {threads} {input[0]} {input[1]} | "
        "samtools view -Sb - > {output}) 2> {log}"

rule samtools_sort:
    input: "mapped_reads/{sample}.bam"
    output: protected("sorted_reads/{sample}.bam")
    resources: mem_mb=600
    shell: "samtools sort -T sorted_reads/{wildcards.sample} -O bam {input} > {output}"

rule samtools_index:
    input: "sorted_reads/{sample}.bam"
    output: "sorted_reads/{sample}.bam.bai"
    resources: mem_mb=600
    shell: "samtools index {input}"

rule bcftools_call:
    input:
        fa="data/genome.fa",
        bam=expand("sorted_reads/{sample}.bam", sample=SAMPLES),
        bai=expand("sorted_reads/{sample}.bam.bai", sample=SAMPLES)
    output: "calls/all.vcf"
    params: rate=0.001
    log: "logs/bcftools_call/all.log"
    resources: mem_mb=600
    shell:
        "(bcftools mpileup -f {input.fa} {input.bam} | "
        "bcftools call -mv -P {params.rate} - > {output}) 2> {log}"

rule plot_quals:
    input: "calls/all.vcf"
    output: "plots/quals.txt"
    resources: mem_mb=600
    run:
        with open(input[0]) as calls, open(output[0], "w") as quals:
            quals.writelines(f"{line.split()[5]}\\n" for line in calls if not line.startswith("#"))
"""
"""The tutorial has it like this, but its last rule plots by matplotlib."""


def write_reads(folder: Path) -> tuple[str, str]:
    """Write a reference and reads of the samples, whose genome differs at one place. Return both bases."""
    dice = random.Random(50)
    genome = dice.choices("ACGT", k=5000)
    reference, other = genome[PLACE], "CGTA"["ACGT".index(genome[PLACE])]
    (folder / "data/samples").mkdir(parents=True)
    (folder / "data/genome.fa").write_text(f">I\n{''.join(genome)}\n")
    genome[PLACE] = other
    for sample in SAMPLES:
        starts = [dice.randrange(len(genome) - 100) for _ in range(1500)]
        reads = ("".join(genome[start : start + 100]) for start in starts)
        lines = (f"@{sample}{number}\n{read}\n+\n{'I' * 100}\n" for number, read in enumerate(reads))
        (folder / f"data/samples/{sample}.fastq").write_text("".join(lines))
    return reference, other


@pytest.mark.skipif(
    not all(map(shutil.which, PROGRAMS)), reason="apt-get install bwa samtools bcftools: one is missing"
)
def test_the_tutorial_finds_where_the_samples_differ(workflow: Workflow, client: Client) -> None:
    reference, other = write_reads(workflow.folder)
    subprocess.run(["bwa", "index", "data/genome.fa"], cwd=workflow.folder, check=True)
    (workflow.folder / "Snakefile").write_text(SNAKEFILE)
    log = workflow.run()
    assert "9 of 9 steps (100%) done" in log
    calls = (workflow.folder / "calls/all.vcf").read_text().splitlines()
    (call,) = [line.split("\t") for line in calls if not line.startswith("#")]
    assert call[:2] + call[3:5] == ["I", str(PLACE + 1), reference, other]
    assert [genotype.partition(":")[0] for genotype in call[9:]] == ["1/1"] * 2
    assert float((workflow.folder / "plots/quals.txt").read_text()) == float(call[5])
    assert not (workflow.folder / "mapped_reads/A.bam").exists()
    finished: Counter[str] = Counter()
    for task in newest(client, 8):
        finished[task["spec"]["labels"]["rule"]] += task.counts.get("finished", 0)
    jobs = {"bwa_map": 2, "samtools_sort": 2, "samtools_index": 2, "bcftools_call": 1, "plot_quals": 1}
    assert {rule: finished[rule] for rule in jobs} == jobs
