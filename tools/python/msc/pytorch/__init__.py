"""PyTorch's front end: modules in, model.fbs out.  Imported by msc.export, msc.annotate and msc.shard."""

from msc.pytorch.export import export
from msc.pytorch.hints import annotate, shard

__all__ = ["annotate", "export", "shard"]
