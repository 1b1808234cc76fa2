"""Full fine-tuning loop that keeps a running mean of loss and gradient norm."""

import torch
from recipes import build_loader, build_model


def main():
    device = torch.device("cuda")
    model = build_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    loader = build_loader(batch_size=4, num_workers=4, pin_memory=True)
    mean_loss, mean_norm = 0.0, 0.0
    for step, batch in enumerate(loader):
        tokens = batch["tokens"].to(device, non_blocking=True)
        labels = batch["labels"].to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(tokens, labels)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        mean_loss = 0.99 * mean_loss + 0.01 * loss.item()
        mean_norm = 0.99 * mean_norm + 0.01 * norm.item()
        if step % 100 == 0:
            print(f"step {step}: loss {mean_loss:.4f}, norm {mean_norm:.2f}")


if __name__ == "__main__":
    main()
