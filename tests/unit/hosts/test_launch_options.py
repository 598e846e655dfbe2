"""What the flags of the command lines make of a config: precision, test-time augmentation, outputs, checkpoints."""

import pytest
import torch
from mmengine.config import Config, ConfigDict

from mmvisattn.hosts import launch, precision, prediction_outputs, tta
from mmvisattn.hosts.input_error import InputError

PIPELINE = [
    dict(type="LoadImageFromFile"),
    dict(type="mmseg.Resize", scale=(64, 64)),
    dict(type="mmseg.LoadAnnotations"),
    dict(type="mmseg.PackSegInputs", meta_keys=("img_path", "flip")),
]


def config(scope="mmseg", **values):
    return Config(dict(default_scope=scope, **values))


# --amp


@pytest.mark.parametrize(
    ("gpu", "given", "expected"),
    [
        (True, dict(type="OptimWrapper"), dict(type="AmpOptimWrapper", loss_scale="dynamic")),
        (True, dict(lr=1), dict(type="AmpOptimWrapper", loss_scale="dynamic", lr=1)),
        (
            True,
            dict(type="AmpOptimWrapper", dtype="bfloat16", loss_scale=512.0),
            dict(type="AmpOptimWrapper", dtype="bfloat16", loss_scale=512.0),
        ),
        (False, dict(type="mmengine.OptimWrapper"), dict(type="mmvisattn.CpuAmpOptimWrapper")),
        (
            False,
            dict(type="AmpOptimWrapper", dtype="float16", loss_scale="dynamic", clip_grad=1),
            dict(type="mmvisattn.CpuAmpOptimWrapper", clip_grad=1),
        ),
    ],
)
def test_amp(monkeypatch, gpu, given, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(precision, "print_log", lambda *_, **__: None)  # a new logger would look for the GPU's number
    cfg = config(optim_wrapper=given)
    precision.enable_amp(cfg)
    assert dict(cfg.optim_wrapper) == expected
    precision.check_device(cfg)


def test_amp_of_an_unknown_wrapper():
    with pytest.raises(
        InputError, match=r"^--amp needs optim_wrapper.type to be 'OptimWrapper', but .* 'ApexOptimWrapper'"
    ):
        precision.enable_amp(config(optim_wrapper=dict(type="ApexOptimWrapper")))


# --tta


def test_a_derived_pipeline_flips_before_it_loads_annotations():
    load, resize, augmented = tta.flip_pipeline(PIPELINE)
    assert [load["type"], resize["type"], augmented["type"]] == ["LoadImageFromFile", "mmseg.Resize", "TestTimeAug"]
    views, annotations, pack = augmented["transforms"]
    assert [(view["type"], view["prob"]) for view in views] == [("mmseg.RandomFlip", 0.0), ("mmseg.RandomFlip", 1.0)]
    assert annotations == [PIPELINE[2]]
    assert pack[0]["meta_keys"] == ("img_path", "flip", "flip_direction")
    assert PIPELINE[3]["meta_keys"] == ("img_path", "flip")  # the test pipeline itself is left alone


@pytest.mark.parametrize("pipeline", [PIPELINE[:2], [*PIPELINE[:1], dict(type="TestTimeAug"), PIPELINE[3]]])
def test_a_pipeline_that_cannot_be_derived(pipeline):
    with pytest.raises(InputError, match=r"^--tta needs a tta_pipeline in the config: none can be derived from"):
        tta.flip_pipeline(pipeline)


def test_the_configs_own_augmentation_is_used():
    loader = dict(dataset=dict(type="Repeat", dataset=dict(type="Data", pipeline=PIPELINE)))
    own = dict(tta_model=dict(type="Merge", weight=2), tta_pipeline=[dict(type="Mine")])
    cfg = config(model=dict(type="Model"), test_dataloader=loader, **own)
    tta.enable_tta(cfg)
    assert cfg.model == dict(type="Merge", weight=2, module=dict(type="Model"))
    assert cfg.test_dataloader.dataset.dataset.pipeline == [dict(type="Mine")]


# --out, --show, --show-dir


def test_out_keeps_the_evaluators():
    cfg = config("mmdet", test_evaluator=[dict(type="A"), dict(type="B")])
    prediction_outputs.save_predictions(cfg, "all.pkl")
    assert [metric["type"] for metric in cfg.test_evaluator] == ["A", "B", "mmdet.DumpDetResults"]
    cfg = config("mmseg", test_evaluator=[dict(type="A"), dict(type="mmseg.IoUMetric")])
    prediction_outputs.save_predictions(cfg, "maps")
    assert cfg.test_evaluator[1]["output_dir"] == "maps"


def test_out_needs_a_metric_that_saves():
    with pytest.raises(InputError, match=r"^--out needs an IoUMetric among test_evaluator"):
        prediction_outputs.save_predictions(config(test_evaluator=dict(type="DepthMetric")), "maps")


@pytest.mark.parametrize("scope", ["mmdet", "mmseg"])
def test_show(scope):
    cfg = config(scope, default_hooks=dict(visualization=dict(type="Hook")), visualizer=dict(type="Visualizer"))
    prediction_outputs.show_predictions(cfg, show=True, show_dir="painted", wait_time=1.0)
    hook = cfg.default_hooks.visualization
    assert (hook.draw, hook.show, hook.wait_time) == (True, True, 1.0)
    assert (cfg.visualizer.get("save_dir") or hook.get("test_out_dir")) == "painted"


def test_show_needs_a_hook():
    with pytest.raises(
        InputError, match=r"^--show and --show-dir need default_hooks.visualization=.*SegVisualizationHook"
    ):
        prediction_outputs.show_predictions(config(default_hooks={}), show=True, show_dir=None, wait_time=1.0)


# --resume


@pytest.mark.parametrize(
    ("resume", "latest", "expected"),
    [
        ("mine.pth", "latest.pth", (True, "mine.pth")),
        ("auto", "latest.pth", (True, "latest.pth")),
        ("auto", None, (False, "pretrained.pth")),  # a fresh start still loads what the config loads
    ],
)
def test_resume(monkeypatch, resume, latest, expected):
    monkeypatch.setattr(launch, "find_latest_checkpoint", lambda work_dir: latest)
    cfg = config(load_from="pretrained.pth", work_dir="work")
    launch.choose_checkpoint(cfg, resume)
    assert (cfg.resume, cfg.load_from) == expected


@pytest.mark.parametrize("address", [None, "https://example.org/a.pth", "torchvision://resnet50"])
def test_addresses_are_not_looked_up_on_disk(address):
    launch.check_checkpoint(address, "load_from")


def test_scaling(tmp_path):
    cfg = config(auto_scale_lr=ConfigDict(base_batch_size=16, enable=False))
    launch.enable_lr_scaling(cfg)
    assert cfg.auto_scale_lr.enable is True
