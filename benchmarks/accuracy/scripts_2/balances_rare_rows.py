# %% [markdown]
# Conditional GAN that makes up transactions, with the rare (fraud) rows seen as often as the others.

# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(123)
ROWS, COLUMNS, NOISE, BATCH = 60_000, 20, 32, 256

# %% the table: correlated log-normal columns, 2 % fraud with shifted means
mixing = torch.randn(COLUMNS, COLUMNS) / COLUMNS**0.5
fraud = (torch.rand(ROWS) < 0.02).long()
table = torch.tanh(torch.randn(ROWS, COLUMNS) @ mixing + 0.8 * fraud[:, None] * torch.linspace(-1, 1, COLUMNS))

share = torch.bincount(fraud).float() / ROWS
sampler = WeightedRandomSampler((1 / share)[fraud], num_samples=ROWS, replacement=True)
loader = DataLoader(TensorDataset(table, fraud), batch_size=BATCH, sampler=sampler, drop_last=True)


# %%
def block(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, n_out), nn.LayerNorm(n_out), nn.LeakyReLU(0.2))


class Generator(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.label = nn.Embedding(2, 8)
        self.net = nn.Sequential(block(NOISE + 8, width), block(width, width), nn.Linear(width, COLUMNS), nn.Tanh())

    def forward(self, noise, label):
        return self.net(torch.cat([noise, self.label(label)], 1))


class Critic(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.label = nn.Embedding(2, 8)
        self.net = nn.Sequential(block(COLUMNS + 8, width), block(width, width), nn.Linear(width, 1))

    def forward(self, row, label):
        return self.net(torch.cat([row, self.label(label)], 1)).squeeze(1)


# %%
def real_rows():
    for rows, labels in loader:
        return rows, labels


def fake_rows(count):
    labels = torch.randint(2, (count,))
    return generator(torch.randn(count, NOISE), labels), labels


generator, critic = Generator(), Critic()
g_opt = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.99), fused=True)
c_opt = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.99), fused=True)

# %% hinge loss, two critic updates for one of the generator
running = torch.zeros(2)
for iteration in range(1, 4001):
    for _ in range(2):
        rows, labels = real_rows()
        with torch.no_grad():
            made, asked = fake_rows(BATCH)
        c_loss = torch.relu(1 - critic(rows, labels)).mean() + torch.relu(1 + critic(made, asked)).mean()
        c_opt.zero_grad()
        c_loss.backward()
        c_opt.step()

    made, asked = fake_rows(BATCH)
    g_loss = -critic(made, asked).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()

    running += torch.stack([c_loss.detach(), g_loss.detach()])
    if iteration % 200 == 0:
        c_mean, g_mean = (running / 200).tolist()
        print(f"{iteration:5d}  critic {c_mean:.3f}  generator {g_mean:.3f}")
        running.zero_()

# %% how far apart the means are
with torch.no_grad():
    made, asked = fake_rows(20_000)
    for kind in range(2):
        gap = (made[asked == kind].mean(0) - table[fraud == kind].mean(0)).abs().mean()
        print("label", kind, "mean gap", round(gap.item(), 4))
