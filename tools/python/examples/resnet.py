#!/usr/bin/env python3
"""ResNet-18 of torchvision: predictions through torch.compile, training through msc.train_step.

python3 resnet.py [STEPS]: prints the loss of each step; needs torch and torchvision, no data: images are noise."""

import sys
import warnings

import torch
import torchvision

import msc
import msc.pytorch  # where the package is not installed: torch.compile then knows the backend "msc"


def batches(num):
    generator = torch.Generator().manual_seed(1)
    for _ in range(num):
        yield torch.randn(4, 3, 64, 64, generator=generator), torch.randint(0, 10, (4,), generator=generator)


def predict(net):
    """The same scores as PyTorch's, for batches of any size."""
    compiled = torch.compile(net.eval(), backend="msc")
    for images, _ in batches(2):
        with torch.no_grad():
            off = (compiled(images) - net(images)).abs().max().item()
        assert off < 1e-4, f"scores are off by {off}"
    net.train()


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    torch.manual_seed(0)
    net = torchvision.models.resnet18(num_classes=10)
    predict(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    with msc.train_step(net, torch.nn.functional.cross_entropy, optimizer) as step:
        for images, labels in batches(steps):
            print(f"loss {step(images, labels):.4f}", flush=True)
            with warnings.catch_warnings():  # PyTorch does not see the optimizer's steps
                warnings.simplefilter("ignore")
                scheduler.step()
    print(f"running mean of the first norm: {net.bn1.running_mean.norm().item():.4f}")


if __name__ == "__main__":
    main()
