"""Trains a keyword model; zero_grad as in an old tutorial."""

import torch
from speech import KeywordNet, keyword_loader
from torch import nn


def main():
    model = KeywordNet(40).to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(25):
        for spectrogram, word in keyword_loader(batch_size=256, num_workers=6, pin_memory=True):
            optimizer.zero_grad(set_to_none=False)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = model(spectrogram.to("cuda", non_blocking=True))
                loss = nn.functional.cross_entropy(logits, word.to("cuda", non_blocking=True))
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
