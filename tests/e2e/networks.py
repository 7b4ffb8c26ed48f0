"""networks: the built-in networks in small, as they are trained against PyTorch's losses: options of msc.models,
samples, and what they run on."""
STEPS, SAMPLES, BATCH = 20, 64, 8
OPTIMIZER = ["--optimizer", "adam", "--lr", "0.003"]

# name: (options of msc.models, classes of the labels)
NETWORKS = {
    "gpt": (["--layers", "2", "--hidden", "32", "--heads", "4", "--seq", "12", "--vocab", "48"], 48),
    "bert": (["--layers", "2", "--hidden", "32", "--heads", "4", "--seq", "12", "--vocab", "48"], 48),
    "llama": ([
        "--layers", "2", "--hidden", "32", "--heads", "4", "--kv-heads", "2", "--width", "48", "--seq", "12", "--vocab",
        "48"
    ], 48),
    "wide_deep": (["--fields", "6", "--vocab", "16", "--width", "8", "--hidden", "32", "--layers", "2"], 2),
    "moe": ([
        "--layers", "2", "--hidden", "32", "--heads", "4", "--seq", "12", "--vocab", "48", "--experts", "4", "--width",
        "24"
    ], 48),
}

ONE = (1, [])
REPLICAS = (4, ["parallel_mode=data_parallel", "gradients_mean=true"])
BATCH_CUT = (4, ["parallel_mode=semi_auto_parallel"])
SEARCHED = (4, ["parallel_mode=auto_parallel", "search_mode=sharding_propagation"])
EXACT = (4, ["parallel_mode=auto_parallel", "search_mode=dynamic_programming", 'mesh={"dp":2,"tp":2}'])
RECURSIVE = (4, ["parallel_mode=auto_parallel", "search_mode=recursive_programming"])
RUNS = [ONE, BATCH_CUT, EXACT]
SLOW_RUNS = [REPLICAS, SEARCHED, RECURSIVE]  # with MSC_TEST_SLOW



def megatron(layers, ups, downs):
    """Batch by two, and inside a layer first the columns, then the rows of weights by two; classes by two to the
    loss."""
    columns, rows = "((2,1,1),(1,2))", "((2,1,2),(2,1))"
    cuts = [(f"layer{i}.{name}", how) for i in range(layers) for names, how in ((ups, columns), (downs, rows))
            for name in names]
    return [
        word for name, how in [*cuts, ("head", columns), ("loss", "((2,1,2),(2,1))")]
        for word in ("--strategy", f"{name}={how}")
    ]


QKV = ["attention.query", "attention.key", "attention.value"]
CUT = (4, ["parallel_mode=auto_parallel", "search_mode=sharding_propagation"])
STRATEGIES = {
    "gpt": megatron(2, [*QKV, "mlp.up"], ["attention.out", "mlp.down"]),
    "bert": megatron(2, [*QKV, "mlp.up"], ["attention.out", "mlp.down"]),
    "wide_deep": [word for name in ("wide", "embedding")
                  for word in ("--strategy", f"{name}=((4,1),(1,1))")],  # rows of tables
    # tokens by group, weights by expert: all-to-alls between them
    "moe": [
        word for i in range(2)
        for cut in ("dispatch=((4,1,1,1),(4,1,1))", "up=((4,1,1,1),(4,1,1))", "down=((4,1,1,1),(4,1,1))")
        for word in ("--strategy", f"layer{i}.moe.{cut}")
    ],
    "llama": megatron(2, [*QKV, "mlp.gate", "mlp.up"], ["attention.out", "mlp.down"]),
}


def words(name, *more):
    """The command line that builds the network, without -o."""
    return ["-m", "msc.models", name, "--batch", str(BATCH), *OPTIMIZER, *NETWORKS[name][0], *more]
