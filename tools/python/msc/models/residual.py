"""Residual networks (He et al. 2015) on pictures [N, 3, image, image]."""
from math import sqrt

from msc.models import network
from msc.ops import Error

FLAGS = {"image": (224, "height and width of the pictures"),
         "classes": (1000, "classes"),
         "width": (64, "channels of the first stage; later ones have 2, 4 and 8 times as many"),
         "stem": (("imagenet", "small"), "first layers: windows of 7 in steps of 2 and a pool, or windows of 3")}


def conv(g, x, channels, kernel, name, stride=1):
    """A convolution with its normalization; weights as PyTorch's ResNet."""
    h = g.conv(x, channels, kernel, name, stride=stride, init=f"normal:{sqrt(2 / (channels * kernel * kernel))!r}")
    return g.norm(h, name=f"{name}.norm")


def stem(g, options):
    x = g.input("x", "f32", [options.batch, 3, options.image, options.image])
    if options.stem == "small":
        return g.relu(conv(g, x, options.width, 3, "stem"), name="stem.relu")
    if options.image < 32:
        raise Error(f"--image {options.image}: the stem of imagenet needs 32 at least; --stem small takes less")
    h = g.relu(conv(g, x, options.width, 7, "stem", 2), name="stem.relu")
    return g.max_pool(h, [3, 3], stride=[2, 2], padding=[1] * 4, name="stem.pool")


def basic(g, x, channels, name, stride):
    """Two convolutions of 3 x 3."""
    h = g.relu(conv(g, x, channels, 3, f"{name}.conv1", stride), name=f"{name}.relu1")
    return conv(g, h, channels, 3, f"{name}.conv2")


def bottleneck(g, x, channels, name, stride):
    """1 x 1, 3 x 3 and 1 x 1 to four times the channels; the stride is that of 3 x 3."""
    h = g.relu(conv(g, x, channels, 1, f"{name}.conv1"), name=f"{name}.relu1")
    h = g.relu(conv(g, h, channels, 3, f"{name}.conv2", stride), name=f"{name}.relu2")
    return conv(g, h, 4 * channels, 1, f"{name}.conv3")


def residual(g, options, block, stages):
    h = stem(g, options)
    for s, blocks in enumerate(stages, 1):
        for b in range(1, blocks + 1):
            name, stride = f"stage{s}.block{b}", 2 if s > 1 and b == 1 else 1
            y = block(g, h, options.width * 2 ** (s - 1), name, stride)
            if y.shape[1:] != h.shape[1:]:
                h = conv(g, h, y.shape[1], 1, f"{name}.shortcut", stride)
            h = g.relu(g.add(y, h, name=f"{name}.add"), name=f"{name}.relu")
    h = g.dense(g.reduce_mean(h, [2, 3], name="pool"), options.classes, name="dense")
    g.output("logits", h)
    g.loss(g.softmax_cross_entropy(h, g.input("y", "i32", [options.batch], role="label"), name="loss"))


@network(**FLAGS)
def resnet18(g, options):
    """18 layers: two blocks of two convolutions in each of four stages"""
    residual(g, options, basic, [2, 2, 2, 2])


@network(**FLAGS)
def resnet50(g, options):
    """50 layers: three, four, six and three blocks of three convolutions"""
    residual(g, options, bottleneck, [3, 4, 6, 3])
