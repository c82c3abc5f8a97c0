#!/usr/bin/env python3
"""Writes train_golden.txt: loss curves of tiny models trained with PyTorch.

tests/stages/parity_test.cpp trains the same models from the same weights on the same tokens and
compares. Weights and tokens come from one integer hash that both sides compute exactly, so nothing
but the losses is stored. Run: python tests/parity/train_reference.py (needs torch).
"""

import math
import pathlib

import torch
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, HIDDEN, CONTEXT, VOCABULARY = 3, 32, 4, 96, 16, 61
SEQUENCES, STEPS = 4, 20
PEAK, WARMUP, FINAL, DECAY, CLIP = 1e-2, 5, 0.1, 0.1, 1.0
BETA1, BETA2, EPSILON = 0.9, 0.95, 1e-8


def hash32(value):
    """The 32-bit finaliser of MurmurHash3."""
    value &= 0xFFFFFFFF
    value ^= value >> 16
    value = value * 0x85EBCA6B & 0xFFFFFFFF
    value ^= value >> 13
    value = value * 0xC2B2AE35 & 0xFFFFFFFF
    return value ^ value >> 16


def shapes(kind, kv_heads):
    """Name -> shape of every parameter, in global order."""
    head = WIDTH // HEADS
    gpt2 = kind == "gpt2"
    named = {"embedding.token.weight": (VOCABULARY, WIDTH)}

    def norm(name):
        named[name + ".weight"] = (WIDTH,)
        if gpt2:
            named[name + ".bias"] = (WIDTH,)

    def linear(name, out, inner):
        named[name + ".weight"] = (out, inner)
        if gpt2:
            named[name + ".bias"] = (out,)

    if gpt2:
        named["embedding.position.weight"] = (CONTEXT, WIDTH)
    for block in range(LAYERS):
        prefix = f"block.{block}."
        norm(prefix + "norm1")
        linear(prefix + "attn.qkv", (HEADS + 2 * kv_heads) * head, WIDTH)
        linear(prefix + "attn.proj", WIDTH, WIDTH)
        norm(prefix + "norm2")
        if gpt2:
            linear(prefix + "mlp.up", HIDDEN, WIDTH)
        else:
            linear(prefix + "mlp.gate_up", 2 * HIDDEN, WIDTH)
        linear(prefix + "mlp.down", WIDTH, HIDDEN)
    norm("norm")
    named["head.weight"] = (VOCABULARY, WIDTH)
    return named


def initial(named, dtype):
    weights = {}
    for place, (name, shape) in enumerate(named.items()):
        centre = 1.0 if "norm" in name and name.endswith(".weight") else 0.0
        values = [
            centre + (hash32(place * 1000003 + i) / 2**32 - 0.5) * 0.25
            for i in range(math.prod(shape))
        ]
        # Through float32 first: the float64 run starts from the very same weights.
        tensor = torch.tensor(values, dtype=torch.float32).to(dtype).reshape(shape)
        weights[name] = tensor.requires_grad_()
    return weights


def tokens(step):
    """Counting by ones, twos or threes from a hashed start: something a model can learn."""
    rows = []
    for sequence in range(SEQUENCES):
        start = hash32(77 + step * SEQUENCES + sequence)
        stride = 1 + start // 64 % 3
        rows.append([(start % VOCABULARY + stride * t) % VOCABULARY for t in range(CONTEXT + 1)])
    return torch.tensor(rows)


def normalise(weights, name, x):
    gain = weights[name + ".weight"]
    if name + ".bias" in weights:
        return F.layer_norm(x, (WIDTH,), gain, weights[name + ".bias"], 1e-5)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * gain


def rotate(x):
    """RoPE on [B, heads, T, D], halves (i, i + D/2)."""
    half = x.shape[-1] // 2
    rate = 10000.0 ** (-2.0 * torch.arange(half, dtype=torch.float64) / x.shape[-1])
    angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * rate[None, :]
    cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cosine - b * sine, a * sine + b * cosine), -1)


def attend(kind, kv_heads, qkv):
    batch, positions, _ = qkv.shape
    head = WIDTH // HEADS
    q, k, v = qkv.split((HEADS * head, kv_heads * head, kv_heads * head), -1)
    q, k, v = (x.reshape(batch, positions, -1, head).transpose(1, 2) for x in (q, k, v))
    if kind == "llama":
        q, k = rotate(q), rotate(k)
    k, v = (x.repeat_interleave(HEADS // kv_heads, 1) for x in (k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return out.transpose(1, 2).reshape(batch, positions, WIDTH)


def loss_of(kind, kv_heads, weights, batch):
    def linear(name, x):
        return F.linear(x, weights[name + ".weight"], weights.get(name + ".bias"))

    inputs, targets = batch[:, :-1], batch[:, 1:]
    x = weights["embedding.token.weight"][inputs]
    if kind == "gpt2":
        x = x + weights["embedding.position.weight"]
    for block in range(LAYERS):
        prefix = f"block.{block}."
        qkv = linear(prefix + "attn.qkv", normalise(weights, prefix + "norm1", x))
        x = x + linear(prefix + "attn.proj", attend(kind, kv_heads, qkv))
        h = normalise(weights, prefix + "norm2", x)
        if kind == "gpt2":
            h = F.gelu(linear(prefix + "mlp.up", h), approximate="tanh")
        else:
            gate, up = linear(prefix + "mlp.gate_up", h).chunk(2, -1)
            h = F.silu(gate) * up
        x = x + linear(prefix + "mlp.down", h)
    logits = linear("head", normalise(weights, "norm", x))
    return F.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))


def rate(step):
    if step < WARMUP:
        return PEAK * step / WARMUP
    progress = (step - WARMUP) / (STEPS - WARMUP)
    return PEAK * (FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * progress)))


def train(kind, kv_heads, dtype):
    weights = initial(shapes(kind, kv_heads), dtype)
    matrices = [w for w in weights.values() if w.dim() > 1]
    vectors = [w for w in weights.values() if w.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}],
        lr=PEAK, betas=(BETA1, BETA2), eps=EPSILON)
    losses = []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss = loss_of(kind, kv_heads, weights, tokens(step))
        loss.backward()
        norm = torch.sqrt(sum(w.grad.double().pow(2).sum() for w in weights.values())).item()
        for w in weights.values():
            w.grad *= min(1.0, CLIP / norm)
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    lines = [f"# torch {torch.__version__}: kind, dtype, {STEPS} losses"]
    for kind, kv_heads in (("gpt2", HEADS), ("llama", HEADS // 2)):
        for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
            losses = " ".join(f"{loss:.12g}" for loss in train(kind, kv_heads, dtype))
            lines.append(f"{kind} {name} {losses}")
    path = pathlib.Path(__file__).with_name("train_golden.txt")
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
