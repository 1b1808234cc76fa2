#!/bin/bash
# the device-side assert of last week
export CUDA_LAUNCH_BLOCKING=1
python train.py
