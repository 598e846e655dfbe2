"""The table of configurations: small, complete, and rewritten by the tuner only."""

import itertools
import json
import shutil

import pytest

from mmvisattn.ops.window_attention.triton import configurations, tuner
from mmvisattn.ops.window_attention.triton.configurations import TABLE_FILE, find_configuration, read_table

NUMBERS = ("half", "ieee", "tf32")


def test_few_enough_rows_to_read_and_to_compile():
    for architecture, rows in read_table().items():
        assert len(rows) <= configurations.MAX_ROWS, architecture


@pytest.mark.parametrize("architecture", ["80", "90", "120"])
def test_every_call_that_the_kernels_take_has_a_configuration(architecture):
    tiled = [op for op in configurations.OPS if op.startswith("tiled")]
    for op, tokens, head_dim, numbers in itertools.product(tiled, (1, 49, 65, 1024), (8, 24, 33, 64, 96, 128), NUMBERS):
        assert find_configuration(op, tokens, head_dim, numbers, architecture) is not None


@pytest.mark.parametrize("architecture", ["80", "90", "120"])
def test_swin_runs_the_whole_window_kernels(architecture):
    for op, window, numbers in itertools.product(("whole_forward", "whole_backward"), (7, 8), ("half", "ieee")):
        assert find_configuration(op, window**2, 32, numbers, architecture) is not None
    assert find_configuration("whole_forward", 65, 32, "half", architecture) is None


def test_the_smallest_class_that_holds_a_call_comes_first():
    for rows in read_table().values():
        for op, numbers in {(row.op, row.numbers) for row in rows}:
            limits = [(row.max_tokens, row.max_head_dim) for row in rows if (row.op, row.numbers) == (op, numbers)]
            assert limits == sorted(limits)


def test_a_table_with_an_unknown_kernel_is_refused(tmp_path):
    file = tmp_path / "table.json"
    file.write_text(json.dumps({"80": [["whole_sideways", 64, 32, "half", 64, 64, 4, 1, 2]]}))
    with pytest.raises(ValueError, match="whole_sideways"):
        read_table(file)


def test_the_tuner_takes_the_fastest_and_leaves_other_architectures_alone(tmp_path):
    file = tmp_path / "table.json"
    shutil.copy(TABLE_FILE, file)
    lines = []
    tuner.tune(
        lines.append,
        measure=lambda row, candidate: abs(candidate.warps - 2) + abs(candidate.block_q - 64),
        architecture="90",
        file=file,
    )
    before, after = read_table(), read_table(file)
    assert after["80"] == before["80"] and len(lines) == len(after["90"])
    assert all(row.configuration.warps == 2 for row in after["90"] if row.op.startswith("whole"))
    assert all(row.configuration.block_q == 64 for row in after["90"] if row.op.startswith("tiled"))


def test_a_replaced_row_comes_back():
    row = read_table()["80"][0]
    key = row.op, row.max_tokens, row.max_head_dim, row.numbers, "80"
    other = row.configuration._replace(warps=16)
    with configurations.replaced("80", row, other):
        assert find_configuration(*key) == other
    assert find_configuration(*key) == row.configuration
