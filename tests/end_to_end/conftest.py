"""A tiny dataset in both layouts, tiny configs of both hosts, and the options that bring them together."""

import shutil
from pathlib import Path

import pytest

from mmvisattn.datasets.shapes import make_shapes

CONFIGS = Path(__file__).parent / "configs"


@pytest.fixture(scope="session")
def tiny_configs():
    """Host -> path of a tiny config."""
    return {"mmdet": str(CONFIGS / "tiny_mask_rcnn.py"), "mmseg": str(CONFIGS / "tiny_upernet.py")}


@pytest.fixture(scope="session")
def generated_shapes(tmp_path_factory):
    """Folder of 4 training and 2 validation images of 64 pixels; not to be changed."""
    return make_shapes(tmp_path_factory.mktemp("data") / "shapes", train_images=4, val_images=2, image_size=64)


@pytest.fixture
def shapes(generated_shapes, tmp_path):
    """A copy of the tiny dataset, free to be damaged."""
    return Path(shutil.copytree(generated_shapes, tmp_path / "shapes"))


@pytest.fixture(scope="session")
def data_options():
    """Host, folder -> the config options that point a tiny config at the folder."""

    def options(host, root):
        chosen = {f"{split}_dataloader.dataset.data_root": f"{root}/" for split in ("train", "val", "test")}
        if host == "mmdet":
            annotations = f"{root}/annotations/instances_val.json"
            chosen.update({f"{split}_evaluator.ann_file": annotations for split in ("val", "test")})
        return chosen

    return options
