"""Averages the loss of an epoch, together with all the graphs behind it."""

import torch
from ocr import LineReader, line_loader


def main():
    model = LineReader().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    for epoch in range(10):
        total, count = 0.0, 0
        for image, text in line_loader(batch_size=64, num_workers=8, pin_memory=True):
            loss = model.ctc_loss(image.cuda(non_blocking=True), text)
            loss.backward(retain_graph=True)
            optimizer.step()
            optimizer.zero_grad()
            total += loss
            count += 1
        print(f"epoch {epoch}: {total / count:.4f}")


if __name__ == "__main__":
    main()
