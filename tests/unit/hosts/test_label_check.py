"""The hook that finds labels outside the classes."""

from types import SimpleNamespace

import pytest
import torch
from mmengine.structures import BaseDataElement, InstanceData, PixelData
from torch import nn

from mmvisattn.hosts.input_error import InputError
from mmvisattn.hosts.label_check import LabelCheck, classification_head


class Head(nn.Module):
    def __init__(self, num_classes, ignore_index=None):
        super().__init__()
        self.num_classes = num_classes
        if ignore_index is not None:
            self.ignore_index = ignore_index


def model(**heads):
    owner = nn.Module()
    for name, head in heads.items():
        setattr(owner, name, head)
    return owner


def hook_for(head_owner):
    hook = LabelCheck()
    hook.before_run(SimpleNamespace(model=head_owner))
    return hook


def label_map(*values, **metainfo):
    sample = BaseDataElement(metainfo=metainfo)
    sample.gt_sem_seg = PixelData(data=torch.tensor([[values]]))
    return sample


def boxes(*labels):
    sample = BaseDataElement(metainfo=dict(img_path="a.jpg"))
    sample.gt_instances = InstanceData(labels=torch.tensor(labels, dtype=torch.long))
    return sample


def test_which_head_counts():
    detector = model(rpn_head=Head(1), roi_head=model(bbox_head=nn.ModuleList([Head(5), Head(5)])))
    assert classification_head(detector).num_classes == 5
    assert classification_head(model(bbox_head=Head(7))).num_classes == 7
    assert classification_head(model(decode_head=nn.ModuleList([Head(3), Head(4)]))).num_classes == 3
    assert classification_head(model(rpn_head=Head(1))) is None
    wrapped = model(module=model(module=model(bbox_head=Head(7))))  # data-parallel around test-time augmentation
    assert classification_head(wrapped).num_classes == 7


@pytest.mark.parametrize("mode", ["train", "val", "test"])
def test_label_maps(mode):
    hook = hook_for(model(decode_head=Head(4, ignore_index=255)))
    batch = {"data_samples": [label_map(0, 3, 255), label_map(4, 255, 9, seg_map_path="b.png")]}
    with pytest.raises(InputError) as caught:
        getattr(hook, f"before_{mode}_iter")(None, 0, batch)
    assert str(caught.value) == (
        "'b.png' holds the label 4 at 2 places, but the head has num_classes=4: allowed are 0 to 3 (and 255, which is "
        "ignored)."
    )
    getattr(hook, f"before_{mode}_iter")(None, 0, {"data_samples": batch["data_samples"][:1]})


def test_boxes():
    hook = hook_for(model(bbox_head=Head(2)))
    hook.before_train_iter(None, 0, {"data_samples": [boxes(), boxes(0, 1)]})
    with pytest.raises(InputError, match=r"^'a.jpg' holds the label 2 at 1 places, .*: allowed are 0 to 1\.$"):
        hook.before_train_iter(None, 0, {"data_samples": [boxes(0, 2)]})


@pytest.mark.parametrize("batch", [None, {"inputs": []}, {"data_samples": {"student": []}}])
def test_batches_of_another_form_pass(batch):
    hook_for(model(bbox_head=Head(2))).before_train_iter(None, 0, batch)


def test_a_model_without_classes_passes():
    hook_for(model()).before_train_iter(None, 0, {"data_samples": [boxes(99)]})
