"""Networks that use a few of their parameters for each sample: wide_deep and dlrm look rows of tables up, moe sends
tokens to experts."""
from msc.models import network
from msc.models.transformer import SIZES, STD, Builder

CACHE_ROWS = (0, "rows of a table in the arena, the table itself in host memory; 0: all of it lies there")


@network(fields=(26, "numbers of categories per sample"), vocab=(1000, "categories per field"),
         width=(16, "of a category's embedding"),
         hidden=(256, "width of the tower"), layers=(3, "of the tower"), cache_rows=CACHE_ROWS)
def wide_deep(g, options):
    """wide and deep: click or not from categories; x is [batch, fields], each below vocab, y a probability [batch,
    1]"""
    o, rows = options, options.fields * options.vocab
    x = g.input("x", "i32", [o.batch, o.fields])
    # field f has rows f * vocab ...
    ids = g.add(x, g.constant([f * o.vocab for f in range(o.fields)], "i32"), name="rows")
    wide = g.gather(g.parameter("wide.table", "f32", [rows, 1], init="normal:0.01", cache_rows=o.cache_rows), ids,
                    name="wide")
    deep = g.gather(g.parameter("embedding.table", "f32", [rows, o.width], init="normal:0.01", cache_rows=o.cache_rows),
                    ids, name="embedding")
    h = g.reshape(deep, [-1, o.fields * o.width], name="fields")
    for i in range(o.layers):
        h = g.relu(g.dense(h, o.hidden, name=f"deep{i + 1}"), name=f"relu{i + 1}")
    logits = g.add(g.dense(h, 1, name="out"), g.reduce_sum(wide, [1], name="wide.sum"), name="logit")
    g.output("logits", logits)
    g.loss(g.sigmoid_cross_entropy(logits, g.input("y", "f32", [o.batch, 1], role="label"), name="loss"))


def _tower(g, x, widths, name, last_relu):
    """Dense layers; a relu behind each, but behind the last one only if asked for."""
    for i, width in enumerate(widths):
        x = g.dense(x, width, name=f"{name}{i + 1}")
        if last_relu or i + 1 < len(widths):
            x = g.relu(x, name=f"{name}{i + 1}.relu")
    return x


@network(fields=(26, "numbers of categories per sample"), vocab=(1000, "categories per field"),
         dense=(13, "other numbers per sample"),
         width=(16, "of a category's embedding"), hidden=(64, "width of the towers"),
         layers=(2, "of the tower below, and of the one above"), cache_rows=CACHE_ROWS)
def dlrm(g, options):
    """dlrm: click or not from categories and numbers; x is [batch, fields], each below vocab, numbers [batch, dense], y
    a probability [batch, 1]"""
    o, rows, vectors = options, options.fields * options.vocab, options.fields + 1
    x, numbers = g.input("x", "i32", [o.batch, o.fields]), g.input("numbers", "f32", [o.batch, o.dense])
    # field f has rows f * vocab ...
    ids = g.add(x, g.constant([f * o.vocab for f in range(o.fields)], "i32"), name="rows")
    table = g.parameter("embedding.table", "f32", [rows, o.width], init="normal:0.1", cache_rows=o.cache_rows)
    looked_up = g.gather(table, ids, name="embedding")
    below = _tower(g, numbers, [o.hidden] * (o.layers - 1) + [o.width], "bottom", True)
    z = g.concat([g.reshape(below, [-1, 1, o.width]), looked_up], dim=1, name="vectors")
    products = g.reshape(g.batch_matmul(z, z, transpose_b=True, name="products"), [-1, vectors * vectors])
    pairs = g.constant([i * vectors + j for i in range(vectors) for j in range(i)], "i32")  # of two vectors each
    features = g.concat([below, g.gather(products, pairs, axis=1, name="pairs")], dim=1, name="features")
    logits = _tower(g, features, [o.hidden] * o.layers + [1], "top", False)
    g.output("logits", logits)
    g.loss(g.sigmoid_cross_entropy(logits, g.input("y", "f32", [o.batch, 1], role="label"), name="loss"))


@network(**SIZES, experts=(8, "of every layer"), top_k=(2, "experts of a token"),
         width=(0, "of an expert; 0: 4 times --hidden"),
         capacity_factor=(1.25, "room of the experts, as a multiple of what an even load takes"),
         balance=(0.01, "weight of the load-balancing loss"))
def moe(g, options):
    """decoder whose layers' second half is a mixture of experts; x and y are token numbers [batch, seq]"""
    o, b = options, Builder(g, options)
    x = b.with_positions(b.embedding(b.tokens(), o.vocab, "embedding"))
    uneven = []
    for i in range(o.layers):
        with g.block(f"layer{i}"):
            x = b.added(x, b.attention(b.layer_norm(x, f"layer{i}.norm1"), f"layer{i}.attention", causal=True),
                        f"layer{i}.attention")
            y, loss = g.moe_layer(b.layer_norm(x, f"layer{i}.norm2"), o.experts, o.width or 4 * o.hidden,
                                  f"layer{i}.moe", o.top_k, o.capacity_factor, "gelu", STD)
            x = b.added(x, y, f"layer{i}.moe")
            uneven.append(loss)
    logits = b.linear(b.layer_norm(x, "norm"), o.vocab, "head", bias=False)
    g.output("logits", logits)
    total = g.softmax_cross_entropy(logits, g.input("y", "i32", [o.batch, o.seq], role="label"), name="loss")
    for i, loss in enumerate(uneven):
        total = g.add(total, loss * g.constant(o.balance), name=f"layer{i}.with_balance")
    g.loss(total)
