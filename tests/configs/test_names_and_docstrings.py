"""Names follow the scheme of each host; each config says what it reproduces, expects and needs, and means it."""

import ast
import re

import pytest

# docs/en/user_guides/config.md of MMDetection: algorithm first.
MMDET_NAME = re.compile(
    r"[a-z0-9-]+"  # algorithm
    r"_(swin|swinv2|convnext|convnextv2)-[a-z]+(-p4)?(-w\d+(to\d+)?)?(-in22k)?"
    r"_fpn"
    r"(_4conv1fc-giou)?"
    r"_(\d+xb\d+-)?(amp-)?((ms-crop|ms-400-1400|lsj)-)?\d+x"
    r"_coco"
)
# docs/en/user_guides/1_config.md of MMSegmentation: backbone first, schedule in iterations, crop last.
MMSEG_NAME = re.compile(
    r"(swin|swinv2|convnext|convnextv2)-[a-z]+(-patch4-window\d+(to\d+)?)?(-in22k|-in1k)?(-\d+x\d+)?(-pre)?"
    r"_upernet"
    r"_8xb2-(amp-)?160k"
    r"_ade20k-(512x512|640x640)"
)
FIELDS = ("Reproduces", "Expected", "Hardware", "Command", "Official", "Ours", "Weights")


def docstring_fields(path):
    """Title of a config's docstring, and its fields `Name: text`."""
    title, _, rest = ast.get_docstring(ast.parse(path.read_text())).partition("\n\n")
    fields = re.findall(r"^(\w+): (.+?)(?=^\w+: |\Z)", rest, flags=re.MULTILINE | re.DOTALL)
    return title, {name: " ".join(text.split()) for name, text in fields}


def test_name_follows_the_host(config_name, config):
    pattern = {"mmdet": MMDET_NAME, "mmseg": MMSEG_NAME}[config.default_scope]
    assert pattern.fullmatch(config_name.split("/")[1])


def test_file_names_are_unique_so_that_one_is_enough(experiments):
    files = [name.split("/")[1] for name in experiments]
    assert len(set(files)) == len(files)


def test_docstring_has_every_part(config_name, config_file):
    title, fields = docstring_fields(config_file(config_name))
    assert title.endswith(".")
    assert tuple(fields) == FIELDS


def test_expected_metric_has_a_number_and_a_source_or_says_there_is_none(config_name, config_file):
    expected = docstring_fields(config_file(config_name))[1]["Expected"]
    assert re.search(r"(AP|mIoU) \d\d\.\d", expected) or expected.startswith("no published figure")
    assert re.search(r"README|paper|metafile|MMDetection|MMSegmentation|arXiv", expected)


def test_command_names_this_file(config_name, config_file):
    command = docstring_fields(config_file(config_name))[1]["Command"]
    assert re.fullmatch(rf"bash tools/dist_train\.sh configs/{re.escape(config_name)}\.py \d+", command)


def test_batch_of_the_docstring_the_loader_and_the_learning_rate_agree(config_name, config_file, config):
    fields = docstring_fields(config_file(config_name))[1]
    gpus, images, batch = map(int, re.search(r"(\d+) GPUs x (\d+) images? = (\d+) images", fields["Hardware"]).groups())
    assert int(fields["Command"].split()[-1]) == gpus
    assert images == config.train_dataloader.batch_size
    assert gpus * images == batch == config.auto_scale_lr.base_batch_size


def test_weights_of_the_docstring_are_those_of_the_config(config_name, config_file, config):
    weights = docstring_fields(config_file(config_name))[1]["Weights"]
    assert config.model.backbone.init_cfg.checkpoint.split("/")[-1] in weights


@pytest.mark.parametrize("word", ["in22k", "in1k"])
def test_name_and_weights_agree_on_the_pretraining(config_name, config, word):
    checkpoint = config.model.backbone.init_cfg.checkpoint
    if word in config_name:
        assert ("22k" in checkpoint) == (word == "in22k")


def test_name_and_pipeline_agree_on_the_crop(config_name, config):
    crop = re.search(r"(\d+)x(\d+)$", config_name)
    if crop is None:
        assert config.default_scope == "mmdet"
        return
    size = tuple(map(int, crop.groups()))
    steps = {step["type"]: step for step in config.train_dataloader.dataset.pipeline}
    assert tuple(steps["mmseg.RandomCrop"]["crop_size"]) == size
    assert tuple(config.model.data_preprocessor["size"]) == size


def test_name_and_optimizer_agree_on_mixed_precision(config_name, config):
    assert (config.optim_wrapper.type == "AmpOptimWrapper") == bool(re.search(r"[_-]amp-", config_name))


def test_name_and_schedule_agree(config_name, config):
    epochs = re.search(r"[_-](\d+)x_coco$", config_name)
    if epochs:
        assert config.train_cfg.max_epochs == 12 * int(epochs.group(1))
    else:
        assert config.train_cfg.max_iters == 160000
    length = config.train_cfg.get("max_epochs") or config.train_cfg.max_iters
    assert config.param_scheduler[-1].end == length, "the rate must decay until training ends"
