"""Tags every note of a melody with its harmonic function. Was melody_tagger.ipynb; cells kept in order."""

# %% setup
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler

torch.manual_seed(5)
rng = np.random.default_rng(5)

PITCHES, DURATIONS, FUNCTIONS = 90, 16, 9
BATCH = 24

# %% the collection: jingles and folk tunes, and some whole movements
counts = np.clip(rng.lognormal(mean=3.5, sigma=0.65, size=9600), 10, 220).astype(int)
melodies = []
for count in counts:
    pitch = torch.from_numpy(rng.integers(1, PITCHES, count))
    length = torch.from_numpy(rng.integers(1, DURATIONS, count))
    melodies.append((pitch, length, (pitch * 7 + length) % FUNCTIONS))


class Melodies(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        pitch, length, function = self.items[i]
        return {"pitch": pitch, "length": length, "function": function}


# %% how the batches are drawn
class SimilarCounts(Sampler):
    """Shuffles, sorts within pools of fifty batches, and shuffles the batches."""

    def __init__(self, counts, size):
        self.counts, self.size = counts, size

    def __len__(self):
        return len(self.counts) // self.size

    def __iter__(self):
        order = rng.permutation(len(self.counts))
        pools = np.array_split(order, max(1, len(order) // (50 * self.size)))
        order = np.concatenate([pool[np.argsort(self.counts[pool])] for pool in pools])
        batches = [order[k : k + self.size].tolist() for k in range(0, len(self) * self.size, self.size)]
        return iter([batches[k] for k in rng.permutation(len(batches))])


class AsTheyCome(Sampler):
    def __init__(self, counts, size):
        self.order, self.size = RandomSampler(range(len(counts))), size

    def __len__(self):
        return len(self.order) // self.size

    def __iter__(self):
        order = list(self.order)
        return iter([order[k : k + self.size] for k in range(0, len(self) * self.size, self.size)])


def stack(rows):
    out = {key: pad_sequence([r[key] for r in rows], batch_first=True) for key in ("pitch", "length")}
    out["function"] = pad_sequence([r["function"] for r in rows], batch_first=True, padding_value=-100)
    return out


DRAW = {"similar": SimilarCounts, "random": AsTheyCome}
draw = "random"
data = DataLoader(Melodies(melodies), batch_sampler=DRAW[draw](counts, BATCH), collate_fn=stack)


# %% model
class Tagger(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.pitch = nn.Embedding(PITCHES, width, padding_idx=0)
        self.length = nn.Embedding(DURATIONS, width, padding_idx=0)
        self.mix = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(5))
        self.out = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, FUNCTIONS))

    def forward(self, pitch, length):
        x = (self.pitch(pitch) + self.length(length)).transpose(1, 2)
        for conv in self.mix:
            x = x + F.gelu(conv(x))
        return self.out(x.transpose(1, 2))


tagger = Tagger()
optimizer = torch.optim.AdamW(tagger.parameters(), lr=5e-4, fused=True)

# %% training
seen = 0
for epoch in range(8):
    for batch in data:
        scores = tagger(batch["pitch"], batch["length"])
        loss = F.cross_entropy(scores.flatten(0, 1), batch["function"].flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += 1
        if seen % 100 == 0:
            print(f"{epoch} {seen} {loss.item():.3f}")
