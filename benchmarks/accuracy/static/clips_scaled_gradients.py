"""fp16 training of a speech encoder; the clipping sees gradients that are 65,536 times too large."""

import torch
from encoder import SpeechEncoder, utterances


def main():
    model = SpeechEncoder().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    scaler = torch.amp.GradScaler("cuda")
    for step, (audio, units) in enumerate(utterances(batch_size=12, num_workers=8, pin_memory=True)):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(audio.cuda(non_blocking=True), units.cuda(non_blocking=True))
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if step % 50 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
