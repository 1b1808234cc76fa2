"""Distils a wide toxicity model into a narrower one. Input: binary molecular fingerprints, 12 assay outputs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.manual_seed(101)
torch.set_num_threads(1)

BITS, ASSAYS = 2048, 12
TEMPERATURE = 2.0
ALPHA = 0.7


class Fingerprints(IterableDataset):
    """Whole batches, drawn from a pool of molecules that is made once."""

    def __init__(self, molecules=8192, batch=384, batches=900):
        self.bits = (torch.rand(molecules, BITS) < 0.06).float()
        rule = torch.randn(BITS, ASSAYS)
        self.toxic = (self.bits @ rule > 4).float()
        self.batch, self.batches = batch, batches

    def __iter__(self):
        for _ in range(self.batches):
            rows = torch.randint(len(self.bits), (self.batch,))
            yield {"bits": self.bits[rows], "toxic": self.toxic[rows]}


def mlp(*widths):
    layers = []
    for a, b in zip(widths[:-2], widths[1:-1]):
        layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


teacher = mlp(BITS, 1536, 1536, ASSAYS)
student = mlp(BITS, 1024, 1024, 512, ASSAYS)
teacher_opt = torch.optim.SGD(teacher.parameters(), lr=0.05, momentum=0.9, fused=True)
student_opt = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, fused=True)

bce = nn.BCEWithLogitsLoss()
loader = DataLoader(Fingerprints(), batch_size=None)

# teacher and student learn side by side (online distillation)
for step, batch in enumerate(loader):
    bits, toxic = batch["bits"], batch["toxic"]

    teacher_logits = teacher(bits)
    teacher_loss = bce(teacher_logits, toxic)
    teacher_opt.zero_grad()
    teacher_loss.backward()
    teacher_opt.step()

    student_logits = student(bits)
    soft = torch.sigmoid(teacher_logits.detach() / TEMPERATURE)
    student_loss = ALPHA * TEMPERATURE**2 * bce(student_logits / TEMPERATURE, soft) + (1 - ALPHA) * bce(student_logits, toxic)
    student_opt.zero_grad()
    student_loss.backward()
    student_opt.step()

    if step % 50 == 0:
        with torch.no_grad():
            agree = ((student_logits > 0) == (toxic > 0.5)).float().mean()
        print(f"step {step:4d}  teacher {teacher_loss.item():.3f}  student {student_loss.item():.3f}  agree {agree:.3f}")
