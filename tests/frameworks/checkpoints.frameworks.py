#!/usr/bin/env python3
"""Checkpoints of other libraries: a distributed checkpoint that PyTorch writes on three ranks, sharded in every way,
and files of torch.save are converted to the same bits; what msc writes, one file or sharded ones with an index, is
read by transformers, and what transformers writes by msc."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from framework import msc, need  # noqa: E402

need("torch", "safetensors", "transformers", "numpy")
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

RANKS = 3


def values():
    torch.manual_seed(3)
    return {
        "w": torch.randn(7, 4), "half": torch.randn(3, 6).to(torch.bfloat16), "one": torch.randn(5).double(),
        "flags": torch.tensor([True, False, True]), "long": torch.arange(11), "scalar": torch.tensor(3.5)
    }


def write_distributed(rank, folder, port):
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(RANKS))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    mesh, v = init_device_mesh("cpu", (RANKS, )), values()
    cut = {"w": Shard(0), "half": Shard(1), "one": Shard(0), "long": Replicate()}
    state = {k: distribute_tensor(t, mesh, [cut[k]]) if k in cut else t for k, t in v.items()}
    dcp.save({"model": state, "optim": {"state": {"w": {"exp_avg": state["w"] * 2}}, "lr": 0.1}, "step": 7},
             checkpoint_id=folder)
    dist.destroy_process_group()


def same(got, want, prefix=""):
    for name, tensor in want.items():
        found = got[prefix + name]
        assert found.dtype == tensor.dtype and torch.equal(found, tensor), f"{prefix + name} differs"


def check_torch(folder):
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), str(r), f"{folder}/dcp", str(port)],
                              stderr=subprocess.PIPE, text=True) for r in range(RANKS)]
    errors = [r.communicate(timeout=120)[1] for r in ranks]
    assert not any(r.returncode for r in ranks), errors
    msc("ckpt", "convert", f"{folder}/dcp", "-o", f"{folder}/dcp.safetensors")
    got = load_file(f"{folder}/dcp.safetensors")
    same(got, values(), "model.")
    assert torch.equal(got["optim.state.w.exp_avg"], values()["w"] * 2)
    assert len(got) == len(values()) + 1
    torch.save({"model": values(), "more": [1, 2], "view": values()["w"][2:5]}, f"{folder}/model.pt")
    msc("ckpt", "convert", f"{folder}/model.pt", "-o", f"{folder}/pt.safetensors")
    got = load_file(f"{folder}/pt.safetensors")
    same(got, values(), "model.")
    assert torch.equal(got["view"], values()["w"][2:5])
    print(f"{len(values())} tensors of three ranks and of one file")


def check_transformers(folder):
    import transformers
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=50, n_positions=12)
    net = transformers.GPT2LMHeadModel(config)
    net.save_pretrained(f"{folder}/hf", max_shard_size="8KB")
    files = [f for f in os.listdir(f"{folder}/hf") if f.endswith(".safetensors")]
    assert len(files) > 2, files
    msc("ckpt", "convert", f"{folder}/hf", "-o", f"{folder}/one.safetensors")
    for bytes, count in ((10_000, 2), (10**9, 1)):
        again = f"{folder}/again{count}"
        msc("ckpt", "convert", f"{folder}/one.safetensors", "-o", again, "--shard-bytes", bytes)
        assert (len(os.listdir(again)) > 2) == (count == 2), os.listdir(again)
        config.save_pretrained(again)
        read = transformers.GPT2LMHeadModel.from_pretrained(again)
        same(read.state_dict(), net.state_dict())
    print(f"a network of transformers in {len(files)} files and back")


if len(sys.argv) > 1:
    write_distributed(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
else:
    with tempfile.TemporaryDirectory() as top:
        check_torch(top)
        check_transformers(top)
