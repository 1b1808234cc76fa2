"""Trains a denoiser and keeps a trace of three early steps with it."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, TensorDataset


def save_trace(profiler):
    profiler.export_chrome_trace("trace.json")


def main():
    clean = torch.randn(8000, 8, 64)
    loader = DataLoader(TensorDataset(clean + 0.3 * torch.randn_like(clean), clean), batch_size=64, shuffle=True)
    model = nn.Sequential(
        nn.Conv1d(8, 96, 5, padding=2),
        nn.GELU(),
        nn.Conv1d(96, 96, 5, padding=2),
        nn.GELU(),
        nn.Conv1d(96, 8, 5, padding=2),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    few = schedule(wait=2, warmup=1, active=3, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=few, on_trace_ready=save_trace) as profiler:
        for epoch in range(20):
            for noisy, target in loader:
                loss = nn.functional.mse_loss(model(noisy), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                profiler.step()
            print(epoch, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
