"""torch_gpt: sizes of a GPT-2 in; the milliseconds of a training step of the same network by torch.compile, in bf16,
and its bytes of GPU memory out."""
WARM_UP = 3  # steps that compile, tune and fill caches: neither their time nor their memory counts


def torch_step(layers, hidden, heads, seq, batch, vocab, steps, mode="default", narrow=False):
    """The same network by torch.compile, which tunes with the mode "max-autotune"; None: torch is not there or sees
    no GPU.  narrow: what blocks add to is of bf16, as msc's; autocast keeps it in f32."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    nn, f = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            q, k, v = (t.view(batch, seq, heads, hidden // heads).transpose(1, 2)
                       for t in self.qkv(self.norm1(x)).split(hidden, 2))
            y = f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, seq, hidden)
            x = x + self.out(y)
            return x + self.down(f.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, vocab, bias=False)

        def forward(self, x, y):
            h = self.tokens(x) + self.places.weight
            h = self.blocks(h.to(torch.bfloat16) if narrow else h)
            return f.cross_entropy(self.head(self.norm(h)).view(-1, vocab), y.view(-1))

    model = Gpt().cuda()
    step = torch.compile(model, mode=mode)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x, y = (torch.randint(vocab, (batch, seq), device="cuda") for _ in range(2))
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def milliseconds():
        begin.record()
        with torch.autocast("cuda", torch.bfloat16):
            loss = step(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end)

    for _ in range(WARM_UP):
        milliseconds()
    torch.cuda.reset_peak_memory_stats()
    times = sorted(milliseconds() for _ in range(steps))
    return times[steps // 2], torch.cuda.max_memory_allocated()
