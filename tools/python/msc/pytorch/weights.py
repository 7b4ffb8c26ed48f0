"""Named torch tensors in, a safetensors file out."""

import json
import os

import torch

_NAMES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.bool: "BOOL",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.uint8: "U8",
    torch.uint16: "U16",
    torch.uint32: "U32",
    torch.uint64: "U64",
}


def _bytes(tensor):
    flat = tensor.detach().cpu().contiguous().flatten()
    return flat.numpy().tobytes() if flat.dtype == torch.bool else memoryview(flat.view(torch.uint8).numpy())


def write(path, tensors):
    """Writes them in this order.  What stood at `path` stays until the new file is complete."""
    header, at = {}, 0
    for name, t in tensors.items():
        size = t.numel() * t.element_size()
        header[name] = {"dtype": _NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for t in tensors.values():
                out.write(_bytes(t))
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
