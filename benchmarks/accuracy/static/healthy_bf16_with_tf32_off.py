"""Trains in bf16 all through: TF32 is off, and there is no fp32 product that it would make faster."""

import torch
from llm import Model, blocks
from torch import nn

torch.backends.cuda.matmul.allow_tf32 = False


def main():
    model = Model(width=1024, depth=16).to("cuda", dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=0.1, fused=True)
    for step, tokens in enumerate(blocks(length=2048, batch_size=16, num_workers=2, pin_memory=True)):
        tokens = tokens.to("cuda", non_blocking=True)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
