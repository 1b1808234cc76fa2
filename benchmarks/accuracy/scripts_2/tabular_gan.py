# Tabular GAN (hinge loss) for synthetic customer records, converted from the notebook.
import numpy as np
import torch
import torch.nn as nn

SEED = 1234
np.random.seed(SEED)
torch.manual_seed(SEED)

# %% data: 24 correlated columns, standardised
rng = np.random.default_rng(SEED)
mix = rng.normal(size=(24, 24)) / 5
latent = rng.normal(size=(200_000, 24)) * rng.choice([0.5, 1.0, 2.0], size=(200_000, 1))
table = np.tanh(latent @ mix) + 0.05 * rng.normal(size=latent.shape)
table = (table - table.mean(0)) / table.std(0)
real_rows = torch.from_numpy(table.astype(np.float32))

BATCH = 1024
NOISE = 64
WIDTH = 512
N_ITER = 4000


# %% networks
def mlp(n_in, n_out, act):
    return nn.Sequential(
        nn.Linear(n_in, WIDTH), act(),
        nn.Linear(WIDTH, WIDTH), act(),
        nn.Linear(WIDTH, WIDTH), act(),
        nn.Linear(WIDTH, n_out),
    )


G = mlp(NOISE, real_rows.shape[1], nn.ReLU)
D = mlp(real_rows.shape[1], 1, lambda: nn.LeakyReLU(0.2))

opt_g = torch.optim.Adam(G.parameters(), lr=1e-4, betas=(0.0, 0.9), fused=True)
opt_d = torch.optim.Adam(D.parameters(), lr=4e-4, betas=(0.0, 0.9), fused=True)


def sample_real():
    idx = torch.randint(len(real_rows), (BATCH,))
    return real_rows[idx]


# %% training
mean_d, mean_g = 0.0, 0.0
for it in range(1, N_ITER + 1):
    # discriminator
    with torch.no_grad():
        fake = G(torch.randn(BATCH, NOISE))
    d_loss = torch.relu(1 - D(sample_real())).mean() + torch.relu(1 + D(fake)).mean()
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()

    # generator; D gets no gradients here
    D.requires_grad_(False)
    g_loss = -D(G(torch.randn(BATCH, NOISE))).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    D.requires_grad_(True)

    # exponential running means for the progress line
    mean_d = 0.98 * mean_d + 0.02 * d_loss.item()
    mean_g = 0.98 * mean_g + 0.02 * g_loss.item()
    if it % 100 == 0:
        print(f"[{it:5d}/{N_ITER}] D {mean_d:+.3f}  G {mean_g:+.3f}", flush=True)

# %% how well do the marginals agree?
with torch.no_grad():
    fake = G(torch.randn(20_000, NOISE))
    print("std ratio", (fake.std(0) / real_rows.std(0)).numpy().round(2))
torch.save({"G": G.state_dict(), "D": D.state_dict()}, "tabular_gan.pt")
