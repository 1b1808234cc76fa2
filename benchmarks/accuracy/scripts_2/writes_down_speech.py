"""CTC recogniser of spelled-out codes: recurrent net over filterbank frames.

Recordings come from the same prompt ("say five letters"), so they are all a little over a second long.
"""

import sys
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, Dataset

LETTERS = "abcdefghijklmnopqrst"
BLANK = 0


@dataclass(frozen=True)
class Audio:
    bands: int = 40
    stride_ms: int = 10
    longest_ms: int = 3200

    @property
    def max_frames(self):
        return self.longest_ms // self.stride_ms


@dataclass
class Batch:
    frames: torch.Tensor
    frame_counts: torch.Tensor
    letters: torch.Tensor
    letter_counts: torch.Tensor

    def __len__(self):
        return len(self.frame_counts)


class Recordings(Dataset):
    def __init__(self, audio, count=2400):
        gen = torch.Generator().manual_seed(77)
        voices = torch.randn(len(LETTERS) + 1, audio.bands, generator=gen)
        self.clips = []
        for _ in range(count):
            code = torch.randint(1, len(LETTERS) + 1, (5,), generator=gen)
            spans = torch.randint(20, 24, (5,), generator=gen)
            clean = voices[code.repeat_interleave(spans)]
            self.clips.append((clean + 0.7 * torch.randn(clean.shape, generator=gen), code))

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        return self.clips[index]


class Assemble:
    def __init__(self, audio):
        self.audio = audio

    def __call__(self, clips):
        counts = torch.tensor([len(frames) for frames, _ in clips])
        block = torch.zeros(len(clips), self.audio.max_frames, self.audio.bands)
        for row, (frames, _) in enumerate(clips):
            block[row, : len(frames)] = frames
        letters = torch.stack([code for _, code in clips])
        return Batch(block, counts, letters, torch.full((len(clips),), letters.shape[1]))


class Recogniser(nn.Module):
    def __init__(self, bands, hidden=128):
        super().__init__()
        self.subsample = nn.Conv1d(bands, hidden, kernel_size=3, stride=2, padding=1)
        self.rnn = nn.LSTM(hidden, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, len(LETTERS) + 1)

    def forward(self, frames):
        x = torch.relu(self.subsample(frames.transpose(1, 2))).transpose(1, 2)
        x, _ = self.rnn(x)
        return self.out(x).log_softmax(-1)


def learn(model, batch, opt, ctc):
    log_probs = model(batch.frames).transpose(0, 1)
    loss = ctc(log_probs, batch.letters, (batch.frame_counts + 1) // 2, batch.letter_counts)
    opt.zero_grad()
    loss.backward()
    clip_grad_norm_(model.parameters(), 5.0)
    opt.step()
    return loss.item()


def main(epochs):
    torch.manual_seed(6)
    audio = Audio()
    loader = DataLoader(Recordings(audio), 16, shuffle=True, collate_fn=Assemble(audio), drop_last=True)
    model = Recogniser(audio.bands)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    ctc = nn.CTCLoss(blank=BLANK, zero_infinity=True)
    for epoch in range(epochs):
        losses = [learn(model, batch, opt, ctc) for batch in loader]
        print(f"epoch {epoch}: ctc {sum(losses) / len(losses):.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
