"""The engine bench on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.common import Record, Report, digits, machine_line, make_table

if TYPE_CHECKING:
    from rich.console import Console

# Beyond this share of the machine in others' hands, or this spread of repeats, a row is marked.
_OTHERS, _SPREAD = 0.05, 0.3

NOTES = """\
ours/s, plain/s: classifiers per second. plain: a batched PyTorch autograd loop, fp32, same threads
and trials, the fastest of 8, 64 and 256 stacked trials. Its time is steps × the median time of a
step (gathers included) + scoring; it is not run in full. ratio: its time per classifier over ours.
published: the same against that loop with the published code's four loss terms and
torch.optim.SGD. Scoring counts on both sides.
Useful FLOP: 2·|batch|·N·C per coefficient and step; the 3-layer head's first layer
2·|batch|·N·h0, its dense layers 6·|batch|·(h0·h1 + h1·C).
peak: share of the sgemm peak, numpy's float32 product of 2048 × 2048 matrices in this process."""


DISTURBED = """\
~ Other processes used the machine meanwhile, or repeats differ by over 30 %. Do not quote these
ratios: a busy core slows the plain side's threads far more than ours. Run it again when quiet."""


def show(report: Report, console: Console) -> None:
    """Print the table, the means, the profile where there is one, and how all was measured."""
    extra = report.extra
    title = "Engine" + (
        " (quick: fewer cases and repeats, not for quoting)" if extra["quick"] else ""
    )
    console.print(machine_line(report.machine), soft_wrap=True, highlight=False)
    columns = ("case", "ours/s", "GFLOP/s", "peak", "plain/s", "ratio", "published")
    console.print(make_table(title, columns, [_row(record) for record in report.records]))
    for family, ratio in extra["geomeans"].items():
        console.print(f"{family}: {digits(ratio)}× in geometric mean", highlight=False)
    console.print(f"sgemm peak: {extra['sgemm_peak_gflops']:.0f} GFLOP/s", highlight=False)
    compiled = ", ".join(f"{head} {s:.1f} s" for head, s in extra["compile_seconds"].items())
    console.print(f"compiling, not in the times above: {compiled}", highlight=False)
    if extra.get("profile"):
        rows = [(part, f"{share:.0%}") for part, share in extra["profile"].items()]
        console.print(
            make_table("Linear head, 16 ways, 25 shots, one thread", ("part", "share"), rows)
        )
    if any(disturbed(record) for record in report.records):
        console.print(DISTURBED, style="bold", soft_wrap=True)
    console.print(NOTES, highlight=False, soft_wrap=True)


def disturbed(record: Record) -> bool:
    """Say whether others kept the machine busy, or our repeats differ too much."""
    return (record["others_share"] or 0.0) > _OTHERS or record["spread"] > _SPREAD


def _row(record: Record) -> tuple[str, ...]:
    published = record.get("ratio_as_published")
    return (
        record["case"],
        digits(record["classifiers_per_s"]),
        digits(record["gflops"]),
        f"{record['peak_share']:.0%}",
        digits(1e3 / record["baseline_ms"]),
        ("~" if disturbed(record) else "") + digits(record["ratio"]) + "×",
        "–" if published is None else digits(published) + "×",
    )
