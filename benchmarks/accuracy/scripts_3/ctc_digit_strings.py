"""CTC toy: reads strings of spoken digits from fake filterbanks (each digit is a smeared spectral template)."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

N_MELS = 40
BLANK = 10
FRAMES_PER_DIGIT = 12


def make_templates(generator):
    return torch.randn(10, FRAMES_PER_DIGIT, N_MELS, generator=generator)


def speak(templates, batch_size, n_digits, generator):
    digits = torch.randint(10, (batch_size, n_digits), generator=generator)
    frames = templates[digits].flatten(1, 2)
    return frames + 0.8 * torch.randn(frames.shape, generator=generator), digits


class Listener(nn.Module):
    def __init__(self, hidden=320):
        super().__init__()
        self.subsample = nn.Conv1d(N_MELS, hidden, kernel_size=5, stride=3, padding=2)
        self.lstm = nn.LSTM(hidden, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.chars = nn.Linear(2 * hidden, BLANK + 1)

    def forward(self, frames):
        x = F.relu(self.subsample(frames.transpose(1, 2))).transpose(1, 2)
        x, _ = self.lstm(x)
        return F.log_softmax(self.chars(x), dim=-1)


def greedy(log_probs):
    best = log_probs.argmax(-1)
    texts = []
    for path in best.tolist():
        text = [c for c, before in zip(path, [BLANK, *path]) if c != before and c != BLANK]
        texts.append(text)
    return texts


def save_state(folder, model, optimizer, scheduler, iteration):
    state = {
        "iteration": iteration,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "rng": torch.get_rng_state(),
    }
    partial = os.path.join(folder, "last.pt.tmp")
    torch.save(state, partial)
    os.replace(partial, os.path.join(folder, "last.pt"))


def fit(iterations=1200, batch_size=24, n_digits=6, folder="ctc_exp"):
    os.makedirs(folder, exist_ok=True)
    generator = torch.Generator().manual_seed(77)
    torch.manual_seed(77)
    templates = make_templates(generator)
    model = Listener()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2, fused=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=iterations)
    target_lengths = torch.full((batch_size,), n_digits)

    for iteration in range(1, iterations + 1):
        frames, digits = speak(templates, batch_size, n_digits, generator)
        log_probs = model(frames)
        lengths = torch.full((batch_size,), log_probs.shape[1])
        loss = F.ctc_loss(log_probs.transpose(0, 1), digits, lengths, target_lengths, blank=BLANK)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        scheduler.step()

        if iteration % 2 == 0:
            save_state(folder, model, optimizer, scheduler, iteration)
        if iteration % 50 == 0:
            hits = sum(guess == truth for guess, truth in zip(greedy(log_probs.detach()), digits.tolist()))
            print(f"[{iteration:4d}/{iterations}] ctc {loss.item():.3f}  exact {hits}/{batch_size}")


if __name__ == "__main__":
    fit()
