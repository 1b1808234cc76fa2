"""Trains the ranking model on one GPU."""

import torch
from ranking import Ranker, query_loader


def main():
    model = Ranker(features=700).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for epoch in range(5):
        for query, gain in query_loader(batch_size=512, num_workers=6, pin_memory=True):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model.loss(query.cuda(non_blocking=True), gain.cuda(non_blocking=True))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
