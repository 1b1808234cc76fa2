"""Trains an adversarial autoencoder: two losses share a graph, so the first backward has to keep it."""

import torch
from shapes import Critic, ShapeCoder, shape_loader


def main():
    coder, critic = ShapeCoder().cuda(), Critic().cuda()
    optimizer = torch.optim.Adam(coder.parameters(), lr=2e-4, fused=True)
    for step, shape in enumerate(shape_loader(batch_size=64, num_workers=4, pin_memory=True)):
        shape = shape.cuda(non_blocking=True)
        code, rebuilt = coder(shape)
        rebuilding = (rebuilt - shape).square().mean()
        fooling = -critic(code).mean()
        optimizer.zero_grad()
        rebuilding.backward(retain_graph=True)
        torch.nn.utils.clip_grad_norm_(coder.parameters(), 1.0)
        fooling.backward()
        optimizer.step()
        if step % 100 == 0:
            print(step, rebuilding.item(), fooling.item())


if __name__ == "__main__":
    main()
