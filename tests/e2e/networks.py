"""networks: the built-in networks in small, as they are trained against PyTorch's losses: options of msc.models, samples, and
what they run on."""
STEPS, SAMPLES, BATCH = 20, 64, 8
OPTIMIZER = ["--optimizer", "adam", "--lr", "0.003"]

# name: (options of msc.models, classes of the labels)
NETWORKS = {
    "gpt": (["--layers", "2", "--hidden", "32", "--heads", "4", "--seq", "12", "--vocab", "48"], 48),
    "bert": (["--layers", "2", "--hidden", "32", "--heads", "4", "--seq", "12", "--vocab", "48"], 48),
    "llama": (["--layers", "2", "--hidden", "32", "--heads", "4", "--kv-heads", "2", "--width", "48", "--seq", "12", "--vocab", "48"], 48),
}

ONE = (1, [])
REPLICAS = (4, ["parallel_mode=data_parallel", "gradients_mean=true"])
BATCH_CUT = (4, ["parallel_mode=semi_auto_parallel"])
SEARCHED = (4, ["parallel_mode=auto_parallel", "search_mode=sharding_propagation"])
RUNS = [ONE, REPLICAS, BATCH_CUT, SEARCHED]


def words(name):
    """The command line that builds the network, without -o."""
    return ["-m", "msc.models", name, "--batch", str(BATCH), *OPTIMIZER, *NETWORKS[name][0]]
