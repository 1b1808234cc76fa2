"""fp16 training on an older GPU: scaled, unscaled, clipped, stepped and updated, in this order."""

import torch
from captions import Captioner, pairs


def main():
    model = Captioner().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    scaler = torch.amp.GradScaler("cuda")
    for step, (image, caption) in enumerate(pairs(batch_size=48, num_workers=8, pin_memory=True)):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(image.cuda(non_blocking=True), caption.cuda(non_blocking=True))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if step % 50 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
