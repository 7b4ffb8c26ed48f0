"""What torch.compile(net, backend="msc") finds where the package is installed; imports msc.pytorch when it is called,
which gives PyTorch the same name, and may not do so while PyTorch looks this one up."""


def backend(module, example_inputs, **options):
    from msc.pytorch.backend import backend as compiled
    return compiled(module, example_inputs, **options)
