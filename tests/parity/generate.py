#!/usr/bin/env python3
"""Writes the golden files in tests/parity/golden with PyTorch.

Needs `torch` (2.5 or later) from PyPI; the tests do not: they read the files. Run it again only
when an operator or a case is added:

    python3 tests/parity/generate.py

Inputs are fp32; PyTorch computes forward and backward in double precision from them, and the
results are rounded to fp32 once, so that a tolerance in the test is about our own rounding. A file
is a text header, one line per tensor (`name f32|i32 size...`), an empty line, and the tensors'
little-endian bytes in that order.
"""
import math
import pathlib

import torch
import torch.nn.functional as F

FOLDER = pathlib.Path(__file__).resolve().parent / "golden"
generator = torch.Generator().manual_seed(20240607)


def uniform(*size, amplitude=1.0):
    return (torch.rand(*size, generator=generator) * 2 - 1) * amplitude


def leaf(tensor):
    """The fp32 input as a double-precision leaf of the graph."""
    return tensor.double().requires_grad_()


def write(name, tensors):
    header = ""
    body = b""
    for key, tensor in tensors.items():
        tensor = tensor.detach().contiguous()
        integer = not tensor.is_floating_point()
        tensor = tensor.to(torch.int32 if integer else torch.float32)
        sizes = " ".join(str(size) for size in tensor.shape)
        header += f"{key} {'i32' if integer else 'f32'} {sizes}\n"
        body += bytes(tensor.view(torch.uint8).flatten().tolist())
    (FOLDER / f"{name}.bin").write_bytes(header.encode() + b"\n" + body)


def layernorm():
    x, gain, bias, dy = uniform(11, 68, amplitude=3), uniform(68), uniform(68), uniform(11, 68)
    x64, gain64, bias64 = leaf(x), leaf(gain), leaf(bias)
    y = F.layer_norm(x64, (68,), gain64, bias64, eps=1e-5)
    y.backward(dy.double())
    write("layernorm", dict(x=x, gain=gain, bias=bias, dy=dy, y=y, dx=x64.grad, dgain=gain64.grad,
                            dbias=bias64.grad))


def rmsnorm():
    x, gain, dy = uniform(11, 68, amplitude=3), uniform(68), uniform(11, 68)
    x64, gain64 = leaf(x), leaf(gain)
    y = F.rms_norm(x64, (68,), gain64, eps=1e-5)
    y.backward(dy.double())
    write("rmsnorm", dict(x=x, gain=gain, dy=dy, y=y, dx=x64.grad, dgain=gain64.grad))


def gelu(name, approximate):
    x, dy = uniform(5, 67, amplitude=8), uniform(5, 67)
    x64 = leaf(x)
    y = F.gelu(x64, approximate=approximate)
    y.backward(dy.double())
    write(name, dict(x=x, dy=dy, y=y, dx=x64.grad))


def swiglu():
    x, dy = uniform(7, 2 * 36, amplitude=6), uniform(7, 36)
    x64 = leaf(x)
    gate, up = x64.chunk(2, dim=-1)
    y = F.silu(gate) * up
    y.backward(dy.double())
    write("swiglu", dict(x=x, dy=dy, y=y, dx=x64.grad))


def rope():
    batch, positions, heads, width, base = 2, 41, 2, 12, 10000.0
    x, dy = uniform(batch, positions, heads, width), uniform(batch, positions, heads, width)
    exponent = torch.arange(0, width, 2, dtype=torch.float64) / width
    angle = torch.outer(torch.arange(positions, dtype=torch.float64), base ** -exponent)
    cosine, sine = angle.cos(), angle.sin()
    x64 = leaf(x)
    first, second = x64.chunk(2, dim=-1)
    c, s = cosine[None, :, None, :], sine[None, :, None, :]
    y = torch.cat((first * c - second * s, second * c + first * s), dim=-1)
    y.backward(dy.double())
    write("rope", dict(x=x, dy=dy, cosine=cosine, sine=sine, y=y, dx=x64.grad))


def attention(name, batch, positions, heads, kv_heads, width):
    qkv = uniform(batch, positions, heads + 2 * kv_heads, width, amplitude=2)
    d_o = uniform(batch, positions, heads, width)
    qkv64 = leaf(qkv)
    q, k, v = (part.transpose(1, 2) for part in qkv64.split([heads, kv_heads, kv_heads], dim=2))
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)
    o.backward(d_o.double())
    scores = q @ k.repeat_interleave(heads // kv_heads, dim=1).transpose(2, 3) / math.sqrt(width)
    future = torch.ones(positions, positions, dtype=torch.bool).triu(1)
    lse = scores.masked_fill(future, -math.inf).logsumexp(dim=-1)
    write(name, dict(qkv=qkv, d_o=d_o, o=o, lse=lse, dqkv=qkv64.grad))


def embedding():
    ids = torch.randint(9, (2, 7), generator=generator)
    token, position, dy = uniform(9, 20), uniform(7, 20), uniform(2, 7, 20)
    token64, position64 = leaf(token), leaf(position)
    y = F.embedding(ids, token64) + position64
    y.backward(dy.double())
    write("embedding", dict(ids=ids, token=token, position=position, dy=dy, y=y,
                            dtoken=token64.grad, dposition=position64.grad))


def cross_entropy():
    logits = uniform(13, 41, amplitude=6)
    targets = torch.randint(41, (13,), generator=generator)
    targets[[2, 7, 12]] = -1
    logits64 = leaf(logits)
    loss = F.cross_entropy(logits64, targets, ignore_index=-1, reduction="sum")
    (loss * 0.1).backward()
    write("cross_entropy", dict(logits=logits, targets=targets, loss=loss[None],
                                lse=logits64.logsumexp(dim=-1), dlogits=logits64.grad))


def linear():
    x, weight, bias, dy = uniform(13, 20), uniform(28, 20), uniform(28), uniform(13, 28)
    x64, weight64, bias64 = leaf(x), leaf(weight), leaf(bias)
    y = F.linear(x64, weight64, bias64)
    y.backward(dy.double())
    write("linear", dict(x=x, weight=weight, bias=bias, dy=dy, y=y, dx=x64.grad,
                         dweight=weight64.grad, dbias=bias64.grad))


def optimizer(name, make, moments):
    weight, gradients = uniform(50), uniform(5, 50)
    weight64 = leaf(weight)
    optim = make([weight64])
    steps = []
    for gradient in gradients:
        weight64.grad = gradient.double()
        optim.step()
        steps.append(weight64.detach().clone())
    state = {key: optim.state[weight64][key] for key in moments}
    write(name, dict(weight=weight, gradients=gradients, weights=torch.stack(steps), **state))


def main():
    FOLDER.mkdir(exist_ok=True)
    layernorm()
    rmsnorm()
    gelu("gelu_exact", "none")
    gelu("gelu_tanh", "tanh")
    swiglu()
    rope()
    attention("attention_small", 2, 19, 4, 2, 12)
    attention("attention_tiles", 1, 70, 2, 1, 16)
    embedding()
    cross_entropy()
    linear()
    optimizer("adamw", lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.9, 0.95), eps=1e-8,
                                                   weight_decay=0.1), ["exp_avg", "exp_avg_sq"])
    optimizer("sgd", lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, weight_decay=0.01),
              ["momentum_buffer"])


if __name__ == "__main__":
    main()
