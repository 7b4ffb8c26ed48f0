"""PyTorch's front end: modules in, model.fbs or running plans out.  Imported by msc.export, msc.train_step,
msc.annotate and msc.shard; torch.compile finds its backend "msc" once this is imported, or the package is installed."""

from msc.pytorch import backend
from msc.pytorch.export import export
from msc.pytorch.hints import annotate, shard
from msc.pytorch.train import TrainStep, train_step

__all__ = ["TrainStep", "annotate", "backend", "export", "shard", "train_step"]
