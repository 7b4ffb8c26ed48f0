"""Networks of other hands in small: name -> (module whose forward gives a loss, example inputs)."""

import torch
from torch import nn

import plain

BATCH, LENGTH, WORDS, WIDTH, HEADS, LAYERS = 4, 16, 96, 32, 4, 2


class WithLoss(nn.Module):
    """The loss of a transformers model that is given labels."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values):
        return self.model(**dict(zip(self.names, values))).loss


class Classifier(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.model(x), y)


def _ids(length=LENGTH):
    return torch.randint(0, WORDS, (BATCH, length))


def _language_model(cls, config, mask=False):
    x = _ids()
    names, values = ("input_ids", "labels"), (x, x.clone())
    if mask:
        names, values = names + ("attention_mask",), values + (torch.ones_like(x),)
    return WithLoss(cls(config), names), values


def _images(size):
    return torch.randn(BATCH, 3, size, size), torch.randint(0, 10, (BATCH,))


def _transformers(name, attention):
    import transformers as tr

    words = {"attn_implementation": attention} if attention else {}
    small = dict(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=64,
        **words,
    )
    grouped = dict(small, num_key_value_heads=2)
    if name == "bloom":
        config = tr.BloomConfig(vocab_size=WORDS, hidden_size=WIDTH, n_layer=LAYERS, n_head=HEADS)
        return _language_model(tr.BloomForCausalLM, config)
    if name == "gemma2":
        return _language_model(tr.Gemma2ForCausalLM, tr.Gemma2Config(**grouped, head_dim=8))
    if name == "llama4":  # queries and keys as complex numbers
        words = dict(num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=1, attention_chunk_size=8)
        config = tr.Llama4TextConfig(**grouped, head_dim=8, intermediate_size_mlp=64, pad_token_id=None, **words)
        return _language_model(tr.Llama4ForCausalLM, config)
    if name == "gpt_oss":
        config = tr.GptOssConfig(**grouped, head_dim=8, num_local_experts=4, num_experts_per_tok=2)
        return _language_model(tr.GptOssForCausalLM, config)
    if name == "wav2vec2":
        del small["max_position_embeddings"]
        config = tr.Wav2Vec2Config(
            **small,
            conv_dim=(16, 16),
            conv_stride=(5, 2),
            conv_kernel=(10, 3),
            num_feat_extract_layers=2,
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
            apply_spec_augment=False,
            layerdrop=0.0,
            ctc_loss_reduction="mean",
        )
        inputs = torch.randn(BATCH, 400), torch.randint(1, WORDS, (BATCH, 6))
        return WithLoss(tr.Wav2Vec2ForCTC(config), ("input_values", "labels")), inputs
    if name == "gpt2":
        config = tr.GPT2Config(vocab_size=WORDS, n_positions=64, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, **words)
        return _language_model(tr.GPT2LMHeadModel, config)
    if name == "llama":
        return _language_model(tr.LlamaForCausalLM, tr.LlamaConfig(**grouped))
    if name == "qwen3":
        return _language_model(tr.Qwen3ForCausalLM, tr.Qwen3Config(**grouped, head_dim=8))
    if name == "mixtral":
        config = tr.MixtralConfig(**grouped, num_local_experts=4, num_experts_per_tok=2, sliding_window=None)
        return _language_model(tr.MixtralForCausalLM, config)
    if name == "mamba":
        config = tr.MambaConfig(
            vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, state_size=8, time_step_rank=4
        )
        return _language_model(tr.MambaForCausalLM, config)
    if name == "bert":
        return _language_model(tr.BertForMaskedLM, tr.BertConfig(**small), mask=True)
    if name == "distilbert":
        config = tr.DistilBertConfig(
            vocab_size=WORDS,
            dim=WIDTH,
            hidden_dim=64,
            n_layers=LAYERS,
            n_heads=HEADS,
            max_position_embeddings=64,
            **words,
        )
        return _language_model(tr.DistilBertForMaskedLM, config, mask=True)
    if name == "t5":
        config = tr.T5Config(
            vocab_size=WORDS,
            d_model=WIDTH,
            d_kv=8,
            d_ff=64,
            num_layers=LAYERS,
            num_heads=HEADS,
            decoder_start_token_id=0,
            **words,
        )
        return WithLoss(tr.T5ForConditionalGeneration(config), ("input_ids", "labels")), (_ids(), _ids(8))
    if name == "longformer":  # attention in chunks, cut from memory by strides
        return _language_model(tr.LongformerForMaskedLM, tr.LongformerConfig(**small, attention_window=[4, 4]))
    if name == "deberta":  # products of which each head shares one operand over the batch
        config = tr.DebertaConfig(**small, relative_attention=True, pos_att_type=["c2p", "p2c"])
        return _language_model(tr.DebertaForMaskedLM, config, mask=True)
    if name == "fnet":  # Fourier transforms in place of attention
        del small["num_attention_heads"]
        config = tr.FNetConfig(**small, use_tpu_fourier_optimizations=False)
        return _language_model(tr.FNetForMaskedLM, config)
    if name == "mobilebert":  # whose head has a parameter without elements
        return _language_model(tr.MobileBertForMaskedLM, tr.MobileBertConfig(**small, embedding_size=WIDTH), mask=True)
    if name in ("minimax", "qwen3_next"):  # linear attention in blocks; experts whose weights are divided in place
        kinds = dict(layer_types=["linear_attention", "full_attention"], num_experts_per_tok=2, head_dim=8)
        if name == "minimax":
            config = tr.MiniMaxConfig(**grouped, **kinds, num_local_experts=4, block_size=8)
            return _language_model(tr.MiniMaxForCausalLM, config)
        config = tr.Qwen3NextConfig(
            **grouped,
            **kinds,
            num_experts=4,
            moe_intermediate_size=32,
            shared_expert_intermediate_size=32,
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
        )
        return _language_model(tr.Qwen3NextForCausalLM, config)
    if name == "rwkv":  # a recurrence whose state is a quotient of sums of exponentials
        widths = dict(hidden_size=WIDTH, attention_hidden_size=WIDTH)
        config = tr.RwkvConfig(vocab_size=WORDS, num_hidden_layers=LAYERS, **widths)
        return _language_model(tr.RwkvForCausalLM, config)
    if name == "mamba2":  # its scan in chunks, as products
        words = dict(num_heads=4, head_dim=16, n_groups=1, state_size=8, chunk_size=8)
        config = tr.Mamba2Config(vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, **words)
        return _language_model(tr.Mamba2ForCausalLM, config)
    if name == "led":
        config = tr.LEDConfig(
            vocab_size=WORDS,
            d_model=WIDTH,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            attention_window=[4, 4],
            max_encoder_position_embeddings=64,
            max_decoder_position_embeddings=64,
        )
        return WithLoss(tr.LEDForConditionalGeneration(config), ("input_ids", "labels")), (_ids(), _ids(8))
    if name == "prophetnet":
        config = tr.ProphetNetConfig(
            vocab_size=WORDS,
            hidden_size=WIDTH,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            num_encoder_layers=LAYERS,
            num_decoder_layers=LAYERS,
            num_encoder_attention_heads=HEADS,
            num_decoder_attention_heads=HEADS,
            max_position_embeddings=64,
        )
        return WithLoss(tr.ProphetNetForConditionalGeneration(config), ("input_ids", "labels")), (_ids(), _ids(8))
    if name == "vit":
        config = tr.ViTConfig(
            hidden_size=WIDTH,
            intermediate_size=64,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            image_size=32,
            patch_size=8,
            num_labels=10,
            **words,
        )
        return WithLoss(tr.ViTForImageClassification(config), ("pixel_values", "labels")), _images(32)
    raise KeyError(name)


def _vision(name, size=64):
    import torchvision.models as tv

    words = {"image_size": size} if name == "vit_b_16" else {}
    return Classifier(getattr(tv, name)(num_classes=10, **words)), _images(size)


class Regions(nn.Module):
    """Classes of regions of images (image, left, top, right, bottom), of which some reach beyond them."""

    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8 * 2 * 9, 10)

    def forward(self, x, regions, y):
        from torchvision.ops import roi_align

        h = torch.tanh(self.a(x))
        exact, adaptive = roi_align(h, regions, (3, 3), 0.5, 2, True), roi_align(h, regions, (3, 3), 0.5)
        return nn.functional.cross_entropy(self.out(torch.cat([exact, adaptive], 1).flatten(1)), y)


def _regions():
    corner = torch.rand(8, 2) * 40 - 4
    regions = torch.cat([torch.arange(8)[:, None] % BATCH, corner, corner + torch.rand(8, 2) * 30], 1)
    return Regions(), (torch.randn(BATCH, 3, 16, 16), regions, torch.randint(0, 10, (8,)))


def _timm(name, size=64, **words):
    import timm

    return Classifier(timm.create_model(name, num_classes=10, **words)), _images(size)


TRANSFORMERS = [
    f"{n}/{a}"
    for n in ("gpt2", "llama", "qwen3", "bert", "distilbert", "t5", "vit", "mixtral")
    for a in ("eager", "sdpa")
] + ["mamba", "bloom", "gemma2", "llama4", "gpt_oss", "wav2vec2", "longformer", "deberta", "prophetnet", "fnet"]
TRANSFORMERS += ["mobilebert", "minimax", "qwen3_next", "led", "rwkv", "mamba2"]
VISION = ["resnet18", "resnet50", "mobilenet_v3_small", "convnext_tiny", "swin_t", "vit_b_16", "efficientnet_b0"]
VISION += ["regions"]
TIMM = {
    "deit_tiny": ("deit_tiny_patch16_224", {"img_size": 64}),
    "mixer": ("mixer_s32_224", {"img_size": 64}),
    "regnet": ("regnety_002", {}),
    "volo": ("volo_d1_224", {"img_size": 64}),
}
NAMES = TRANSFORMERS + VISION + list(TIMM)


def make(name):
    torch.manual_seed(0)
    if name in TIMM:
        return _timm(TIMM[name][0], **TIMM[name][1])
    if name == "regions":
        return _regions()
    if name in VISION:
        return _vision(name)
    if name in plain.MODELS:
        return plain.MODELS[name]()
    return _transformers(*(name.split("/") if "/" in name else (name, None)))
