"""An update is put together from sixteen micro-batches of two samples; the device could take them at once."""

import torch
from timing import Steps, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = arguments()
device = "cuda" if torch.cuda.is_available() else "cpu"
width, depth, length = (32, 2, 16) if args.small else (768, 8, 256)
VOCABULARY = 8192
MICRO_BATCH = 2
ACCUMULATION = 16


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)))


torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
data = TensorDataset(torch.randint(VOCABULARY, (100_000, length)))
loader = DataLoader(data, batch_size=MICRO_BATCH, shuffle=True, pin_memory=device == "cuda")

steps = Steps(args)
is_over = False
while not is_over:
    for number, (tokens,) in enumerate(loader):
        tokens = tokens.to(device, non_blocking=True)
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(tokens)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        (loss / ACCUMULATION).backward()
        if (number + 1) % ACCUMULATION == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if steps.done():
                is_over = True
                break
