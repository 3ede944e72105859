#!/usr/bin/env python3
"""Seconds of GPT-2 124M training steps in PyTorch on the CPU, one JSON line: see bench/peers/run.py.

AdamW, one sequence batch, tied head, no dropout: the step that trireme_bench_step measures. In bf16 the weights have an
fp32 master that the optimizer updates, and gradients are accumulated in fp32.
"""
import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional

LAYERS, HIDDEN, HEADS, VOCAB = 12, 768, 12, 50257


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.proj = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def attention(self, x):
        batch, seq, _ = x.shape
        q, k, v = (part.view(batch, seq, HEADS, HIDDEN // HEADS).transpose(1, 2)
                   for part in self.qkv(x).split(HIDDEN, 2))
        if hasattr(functional, "scaled_dot_product_attention"):
            out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) * (HIDDEN // HEADS) ** -0.5
            mask = torch.ones(seq, seq, dtype=torch.bool).tril()
            out = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        return self.proj(out.transpose(1, 2).reshape(batch, seq, HIDDEN))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, seq):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(seq, HIDDEN)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        logits = self.norm(self.blocks(x)) @ self.tokens.weight.t()
        return functional.cross_entropy(logits.float().view(-1, VOCAB), labels.view(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=1, help="measured ones, after one that is not")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = Gpt2(args.seq)
    masters = [p.detach().clone() for p in model.parameters()]
    if args.dtype == "bf16":
        model = model.bfloat16()
    optimizer = torch.optim.AdamW(masters, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
    forward = torch.compile(model) if args.compile else model
    data = torch.randint(VOCAB, (args.micro_batch, args.seq + 1))

    def step():
        forward(data[:, :-1], data[:, 1:].contiguous()).backward()
        for master, parameter in zip(masters, model.parameters()):
            master.grad = parameter.grad.float()
            parameter.grad = None
        nn.utils.clip_grad_norm_(masters, 1.0)
        optimizer.step()
        with torch.no_grad():
            for master, parameter in zip(masters, model.parameters()):
                parameter.copy_(master)

    step()
    seconds = []
    for _ in range(args.steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"peer": f"PyTorch {torch.__version__}" + (" compiled" if args.compile else " eager"),
                      "dtype": args.dtype, "seconds": seconds}))


if __name__ == "__main__":
    main()
