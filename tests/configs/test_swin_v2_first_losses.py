"""In both hosts, the first losses of Swin V2, new and without weights, are those of Swin V1."""

import pytest
import torch

PAIRS = (
    ("swin/mask-rcnn_swin-t-p4-w7_fpn_1x_coco", "swin_v2/mask-rcnn_swinv2-t-p4-w8_fpn_1x_coco"),
    (
        "swin/swin-tiny-patch4-window7-in1k-pre_upernet_8xb2-160k_ade20k-512x512",
        "swin_v2/swinv2-tiny-patch4-window8-in1k-256x256-pre_upernet_8xb2-160k_ade20k-512x512",
    ),
)


@pytest.mark.parametrize("names", PAIRS)
def test_first_losses(names, read_config, nano_model, random_batch):
    totals = []
    for name in names:
        torch.manual_seed(0)
        config = read_config(name)
        model = nano_model(config)
        model.init_weights()
        data = model.data_preprocessor(random_batch(config), training=True)
        with torch.no_grad():
            total, _ = model.train().parse_losses(model(**data, mode="loss"))
        totals.append(total.item())
    assert totals[1] == pytest.approx(totals[0], rel=0.05)
