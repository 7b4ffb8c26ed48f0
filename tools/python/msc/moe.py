"""moe_layer: a mixture of experts in ordinary ops, with a fixed capacity per expert (Lepikhin et al., 2020; Fedus et
al., 2021).

Letters: g groups of s tokens of d numbers, e experts with c places for tokens of each group, f their width.  Cutting e
of the experts' weights makes the two changes between tokens and experts all-to-alls; nothing else has to be said."""
from math import ceil, sqrt

from msc.ops import Error


def moe_layer(g, x, experts, width, name, top_k=2, capacity_factor=1.25, activation="relu", std=None):
    """x [g, s, d] -> y [g, s, d] and the load-balancing loss, a number to be added to the model's.  Each token goes to
    its top_k experts with the renormalised weights of the router; an expert takes at most ceil(s * top_k *
    capacity_factor / experts) tokens of a group, first choices before second ones and then in order; a token that finds
    no place gets zeros. Parameters NAME.router.weight [d, e], NAME.up.weight [e, d, f] and NAME.down.weight [e, f,
    d]."""
    if len(x.shape) != 3 or -1 in x.shape[1:]:
        raise Error(f"moe_layer: x must be [groups, tokens, numbers], not {list(x.shape)}")
    if not 1 <= top_k <= experts:
        raise Error(f"moe_layer: top_k {top_k} is not in 1..{experts}")
    tokens, d = x.shape[1:]
    capacity = max(1, ceil(tokens * top_k * capacity_factor / experts))

    def weight(part, shape):
        init = f"normal:{std!r}" if std else f"uniform:{1 / sqrt(shape[-2])!r}"
        return g.parameter(f"{name}.{part}.weight", x.dtype, shape, init=init)

    def with_name(part):
        return f"{name}.{part}"

    gates = g.softmax(g.einsum([x, weight("router", [d, experts])], "gsd,de->gse", name=with_name("router")),
                      name=with_name("gates"))
    values, chosen = g.topk(gates, top_k, name=with_name("top"))
    shares = values / g.reduce_sum(values, [2], keep_dims=True, name=with_name("total"))
    choices, weights = g.split(chosen, 2, [1] * top_k), g.split(shares, 2, [1] * top_k)
    dispatch = combine = taken = first = None
    for k in range(top_k):
        mask = g.one_hot(g.reshape(choices[k], [-1, tokens]), experts, dtype=x.dtype, name=with_name(f"choice{k}"))
        before = g.cumsum(mask, axis=1, exclusive=True, name=with_name(f"before{k}"))
        if taken is not None:
            before = before + taken
        count = g.reduce_sum(mask, [1], keep_dims=True)
        taken = count if taken is None else taken + count
        place = g.cast(g.reduce_sum(before * mask, [2]), "i32")  # at the capacity or beyond: no place
        place = g.one_hot(place, capacity, dtype=x.dtype, name=with_name(f"place{k}"))
        to = g.einsum([mask, place], "gse,gsc->gsec", name=with_name(f"to{k}"))
        back = g.einsum([g.reshape(weights[k], [-1, tokens]), to], "gs,gsec->gsec", name=with_name(f"back{k}"))
        dispatch, combine = (to, back) if dispatch is None else (dispatch + to, combine + back)
        first = mask if first is None else first
    inside = g.einsum([dispatch, x], "gsec,gsd->egcd", name=with_name("dispatch"))
    h = g.einsum([inside, weight("up", [experts, d, width])], "egcd,edf->egcf", name=with_name("up"))
    h = {"relu": g.relu, "silu": g.silu, "gelu": lambda t, **n: g.gelu(t, "tanh", **n)}[activation](h,
        name=with_name(activation))
    h = g.einsum([h, weight("down", [experts, width, d])], "egcf,efd->egcd", name=with_name("down"))
    y = g.einsum([combine, h], "gsec,egcd->gsd", name=with_name("combine"))
    load, share = g.reduce_mean(first, [1]), g.reduce_mean(gates, [1])
    balance = g.mul(g.reduce_mean(load * share, [0, 1]), g.constant(float(experts * experts), x.dtype),
                    name=with_name("balance"))
    return y, balance
