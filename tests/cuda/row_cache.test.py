#!/usr/bin/env python3
"""row_cache: tests/e2e/row_cache.test.py with plans for GPUs, whose kernels the stand-in executes."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ["MSC_TEST_TARGET"] = "cuda"
os.execv(sys.executable, [sys.executable, os.path.join(HERE, "..", "e2e", "row_cache.test.py")])
