"""What makes the mm stack run anywhere: mmcv's operators, safe checkpoints, launching, the doctor."""
