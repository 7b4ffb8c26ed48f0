#!/usr/bin/env python3
"""Small networks of transformers: exported, 20 steps on one rank and on four in auto_parallel, judged in f64."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from framework import need  # noqa: E402

need("torch", "numpy", "transformers")
import train_zoo  # noqa: E402
import zoo  # noqa: E402

train_zoo.main(zoo.TRANSFORMERS)
