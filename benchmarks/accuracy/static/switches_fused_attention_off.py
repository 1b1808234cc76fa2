"""Trains a music transformer; the fused kernels were switched off to compare logits with the old code."""

import torch
from music import Composer, score_loader

torch.backends.cuda.enable_flash_sdp(False)
torch.backends.cuda.enable_mem_efficient_sdp(False)


def main():
    model = Composer(width=768, depth=12).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.1, fused=True)
    for step, notes in enumerate(score_loader(batch_size=24, num_workers=4, pin_memory=True)):
        notes = notes.to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(notes[:, :-1], notes[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
